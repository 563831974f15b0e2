import { systemClock } from './clock.js';
import { type ComposedModels, composeModels } from './compose-models.js';
import { DownloadReport, downloadBar, downloadLines } from './download-report.js';
import { internal } from './errors.js';
import type { GrpcServer, GrpcServerDeps } from './grpc/grpc-server.js';
import { createHttpServer, type HttpServer } from './http/http-server.js';
import { createMetricsServer, type MetricsServer } from './http/metrics-server.js';
import { CustomMetrics } from './observability/custom-metrics.js';
import { EventLoopLag } from './observability/event-loop-lag.js';
import { type LogOutput, openLogOutput } from './observability/log-output.js';
import { Metrics, metricsContentType } from './observability/metrics.js';
import { ProcessorUse, readProcessFamilies } from './observability/process-metrics.js';
import { RepositoryCounters } from './observability/repository-counters.js';
import { type LogSettings, TextLogger } from './observability/text-logger.js';
import { Tracer } from './observability/tracer.js';
import type { LogOptions, ServerOptions } from './options.js';
import type { RepositoryEvents } from './repository/repository-events.js';
import type { Environment } from './repository/s3-credentials.js';
import { PollControl } from './server/poll-control.js';
import {
  defaultTraceSettings,
  type ServerSettings,
  TraceSettingsStore,
} from './server/settings.js';
import { SharedMemoryRegistry } from './server/shared-memory.js';
import {
  describeEmptiness,
  exampleCurl,
  formatStartupTable,
  startupRows,
} from './startup-report.js';

/** A front end for one protocol. */
interface FrontEnd {
  readonly protocol: string;
  listen(): Promise<{ readonly address: string; readonly port: number }>;
  /** Takes no new connections; resolves when the open ones have ended. */
  drain(): Promise<void>;
  destroy(): void;
}

/** Builds every component and wires it; rejects where the server cannot run as asked. */
export async function composeServer(
  options: ServerOptions,
  serverVersion: string,
  environment: Environment,
): Promise<ComposedServer> {
  const clock = systemClock;
  const logSettings = readLogSettings(options.log);
  const logOutput = openLogOutput(options.log.file);
  const logger = new TextLogger(logSettings, logOutput.write, clock.wallMs);
  for (const warning of options.warnings) logger.warning(warning);
  const customMetrics = new CustomMetrics();
  const counters = new RepositoryCounters();
  const trace = new TraceSettingsStore({ ...defaultTraceSettings, ...readTrace(options) });
  const tracer = new Tracer(
    (modelName) => trace.get(modelName),
    options.trace.file,
    (error) => logger.error(`trace file '${options.trace.file}': ${error.message}`),
  );
  trace.onChange = () => tracer.policyChanged();
  const models = await composeModels(options, {
    clock,
    logger,
    logSettings,
    tracer,
    customMetrics,
    repositoryEvents: listenToRepositories(
      counters,
      composeDownloadReport(logOutput, logger, logSettings),
      logger,
    ),
    serverVersion,
    environment,
  });
  const metrics = composeMetrics(options, models, customMetrics, counters);
  const settings: ServerSettings = {
    log: logSettings,
    logFile: options.log.file,
    trace,
  };
  const regions = new SharedMemoryRegistry({
    isEnabled: options.isClientShmAllowed,
    directory: '/dev/shm',
  });
  const frontEnds: FrontEnd[] = [];
  // Opened before HTTP, by which most clients judge that the server is ready.
  if (options.grpc.isAllowed) {
    frontEnds.push(grpcFrontEnd(options, models, { logger, regions, settings, clock }));
  }
  if (options.http.isAllowed) {
    const deps = { logger, regions, settings, metrics };
    const server = createHttpServer({ ...options.http, hasExtraRoutes: true }, models.core, deps);
    frontEnds.push({ protocol: 'HTTP', ...bound(server) });
  }
  const metricsServer = options.metrics.isAllowed
    ? createMetricsServer(options.metrics, metrics, logger)
    : undefined;
  return new ComposedServer(options, {
    models,
    frontEnds,
    metricsServer,
    counters,
    tracer,
    logger,
    logOutput,
  });
}

