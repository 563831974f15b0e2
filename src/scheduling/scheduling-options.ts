import type { ModelConfig, ModelQueuePolicy } from '../model-config/model-config.js';

/** What happens to requests of one priority level while they wait. */
export interface QueuePolicy {
  readonly timeoutAction: 'REJECT' | 'DELAY';
  /** 0 is no timeout. */
  readonly defaultTimeoutUs: number;
  readonly allowsTimeoutOverride: boolean;
  /** Requests; 0 is no bound. */
  readonly queueSizeMax: number;
}

export interface QueueOptions {
  /** One policy a priority level, the highest level first; at least one. */
  readonly levels: readonly QueuePolicy[];
  /** Index into `levels` for requests that name no level, or one that does not exist. */
  readonly defaultLevel: number;
}

/** When a batch is complete. Sizes count rows. */
export interface BatchSizeOptions {
  /** At least 1. */
  readonly batchSizeMax: number;
  /** Ascending, each between 1 and `batchSizeMax`, at least one. */
  readonly preferredBatchSizes: readonly number[];
  /** How long the oldest request of a batch may wait for company; 0 is not at all. */
  readonly queueDelayNs: number;
}

export interface DynamicBatchingOptions {
  readonly modelName: string;
  readonly batch: BatchSizeOptions;
  readonly queue: QueueOptions;
  /** Answers leave in the order in which requests started. */
  readonly preservesOrdering: boolean;
  /** Inputs whose shapes must agree within a batch. */
  readonly shapedInputs: readonly string[];
  /** Inputs whose presence must agree within a batch. */
  readonly optionalInputs: readonly string[];
  /** Target of the 95th percentile of latency; 0 keeps the configured delay and sizes. */
  readonly latencyTargetNs: number;
}

const unlimitedPolicy: QueuePolicy = Object.freeze({
  timeoutAction: 'REJECT',
  defaultTimeoutUs: 0,
  allowsTimeoutOverride: false,
  queueSizeMax: 0,
});

/** Every request waits as long as it takes, in one level. */
export const unlimitedQueue: QueueOptions = Object.freeze({
  levels: Object.freeze([unlimitedPolicy]),
  defaultLevel: 0,
});

/** Options of the dynamic batcher from a checked configuration with `dynamic_batching`. */
export function dynamicBatchingOptions(config: ModelConfig): DynamicBatchingOptions {
  const batching = config.dynamic_batching;
  const batchSizeMax = Math.max(1, config.max_batch_size);
  return Object.freeze({
    modelName: config.name,
    batch: batchSizeOptions(
      batchSizeMax,
      batching?.preferred_batch_size ?? [],
      batching?.max_queue_delay_microseconds ?? 0,
    ),
    queue: queueOptions(config),
    preservesOrdering: batching?.preserve_ordering ?? false,
    ...batchKeyInputs(config),
    latencyTargetNs: latencyTargetNs(config),
  });
}

/** Sizes and delay as any batching scheduler takes them. */
export function batchSizeOptions(
  batchSizeMax: number,
  preferredBatchSizes: readonly number[],
  queueDelayUs: number,
): BatchSizeOptions {
  const preferred = [...new Set(preferredBatchSizes)]
    .filter((size) => size >= 1 && size <= batchSizeMax)
    .sort((left, right) => left - right);
  return Object.freeze({
    batchSizeMax,
    preferredBatchSizes: Object.freeze(preferred.length === 0 ? [batchSizeMax] : preferred),
    queueDelayNs: queueDelayUs * 1000,
  });
}

/** Inputs on which requests of one batch must agree; ragged inputs may differ in shape. */
export function batchKeyInputs(
  config: ModelConfig,
): Pick<DynamicBatchingOptions, 'shapedInputs' | 'optionalInputs'> {
  const hasVariableDims = (dims: readonly number[]): boolean => dims.some((dim) => dim < 0);
  const shapedInputs = config.input
    .filter((input) => !input.allow_ragged_batch)
    .filter((input) => hasVariableDims(input.dims) || hasVariableDims(input.reshape?.shape ?? []))
    .map((input) => input.name);
  const optionalInputs = config.input.filter((input) => input.optional).map((input) => input.name);
  return {
    shapedInputs: Object.freeze(shapedInputs),
    optionalInputs: Object.freeze(optionalInputs),
  };
}

function queueOptions(config: ModelConfig): QueueOptions {
  const batching = config.dynamic_batching;
  const byDefault = queuePolicy(batching?.default_queue_policy);
  const levelCount = Math.max(1, batching?.priority_levels ?? 0);
  const levels = Array.from({ length: levelCount }, (_, index) => {
    // A level's own policy replaces the default one as a whole.
    const own = batching?.priority_queue_policy[String(index + 1)];
    return own === undefined ? byDefault : queuePolicy(own);
  });
  const defaultLevel = Math.max(1, batching?.default_priority_level ?? 1) - 1;
  return Object.freeze({
    levels: Object.freeze(levels),
    defaultLevel: Math.min(defaultLevel, levelCount - 1),
  });
}

function queuePolicy(policy: ModelQueuePolicy | undefined): QueuePolicy {
  if (policy === undefined) return unlimitedPolicy;
  return Object.freeze({
    timeoutAction: policy.timeout_action === 'DELAY' ? 'DELAY' : 'REJECT',
    defaultTimeoutUs: policy.default_timeout_microseconds,
    allowsTimeoutOverride: policy.allow_timeout_override,
    queueSizeMax: policy.max_queue_size,
  });
}

function latencyTargetNs(config: ModelConfig): number {
  const text = config.parameters['latency_target_ms']?.string_value ?? '';
  const milliseconds = Number(text);
  return text !== '' && milliseconds > 0 && Number.isFinite(milliseconds) ? milliseconds * 1e6 : 0;
}
