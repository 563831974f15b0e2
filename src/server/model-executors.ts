import type { InstancePool } from '../execution/instance-pool.js';
import type { ModelConfig } from '../model-config/model-config.js';
import type { BatchExecutor } from '../scheduling/scheduler.js';
import type { ExecutionRecorder } from './execution-recorder.js';
import { ModelExecutor } from './model-executor.js';

export interface ModelExecutors {
  readonly executors: readonly BatchExecutor[];
  /** There is one for each instance, so that the instances must stay as they are. */
  readonly isFixed: boolean;
}

/**
 * What a model's scheduler runs batches on: one executor over all instances, or one for each where
 * the scheduler has to know them apart because a sequence stays with its instance.
 */
export function createExecutors(
  pool: InstancePool,
  version: string,
  config: ModelConfig,
  recorder: ExecutionRecorder,
): ModelExecutors {
  if (config.sequence_batching === undefined) {
    return { executors: [new ModelExecutor(pool, version, config, recorder)], isFixed: false };
  }
  const executors = pool
    .lanes()
    .map(({ instances }) => new ModelExecutor(instances, version, config, recorder));
  return { executors, isFixed: true };
}