/** The gRPC libraries take about 100 ms to load: they do so while models load. */
function grpcFrontEnd(
  options: ServerOptions,
  models: ComposedModels,
  deps: GrpcServerDeps,
): FrontEnd {
  const server = import('./grpc/grpc-server.js').then(({ createGrpcServer }) =>
    createGrpcServer(options.grpc, models.core, deps),
  );
  // What goes wrong is told by `listen`.
  server.catch(() => undefined);
  let opened: GrpcServer | undefined;
  return {
    protocol: 'GRPC',
    async listen() {
      opened = await server;
      return opened.listen();
    },
    drain: async () => opened?.drain(),
    destroy: () => opened?.destroy(),
  };
}

interface ComposedParts {
  readonly models: ComposedModels;
  readonly frontEnds: readonly FrontEnd[];
  readonly metricsServer: MetricsServer | undefined;
  readonly counters: RepositoryCounters;
  readonly tracer: Tracer;
  readonly logger: TextLogger;
  readonly logOutput: LogOutput;
}

/** A composed server, as the process drives it. */
export class ComposedServer {
  readonly #options: ServerOptions;
  readonly #parts: ComposedParts;
  #polls: PollControl | undefined;

  constructor(options: ServerOptions, parts: ComposedParts) {
    this.#options = options;
    this.#parts = parts;
  }

  /** Loads models, then opens the ports. Rejects where the server must not run. */
  async start(): Promise<void> {
    await this.#loadAtStart();
    const { core, control } = this.#parts.models;
    const index = await core.repositoryIndex(false);
    const table = formatStartupTable(startupRows(index, control.problems()));
    this.#parts.logger.table('models', table.split('\n'));
    const { locations } = this.#options.repository;
    if (index.length === 0 && control.problems().size === 0) {
      this.#parts.logger.warning(describeEmptiness(locations));
    }
    if (this.#options.lifetime.isExitOnError && control.hasFailures) {
      throw internal(
        'Internal - failed to load all models (--exit-on-error=false serves those that load)',
      );
    }
    core.startServing();
    for (const frontEnd of this.#parts.frontEnds) {
      const { address, port } = await frontEnd.listen();
      this.#parts.logger.info(`Started ${frontEnd.protocol} service at ${hostPort(address, port)}`);
      if (frontEnd.protocol === 'HTTP') this.#reportReady(address, port);
    }
    const at = await this.#parts.metricsServer?.listen();
    if (at !== undefined) {
      this.#parts.logger.info(`Started Metrics service at ${hostPort(at.address, at.port)}`);
    }
    await this.#startPolling();
  }

  /**
   * Readiness turns false, then after `delayMs` the listeners close; resolves when everything
   * accepted has been answered and every model has ended.
   */
  async stop(delayMs: number): Promise<void> {
    this.#parts.logger.info(
      `stopping: not ready from now on, at most ${this.#options.lifetime.exitTimeoutSecs} s for what is in flight`,
    );
    this.#parts.models.core.startDraining();
    if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
    await this.#polls?.close();
    await Promise.all(this.#parts.frontEnds.map((frontEnd) => frontEnd.drain()));
    await this.#parts.models.core.stop();
    await this.#close();
    this.#parts.logger.info('stopped: everything accepted has been answered');
    this.#parts.logOutput.close();
  }

  /** Ends now what `stop` waits for. */
  async destroy(): Promise<void> {
    for (const frontEnd of this.#parts.frontEnds) frontEnd.destroy();
    await this.#parts.models.core.destroy();
    await this.#close();
  }

  logExitTimeout(): void {
    this.#parts.logger.error('Exit timeout expired. Exiting immediately.');
  }

  async #close(): Promise<void> {
    for (const frontEnd of this.#parts.frontEnds) frontEnd.destroy();
    this.#parts.metricsServer?.destroy();
    await this.#parts.models.repositories.close();
    await this.#parts.models.cache?.close();
    await this.#parts.tracer.close();
  }

  async #loadAtStart(): Promise<void> {
    const { controlMode, startupModels } = this.#options.repository;
    const { control, onDemand, repositories } = this.#parts.models;
    if (onDemand !== undefined) {
      await onDemand.open();
      return;
    }
    if (controlMode !== 'explicit' || startupModels.includes('*')) {
      await control.loadAll();
      return;
    }
    await repositories.scan();
    const noOverride = { config: undefined, files: new Map<string, Uint8Array>() };
    const loads = startupModels.map((name) => control.load(name, noOverride));
    for (const load of await Promise.allSettled(loads)) {
      if (load.status === 'rejected') this.#parts.logger.error(String(load.reason));
    }
  }

