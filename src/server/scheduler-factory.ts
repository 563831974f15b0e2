import type { Clock } from '../clock.js';
import { InferenceServerError } from '../errors.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { DirectScheduler } from '../scheduling/direct-scheduler.js';
import { DynamicBatcher, lookAfterArrivals } from '../scheduling/dynamic-batcher.js';
import {
  type EnsembleMember,
  type EnsemblePlan,
  planEnsemble,
} from '../scheduling/ensemble-plan.js';
import type { InferStep } from '../scheduling/ensemble-run.js';
import { EnsembleScheduler } from '../scheduling/ensemble-scheduler.js';
import type { PendingRequest } from '../scheduling/pending-request.js';
import type { BatchExecutor, Scheduler } from '../scheduling/scheduler.js';
import { dynamicBatchingOptions } from '../scheduling/scheduling-options.js';
import type { ServedModel } from './inference-server.js';

/** What ensembles need of the server that they run in. */
export interface EnsembleHost {
  /** Throws `InferenceServerError` where the model is not READY. */
  servedModel(name: string, version: string): ServedModel;
  readonly infer: InferStep;
}

/** Chooses the scheduler that a configuration asks for. */
export class SchedulerFactory {
  readonly #clock: Clock;
  readonly #host: EnsembleHost;

  constructor(clock: Clock, host: EnsembleHost) {
    this.#clock = clock;
    this.#host = host;
  }

  forModel(config: ModelConfig, executor: BatchExecutor): Scheduler {
    if (config.dynamic_batching !== undefined && config.max_batch_size > 0) {
      const options = dynamicBatchingOptions(config);
      return new DynamicBatcher(options, executor, this.#clock, lookAfterArrivals);
    }
    return new DirectScheduler(config.name, executor, this.#clock);
  }

  /** INVALID_ARG names the step and tensor that is wrong. */
  planEnsemble(config: ModelConfig): EnsemblePlan {
    return planEnsemble(config, (name, version) => this.#member(name, version));
  }

  forEnsemble(
    plan: EnsemblePlan,
    version: string,
    onExecuted: (pending: PendingRequest) => void,
  ): Scheduler {
    return new EnsembleScheduler(plan, version, this.#host.infer, this.#clock, onExecuted);
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
