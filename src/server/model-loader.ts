import path from 'node:path';
import type { Clock } from '../clock.js';
import { InferenceServerError } from '../errors.js';
import { InstancePool } from '../execution/instance-pool.js';
import type { HostServices } from '../execution/model-instances.js';
import { modelKey } from '../inference/model-key.js';
import { completeModelConfig } from '../model-config/complete-model-config.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { validateBackend, validateModelConfig } from '../model-config/validate-model-config.js';
import type { Logger } from '../observability/logger.js';
import {
  ModelStatisticsRecorder,
  type RecorderOptions,
} from '../observability/statistics-recorder.js';
import type { Tracer } from '../observability/tracer.js';
import type { LocalizedModel } from '../repository/model-repository.js';
import type { ParallelLimit } from '../repository/parallel-limit.js';
import type { PendingRequest } from '../scheduling/pending-request.js';
import type { RateLimiter } from '../scheduling/rate-limiter.js';
import { FirstResponseTiming } from './first-response-timing.js';
import { estimateMemory } from './memory-estimate.js';
import { Model } from './model.js';
import type { VersionLoader } from './model-control.js';
import { createExecutors } from './model-executors.js';
import { checkVersionDirectory, readInitialState, readLabels } from './model-files.js';
import { generationOf, type ModelRevision } from './model-revision.js';
import { createRequestValidator } from './request-validation.js';
import type { SchedulerFactory } from './scheduler-factory.js';
import { runWarmup } from './warmup-run.js';

/** What holds for every model that is loaded. */
export interface ModelLoaderOptions {
  /** The compiled `workers/instance-worker.js`. */
  readonly workerFile: string;
  readonly isAutoCompleteEnabled: boolean;
  readonly cores: number;
  /** Backend → its `--backend-config`; '' holds settings for every backend. */
  readonly backendConfig: ReadonlyMap<string, Readonly<Record<string, string>>>;
  readonly executionTimeoutMs: number;
  readonly loadRetriesMax: number;
}

/** What the loader takes from the rest of the server. */
export interface ModelLoaderParts {
  readonly slots: ParallelLimit;
  readonly schedulers: SchedulerFactory;
  /** Undefined with `--rate-limit=off`. */
  readonly limiter: RateLimiter | undefined;
  readonly tracer: Tracer;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly recorderOptions: RecorderOptions;
  /** `--metrics-config=histogram_latencies=true`. */
  readonly areFirstResponsesMeasured: boolean;
  /** Labels of a served model's outputs. */
  labelsOf(key: string): ReadonlyMap<string, readonly string[]>;
  hostServices(modelName: string): HostServices;
  logVerboseLevel(): number;
}

/** A model that does not finish within this time ends with its thread. */
const finalizeTimeoutMs = 10_000;
/** What the reference server gives `is_ready`. */
const readinessTimeoutMs = 5_000;
const retryDelayMs = 1_000;

/** Loads one version: instances, completed configuration, scheduler, warm-up. */
export class ModelLoader implements VersionLoader {
  readonly #options: ModelLoaderOptions;
  readonly #parts: ModelLoaderParts;

  constructor(options: ModelLoaderOptions, parts: ModelLoaderParts) {
    this.#options = options;
    this.#parts = parts;
  }