  async #startPolling(): Promise<void> {
    const { repository } = this.#options;
    if (repository.controlMode !== 'poll') return;
    const { repositories, control } = this.#parts.models;
    const counters = this.#parts.counters;
    this.#polls = new PollControl(
      repositories,
      control,
      { intervalNs: repository.pollSecs * 1e9 },
      systemClock,
      this.#parts.logger,
      (_repository, { durationNs, outcome }) => {
        counters.polls += 1;
        counters.pollSecs += durationNs / 1e9;
        counters.lastPollSecs = durationNs / 1e9;
        if (outcome.kind === 'failed') counters.failedPolls += 1;
      },
    );
    await this.#polls.start();
  }

  #reportReady(address: string, port: number): void {
    const configs = this.#parts.models.registry.readyModels().map((model) => model.served.config);
    const reachable = address === '0.0.0.0' || address === '::' ? '127.0.0.1' : address;
    const curl = exampleCurl(configs, hostPort(reachable, port));
    this.#parts.logger.info(
      `ready ${(process.uptime() * 1000).toFixed(0)} ms after the process started`,
    );
    if (curl !== undefined) this.#parts.logger.table('try it', [`  ${curl}`]);
  }
}

function composeMetrics(
  options: ServerOptions,
  models: ComposedModels,
  customMetrics: CustomMetrics,
  counters: RepositoryCounters,
) {
  const readModels = () => models.registry.readyModels().map((model) => model.metered());
  const metrics = new Metrics(readModels, options.metrics.families);
  if (options.metrics.isCpuAllowed) {
    const use = new ProcessorUse(systemClock, options.metrics.intervalMs);
    metrics.addFamilies(() => use.families());
  }
  const lag = new EventLoopLag();
  metrics.addFamilies(() => lag.families());
  metrics.addFamilies(readProcessFamilies);
  metrics.addFamilies(() => counters.families());
  metrics.addFamilies(() => customMetrics.families());
  metrics.addText(() => customMetrics.formatHistograms());
  return { contentType: metricsContentType, render: () => metrics.render() };
}

/** A bar where somebody watches the log and reads it, lines where it is kept. */
function composeDownloadReport(
  { status }: LogOutput,
  logger: TextLogger,
  { isInfoLogged, format }: LogSettings,
): DownloadReport {
  const hasBar = status !== undefined && isInfoLogged && format !== 'json';
  return new DownloadReport(
    systemClock,
    hasBar ? downloadBar(status, logger) : downloadLines(logger),
  );
}

function listenToRepositories(
  counters: RepositoryCounters,
  downloads: DownloadReport,
  logger: TextLogger,
): RepositoryEvents {
  return {
    warned: (message) => logger.warning(message),
    downloaded({ bytes }) {
      counters.downloads += 1;
      counters.downloadedBytes += bytes;
    },
    failed(operation, error) {
      counters.failedStoreRequests += 1;
      logger.error(`${operation} request to the store failed: ${error.message}`);
    },
    progressed: (progress) => downloads.update(progress),
  };
}

function readLogSettings(log: LogOptions): LogSettings {
  const { verboseLevel, isInfoLogged, isWarningLogged, isErrorLogged, format } = log;
  return { verboseLevel, isInfoLogged, isWarningLogged, isErrorLogged, format };
}

function readTrace({ trace }: ServerOptions) {
  const levels = trace.levels.length === 0 ? (['OFF'] as const) : trace.levels;
  return { ...trace, levels };
}

function bound(server: HttpServer): Omit<FrontEnd, 'protocol'> {
  return {
    listen: () => server.listen(),
    drain: () => server.drain(),
    destroy: () => server.destroy(),
  };
}

function hostPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
