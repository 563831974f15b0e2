import type { InstancePool } from '../execution/instance-pool.js';
import type { InstanceLane, InstancePlacement } from '../execution/model-instances.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { RateLimitedExecutor } from '../scheduling/executors.js';
import type { InstanceNeeds, RateLimiter } from '../scheduling/rate-limiter.js';
import type { BatchExecutor } from '../scheduling/scheduler.js';
import type { ExecutionRecorder } from './execution-recorder.js';
import { ModelExecutor } from './model-executor.js';

/** The executors that a scheduler hands batches to. */
export interface ModelExecutors {
  readonly executors: readonly BatchExecutor[];
  /** There is one for each instance, so that the instances must stay as they are. */
  readonly isFixed: boolean;
  /** Gives the instances' places in the rate limiter back, once they run nothing more. Idempotent. */
  release(): void;
}

/**
 * What a model's scheduler runs batches on: one executor over all instances, or one for each where
 * they must be known apart: because a sequence stays with its instance, or because each takes
 * resources of its own. `limiter` is undefined with `--rate-limit=off`. Throws INVALID_ARG where
 * an instance needs more of a resource than there is.
 */
export function createExecutors(
  pool: InstancePool,
  version: string,
  config: ModelConfig,
  recorder: ExecutionRecorder,
  limiter: RateLimiter | undefined,
): ModelExecutors {
  if (config.sequence_batching === undefined && limiter === undefined) {
    const executors = [new ModelExecutor(pool, version, config, recorder)];
    return { executors, isFixed: false, release() {} };
  }
  const executorOf = ({ instances }: InstanceLane) =>
    new ModelExecutor(instances, version, config, recorder);
  if (limiter === undefined) {
    return { executors: pool.lanes().map(executorOf), isFixed: true, release() {} };
  }
  const limited: RateLimitedExecutor[] = [];
  const release = () => {
    for (const executor of limited) executor.release();
  };
  try {
    for (const lane of pool.lanes()) {
      limited.push(new RateLimitedExecutor(executorOf(lane), limiter, needsOf(lane.placement)));
    }
  } catch (error) {
    release();
    throw error;
  }
  return { executors: limited, isFixed: true, release };
}

function needsOf({ deviceId, resources, priority }: InstancePlacement): InstanceNeeds {
  return {
    deviceId,
    resources: resources.map(({ name, global, count }) => ({ name, isGlobal: global, count })),
    // The reference server takes 0, which is "not given", for the highest priority.
    priority: Math.max(1, priority),
  };
}
