import { emptyDynamicBatching } from '../model-config/auto-complete.js';
import type { ModelConfig, ModelInstanceGroup } from '../model-config/model-config.js';

/** What is searched, each as a number. */
export type Setting =
  | 'instances'
  /** Threads of one operator; 0 leaves them to the server. */
  | 'threads'
  /** Rows; 0 for models that do not batch. */
  | 'maxBatchSize'
  /** Microseconds; -1 is no batching of requests. */
  | 'queueDelayUs'
  /** Rows; 0 is none. */
  | 'preferredBatchSize';

/** One configuration of the model: a value for each setting. */
export type Candidate = Readonly<Record<Setting, number>>;

/** In the order of the table; also the names of its columns. */
export const settingTitles: Readonly<Record<Setting, string>> = {
  instances: 'instances',
  threads: 'threads',
  maxBatchSize: 'max batch',
  queueDelayUs: 'delay us',
  preferredBatchSize: 'preferred',
};

export const settings: readonly Setting[] = [
  'instances',
  'threads',
  'maxBatchSize',
  'queueDelayUs',
  'preferredBatchSize',
];

export const threadsKey = 'intra_op_thread_count';

/** The same text for the same settings. */
export function candidateKey(candidate: Candidate): string {
  return settings.map((setting) => candidate[setting]).join('/');
}

/** Settings in which two candidates differ. */
export function changedSettings(candidate: Candidate, defaults: Candidate): readonly Setting[] {
  return settings.filter((setting) => candidate[setting] !== defaults[setting]);
}

/** A value as the table shows it. */
export function settingText(setting: Setting, value: number): string {
  if (setting === 'threads' && value === 0) return 'auto';
  if (setting === 'queueDelayUs' && value < 0) return 'off';
  if (setting === 'preferredBatchSize' && value === 0) return '-';
  return String(value);
}

/** What a complete configuration, as a server shows it, says of the settings. */
export function candidateOf(config: ModelConfig): Candidate {
  const batching = config.dynamic_batching;
  // A configuration that names none is completed with the largest batch.
  const preferred = (batching?.preferred_batch_size ?? []).filter(
    (size) => size !== config.max_batch_size,
  );
  return {
    instances: config.instance_group.reduce((sum, group) => sum + Math.max(1, group.count), 0) || 1,
    threads: Number(config.parameters[threadsKey]?.string_value ?? 0),
    maxBatchSize: config.max_batch_size,
    queueDelayUs: batching === undefined ? -1 : batching.max_queue_delay_microseconds,
    preferredBatchSize: preferred[0] ?? 0,
  };
}

/** The configuration with the settings of `candidate` where they differ from `defaults`. */
export function applyCandidate(
  config: ModelConfig,
  candidate: Candidate,
  defaults: Candidate,
): ModelConfig {
  const applied = structuredClone(config);
  const changed = new Set(changedSettings(candidate, defaults));
  if (changed.has('maxBatchSize')) applied.max_batch_size = candidate.maxBatchSize;
  if (changed.has('instances')) {
    applied.instance_group = [
      { ...(applied.instance_group[0] ?? cpuGroup), count: candidate.instances },
    ];
  }
  if (changed.has('threads')) {
    applied.parameters[threadsKey] = { string_value: String(candidate.threads) };
  }
  const isBatching = candidate.queueDelayUs >= 0;
  if (isBatching && (changed.has('queueDelayUs') || changed.has('preferredBatchSize'))) {
    applied.dynamic_batching = {
      ...(applied.dynamic_batching ?? emptyDynamicBatching()),
      max_queue_delay_microseconds: candidate.queueDelayUs,
    };
  }
  if (applied.dynamic_batching !== undefined && changed.has('preferredBatchSize')) {
    const size = candidate.preferredBatchSize;
    applied.dynamic_batching.preferred_batch_size = size === 0 ? [] : [size];
  }
  return applied;
}

/**
 * The same for a configuration that a server has completed: sizes that it filled in from the
 * largest batch must follow that.
 */
export function applyToCompleted(
  config: ModelConfig,
  candidate: Candidate,
  defaults: Candidate,
): ModelConfig {
  const applied = applyCandidate(config, candidate, defaults);
  const batching = applied.dynamic_batching;
  if (batching !== undefined && candidate.maxBatchSize !== defaults.maxBatchSize) {
    batching.preferred_batch_size = batching.preferred_batch_size.filter(
      (size) => size !== config.max_batch_size && size <= candidate.maxBatchSize,
    );
  }
  return applied;
}

const cpuGroup: ModelInstanceGroup = {
  name: '',
  kind: 'KIND_CPU',
  count: 1,
  gpus: [],
  secondary_devices: [],
  profile: [],
  passive: false,
  host_policy: '',
};