  /** Rejects with the version's reason, after `loadRetriesMax` further tries. */
  async load(revision: ModelRevision, version: string): Promise<Model> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#loadOnce(revision, version);
      } catch (error) {
        const reason = describeLoadFailure(error);
        this.#parts.logger.error(
          `failed to load '${modelKey(revision.id)}' version ${version}: ${reason}`,
        );
        if (attempt >= this.#options.loadRetriesMax) throw error;
        await new Promise((resolve) => setTimeout(resolve, retryDelayMs));
      }
    }
  }

  async #loadOnce(revision: ModelRevision, version: string): Promise<Model> {
    // Files that have to be fetched come for all models at once; only what loads takes a slot.
    const files = await revision.localize();
    try {
      return await this.#parts.slots.run(() => this.#loadFiles(revision, version, files));
    } catch (error) {
      await files.release();
      throw error;
    }
  }

  async #loadFiles(
    revision: ModelRevision,
    version: string,
    files: LocalizedModel,
  ): Promise<Model> {
    this.#parts.logger.info(`loading: ${modelKey(revision.id)}:${version}`);
    const { directory } = files;
    const release = () => files.release();
    await checkVersionDirectory(path.join(directory, version), revision.id.name, version);
    return revision.config.ensemble_scheduling === undefined
      ? this.#loadModel(revision, version, directory, release)
      : this.#loadEnsemble(revision, version, directory, release);
  }

  async #loadModel(
    revision: ModelRevision,
    version: string,
    modelDirectory: string,
    releaseFiles: () => Promise<void>,
  ): Promise<Model> {
    const { clock } = this.#parts;
    const startNs = clock.nowNs();
    validateBackend(revision.config);
    const services = this.#parts.hostServices(revision.id.name);
    const pool = new InstancePool(
      {
        workerFile: this.#options.workerFile,
        modelName: revision.id.name,
        modelVersion: version,
        modelDirectory,
        versionDirectory: path.join(modelDirectory, version),
        backend: revision.config.backend,
        backendConfig: this.#backendConfig(revision.config.backend),
        config: revision.config,
        isAutoCompleteEnabled: this.#options.isAutoCompleteEnabled,
        cores: this.#options.cores,
        logVerboseLevel: this.#parts.logVerboseLevel(),
        executionTimeoutMs: this.#options.executionTimeoutMs,
        startTimeoutMs: 0,
        finalizeTimeoutMs,
        readinessTimeoutMs,
        heapMiBMax: 0,
      },
      services,
      clock,
    );
    const config = await pool.start((completed) => complete(revision, completed));
    const recorder = this.#newRecorder(revision.id.name, version);
    let releasePlaces = () => {};
    try {
      const model = { ...revision.id, version, config };
      const isDecoupled = config.model_transaction_policy?.decoupled ?? false;
      const validate = createRequestValidator(config);
      const memoryBytes = await estimateMemory(
        path.join(modelDirectory, version),
        pool.members().length,
      );
      await runWarmup(config, version, modelDirectory, validate, pool, clock);
      const { executors, isFixed, release } = createExecutors(
        pool,
        version,
        config,
        recorder,
        this.#parts.limiter,
      );
      releasePlaces = release;
      return new Model({
        ...model,
        labels: await readLabels(config, modelDirectory),
        isDecoupled,
        validate,
        scheduler: this.#parts.schedulers.forModel(
          {
            config,
            version,
            generation: generationOf(revision, version),
            initialState: await readInitialState(config, modelDirectory),
            recorder,
          },
          executors,
        ),
        isCached: this.#parts.schedulers.isCached(config),
        instances: pool,
        memoryBytes,
        hasFixedInstances: isFixed,
        recorder,
        firstResponses: this.#firstResponses(config, isDecoupled),
        tracer: this.#parts.tracer,
        clock,
        release: () => {
          release();
          return releaseFiles();
        },
        loadSecs: (clock.nowNs() - startNs) / 1e9,
      });
    } catch (error) {
      releasePlaces();
      await pool.destroy();
      throw error;
    }
  }

  async #loadEnsemble(
    revision: ModelRevision,
    version: string,
    modelDirectory: string,
    release: () => Promise<void>,
  ): Promise<Model> {
    const { clock, schedulers } = this.#parts;
    const startNs = clock.nowNs();
    const { config } = revision;
    validateModelConfig(config);
    const plan = schedulers.planEnsemble(config);
    const recorder = this.#newRecorder(revision.id.name, version);
    const onExecuted = ({ rows, timing }: PendingRequest) =>
      recorder.executed(rows, [
        timing.computeStartNs,
        timing.computeInputEndNs,
        timing.computeOutputStartNs,
        timing.computeEndNs,
      ]);
    return new Model({
      ...revision.id,
      version,
      config,
      labels: this.#withStepLabels(config, await readLabels(config, modelDirectory)),
      isDecoupled: plan.isDecoupled,
      validate: createRequestValidator(config),
      scheduler: schedulers.forEnsemble(
        {
          config,
          version,
          generation: generationOf(revision, version),
          initialState: new Map(),
          recorder,
        },
        plan,
        onExecuted,
      ),
      isCached: schedulers.isCached(config),
      instances: undefined,
      memoryBytes: 0,
      hasFixedInstances: false,
      recorder,
      firstResponses: this.#firstResponses(config, plan.isDecoupled),
      tracer: this.#parts.tracer,
      clock,
      release,
      loadSecs: (clock.nowNs() - startNs) / 1e9,
    });
  }

  /** An output without labels of its own has those of the step's output that it is. */
  #withStepLabels(
    config: ModelConfig,
    own: ReadonlyMap<string, readonly string[]>,
  ): ReadonlyMap<string, readonly string[]> {
    const labels = new Map(own);
    for (const step of config.ensemble_scheduling?.step ?? []) {
      const key = modelKey({ namespace: step.model_namespace, name: step.model_name });
      for (const [stepOutput, tensor] of Object.entries(step.output_map)) {
        const stepLabels = this.#parts.labelsOf(key).get(stepOutput);
        if (stepLabels !== undefined && !labels.has(tensor)) labels.set(tensor, stepLabels);
      }
    }
    return labels;
  }

  #firstResponses(config: ModelConfig, isDecoupled: boolean): FirstResponseTiming | undefined {
    const { clock, areFirstResponsesMeasured } = this.#parts;
    return isDecoupled && areFirstResponsesMeasured
      ? new FirstResponseTiming(config, clock)
      : undefined;
  }

  #newRecorder(name: string, version: string): ModelStatisticsRecorder {
    const { clock, recorderOptions } = this.#parts;
    return new ModelStatisticsRecorder(name, version, clock, recorderOptions);
  }

  #backendConfig(backend: string): Readonly<Record<string, string>> {
    const { backendConfig } = this.#options;
    return { ...backendConfig.get(''), ...backendConfig.get(backend) };
  }
}

/** `Invalid argument: text`, as the reference server words a version's reason. */
export function describeLoadFailure(error: unknown): string {
  if (error instanceof InferenceServerError) return `${statusNames[error.code]}: ${error.message}`;
  return `Internal: ${error instanceof Error ? error.message : String(error)}`;
}

const statusNames = {
  UNKNOWN: 'Unknown',
  INTERNAL: 'Internal',
  NOT_FOUND: 'Not found',
  INVALID_ARG: 'Invalid argument',
  UNAVAILABLE: 'Unavailable',
  UNSUPPORTED: 'Unsupported',
  ALREADY_EXISTS: 'Already exists',
  CANCELLED: 'Cancelled',
} as const;

function complete(revision: ModelRevision, completed: ModelConfig | undefined): ModelConfig {
  const config = completeModelConfig(completed ?? revision.config, {
    modelName: revision.id.name,
    versionFiles: [],
  });
  validateModelConfig(config);
  return config;
}
