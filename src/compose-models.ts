import { fileURLToPath } from 'node:url';
import type { Clock } from './clock.js';
import { availableCores } from './execution/available-cores.js';
import type { CustomMetrics } from './observability/custom-metrics.js';
import type { LogSettings, TextLogger } from './observability/text-logger.js';
import type { Tracer } from './observability/tracer.js';
import type { ServerOptions } from './options.js';
import { distinctLocations, openModelRepository } from './repository/open-model-repository.js';
import { ParallelLimit } from './repository/parallel-limit.js';
import type { RepositoryEvents } from './repository/repository-events.js';
import type { Environment } from './repository/s3-credentials.js';
import { Admission } from './scheduling/admission.js';
import { RateLimiter } from './scheduling/rate-limiter.js';
import { LocalResponseCache, type ResponseCache } from './scheduling/response-cache.js';
import { CallGraph } from './server/call-graph.js';
import { ModelControl } from './server/model-control.js';
import { ModelLoader } from './server/model-loader.js';
import { ModelRegistry } from './server/model-registry.js';
import { ModelServices } from './server/model-services.js';
import { type LoadedModels, OnDemandModels } from './server/on-demand-models.js';
import { RepositorySet } from './server/repository-set.js';
import { RevisionFinder } from './server/revision-finder.js';
import { RevisionReader } from './server/revision-reader.js';
import { SchedulerFactory } from './server/scheduler-factory.js';
import { ServerCore } from './server/server-core.js';

/** Everything between the front ends and the model files. */
export interface ComposedModels {
  readonly core: ServerCore;
  readonly control: ModelControl;
  /** In mode `on-demand` only. */
  readonly onDemand: OnDemandModels | undefined;
  readonly registry: ModelRegistry;
  readonly repositories: RepositorySet;
  /** `--cache-config`'s; undefined where the server has none. */
  readonly cache: ResponseCache | undefined;
}

export interface ModelsEnvironment {
  readonly clock: Clock;
  readonly logger: TextLogger;
  readonly logSettings: LogSettings;
  readonly tracer: Tracer;
  readonly customMetrics: CustomMetrics;
  readonly repositoryEvents: RepositoryEvents;
  readonly serverVersion: string;
  /** The process's, for what the SDKs of stores read from it. */
  readonly environment: Environment;
}

/** Extensions of the v2 protocol that this server implements. */
const extensions: readonly string[] = [
  'classification',
  'sequence',
  'model_repository',
  'model_repository(unload_dependents)',
  'schedule_policy',
  'model_configuration',
  'system_shared_memory',
  'cuda_shared_memory',
  'binary_tensor_data',
  'parameters',
  'statistics',
  'trace',
  'logging',
];

const workerFile = fileURLToPath(new URL('../workers/instance-worker.js', import.meta.url));

/** Rejects where a repository cannot be opened. Nothing is loaded yet. */
export async function composeModels(
  options: ServerOptions,
  environment: ModelsEnvironment,
): Promise<ComposedModels> {
  const { clock, logger, repositoryEvents } = environment;
  const registry = new ModelRegistry();
  const locations = await distinctLocations(options.repository.locations);
  const repositories = new RepositorySet(
    await Promise.all(
      locations.map((location) =>
        openModelRepository(location, {
          clock,
          events: repositoryEvents,
          watchMode: options.repository.watchMode,
          cacheDirectory:
            options.repository.cacheDirectory === ''
              ? undefined
              : options.repository.cacheDirectory,
          environment: environment.environment,
        }),
      ),
    ),
    options.repository.isNamespaced ? 'by-repository' : 'off',
    logger,
  );
  const cache = await openCache(options, logger);
  const reader = new RevisionReader(
    {
      configName: options.repository.configName,
      isAutoCompleteEnabled: !options.repository.isAutoCompleteDisabled,
    },
    logger,
  );
  const loader = new ModelLoader(
    {
      workerFile,
      isAutoCompleteEnabled: !options.repository.isAutoCompleteDisabled,
      cores: availableCores(),
      backendConfig: options.execution.backendConfig,
      executionTimeoutMs: options.execution.timeoutMs,
      loadRetriesMax: options.repository.loadRetriesMax,
    },
    {
      slots: new ParallelLimit(options.repository.loadsMax),
      schedulers: new SchedulerFactory(
        clock,
        {
          servedModel: (name, version) => core.servedModel(name, version),
          infer: (request, handler) => core.inferWithin(request, handler),
        },
        cache,
      ),
      limiter: options.rateLimit.isEnabled
        ? new RateLimiter(options.rateLimit.resources)
        : undefined,
      tracer: environment.tracer,
      clock,
      logger,
      recorderOptions: { isSummarized: options.metrics.families.isSummaryLatencies },
      areFirstResponsesMeasured: options.metrics.families.isHistogramLatencies,
      labelsOf: (name) => core.servedModel(name, '').labels,
      hostServices: (name) =>
        new ModelServices(name, calls, core, logger, environment.customMetrics),
      logVerboseLevel: () => environment.logSettings.verboseLevel,
    },
  );
  const calls = new CallGraph((name, version) => core.instancesOf(name, version));
  const finder = new RevisionFinder(repositories, reader, registry, logger);
  const control = new ModelControl(registry, repositories, finder, loader, logger);
  const { controlMode } = options.repository;
  const onDemand =
    controlMode === 'on-demand'
      ? new OnDemandModels(
          control,
          registryView(registry),
          options.repository.residency,
          clock,
          logger,
        )
      : undefined;
  const core: ServerCore = new ServerCore(registry, control, {
    metadata: { name: options.id, version: environment.serverVersion, extensions },
    controlMode,
    // A model that somebody asked for and that does not load must not stop all others.
    isReadinessStrict: options.lifetime.isStrictReadiness && controlMode !== 'on-demand',
    admission: new Admission({
      requestsMax: options.limits.inflightRequestsMax,
      bytesMax: options.limits.inflightBytesMax,
    }),
    onDemand,
  });
  return { onDemand, core, control, registry, repositories, cache };
}

function registryView(registry: ModelRegistry): LoadedModels {
  return {
    served: (name, version) => registry.resolve(name, version).served,
    bytesOf: (name) => {
      const versions = registry.record(name)?.entry.readyVersions() ?? [];
      return versions.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
    },
  };
}

async function openCache(
  { cache }: ServerOptions,
  logger: TextLogger,
): Promise<ResponseCache | undefined> {
  switch (cache?.kind) {
    case undefined:
      return undefined;
    case 'local':
      return new LocalResponseCache(cache.sizeBytes);
    case 'redis': {
      // Loaded here, so that only servers that use it pay for it.
      const { connectRedis } = await import('./scheduling/redis-response-cache.js');
      const where = `response cache: Redis at ${cache.host}:${cache.port}`;
      return connectRedis(cache, {
        lost(error) {
          const reason = error instanceof Error ? error.message : String(error);
          logger.warning(`${where} is not to be had, everything is a miss: ${reason}`);
        },
        found: () => logger.info(`${where} answers again`),
      });
    }
  }
}
