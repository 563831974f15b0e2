import type { Clock } from '../clock.js';
import { InferenceServerError, internal } from '../errors.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { type CacheRecorder, CachingScheduler } from '../scheduling/caching-scheduler.js';
import { DirectScheduler } from '../scheduling/direct-scheduler.js';
import { DynamicBatcher, lookAfterArrivals } from '../scheduling/dynamic-batcher.js';
import {
  type EnsembleMember,
  type EnsemblePlan,
  planEnsemble,
} from '../scheduling/ensemble-plan.js';
import type { InferStep } from '../scheduling/ensemble-run.js';
import { EnsembleScheduler } from '../scheduling/ensemble-scheduler.js';
import { ExecutorGroup } from '../scheduling/executors.js';
import type { PendingRequest } from '../scheduling/pending-request.js';
import type { ResponseCache } from '../scheduling/response-cache.js';
import type { BatchExecutor, Scheduler } from '../scheduling/scheduler.js';
import { dynamicBatchingOptions } from '../scheduling/scheduling-options.js';
import { SequenceBatcher } from '../scheduling/sequence-batcher.js';
import { sequenceOptions } from '../scheduling/sequence-options.js';
import type { ServedModel } from './inference-server.js';

/** What ensembles need of the server that they run in. */
export interface EnsembleHost {
  /** Throws `InferenceServerError` where the model is not READY. */
  servedModel(name: string, version: string): ServedModel;
  readonly infer: InferStep;
}

/** A loaded version, as far as schedulers depend on it. */
export interface ScheduledModel {
  readonly config: ModelConfig;
  readonly version: string;
  /** Differs for every load whose answers may differ. */
  readonly generation: string;
  /** Contents of the files that `initialStateFiles` names. */
  readonly initialState: ReadonlyMap<string, Uint8Array>;
  readonly recorder: CacheRecorder;
}

/** Chooses the scheduler that a configuration asks for. */
export class SchedulerFactory {
  readonly #clock: Clock;
  readonly #host: EnsembleHost;
  readonly #cache: ResponseCache | undefined;

  /** `cache` is `--cache-config`'s; undefined where the server has none. */
  constructor(clock: Clock, host: EnsembleHost, cache: ResponseCache | undefined) {
    this.#clock = clock;
    this.#host = host;
    this.#cache = cache;
  }

  /** `executors`: one for each instance, or one over all of a model that keeps no sequences. */
  forModel(model: ScheduledModel, executors: readonly BatchExecutor[]): Scheduler {
    return this.#cached(model, this.#uncached(model, executors));
  }

  /** INVALID_ARG names the step and tensor that is wrong. */
  planEnsemble(config: ModelConfig): EnsemblePlan {
    return planEnsemble(config, (name, version) => this.#member(name, version));
  }

  forEnsemble(
    model: ScheduledModel,
    plan: EnsemblePlan,
    onExecuted: (pending: PendingRequest) => void,
  ): Scheduler {
    const { infer } = this.#host;
    const scheduler = new EnsembleScheduler(plan, model.version, infer, this.#clock, onExecuted);
    return plan.isDecoupled ? scheduler : this.#cached(model, scheduler);
  }

  /** The server has a cache and the model wants it. */
  isCached(config: ModelConfig): boolean {
    return this.#cache !== undefined && config.response_cache?.enable === true;
  }

  #uncached(
    { config, initialState }: ScheduledModel,
    executors: readonly BatchExecutor[],
  ): Scheduler {
    if (config.sequence_batching !== undefined) {
      const options = sequenceOptions(config);
      return new SequenceBatcher(options, executors, this.#clock, lookAfterArrivals, initialState);
    }
    const executor = asOne(executors);
    if (config.dynamic_batching !== undefined && config.max_batch_size > 0) {
      const options = dynamicBatchingOptions(config);
      return new DynamicBatcher(options, executor, this.#clock, lookAfterArrivals);
    }
    return new DirectScheduler(config.name, executor, this.#clock, lookAfterArrivals);
  }

  #cached(model: ScheduledModel, scheduler: Scheduler): Scheduler {
    const { config, version, generation, recorder } = model;
    if (this.#cache === undefined || !this.isCached(config)) return scheduler;
    const cachedModel = { modelName: config.name, modelVersion: version, generation };
    return new CachingScheduler(scheduler, this.#cache, cachedModel, this.#clock, recorder);
  }

  #member(name: string, version: number): EnsembleMember | undefined {
    try {
      return this.#host.servedModel(name, version < 0 ? '' : String(version));
    } catch (error) {
      if (error instanceof InferenceServerError) return undefined;
      throw error;
    }
  }
}

function asOne(executors: readonly BatchExecutor[]): BatchExecutor {
  const [first, ...others] = executors;
  if (first === undefined) throw internal('a model without instances; this is a bug');
  return others.length === 0 ? first : new ExecutorGroup(executors);
}
