import { unsupported } from '../errors.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { type Candidate, candidateOf, type Setting } from './candidate.js';

/** Values of each setting that may be tried, ascending; one value where it must stay. */
export type SearchSpace = Readonly<Record<Setting, readonly number[]>>;

export interface SpaceLimits {
  readonly cores: number;
  /** Undefined for as many as there are cores. */
  readonly instancesMax: number | undefined;
  /** Undefined for what fits the backend. */
  readonly batchSizeMax: number | undefined;
  /** Rows of a request: a smaller largest batch would refuse it. */
  readonly requestRows: number;
  /** Rows of all requests that are under way at once: no batch is larger. */
  readonly rowsInFlight: number;
}

/** Largest batch that is tried of a model whose file takes any; other backends keep their own. */
const onnxBatchSizeMax = 128;
const preferredSizeCount = 3;
const delaysUs = [0, 100, 300, 1000, 3000];

/**
 * What can be tried of a model. UNSUPPORTED for models whose speed other settings decide: ensembles,
 * sequences, decoupled responses.
 */
export function searchSpace(config: ModelConfig, limits: SpaceLimits): SearchSpace {
  refuseUnsupported(config);
  const defaults = candidateOf(config);
  const isOnnx = config.backend === 'onnxruntime';
  const hasOneGroup = config.instance_group.length <= 1;
  const isPlain = config.instance_group.every(
    ({ kind, passive }) => kind !== 'KIND_GPU' && !passive,
  );
  const canBatch = defaults.maxBatchSize > 0;
  const backendMax = isOnnx ? onnxBatchSizeMax : defaults.maxBatchSize;
  const batchSizeMax = Math.min(
    Math.max(limits.batchSizeMax ?? backendMax, limits.requestRows),
    powerOfTwoFrom(limits.rowsInFlight),
  );
  return {
    instances:
      hasOneGroup && isPlain
        ? valuesUpTo(limits.instancesMax ?? limits.cores, defaults.instances)
        : [defaults.instances],
    threads: isOnnx ? valuesUpTo(limits.cores, defaults.threads) : [defaults.threads],
    maxBatchSize: canBatch
      ? valuesUpTo(batchSizeMax, defaults.maxBatchSize).filter(
          (size) => size >= Math.min(limits.requestRows, defaults.maxBatchSize),
        )
      : [defaults.maxBatchSize],
    queueDelayUs: canBatch
      ? ascending([defaults.queueDelayUs, ...delaysUs])
      : [defaults.queueDelayUs],
    preferredBatchSize: canBatch
      ? ascending([defaults.preferredBatchSize, 0, ...preferredSizes(batchSizeMax)])
      : [defaults.preferredBatchSize],
  };
}

/** False for candidates that cannot work, or that are the same as another one. */
export function isSensible(candidate: Candidate, defaults: Candidate, cores: number): boolean {
  const { preferredBatchSize, queueDelayUs, maxBatchSize } = candidate;
  const isDefaultSize = preferredBatchSize === defaults.preferredBatchSize;
  if (preferredBatchSize > maxBatchSize) return false;
  // A batch of one row waits for nobody.
  if (maxBatchSize === 1 && queueDelayUs > Math.max(0, defaults.queueDelayUs)) return false;
  // Without a delay nothing waits for a preferred size.
  if (!isDefaultSize && preferredBatchSize > 0 && queueDelayUs <= 0) return false;
  if (preferredBatchSize === maxBatchSize && !isDefaultSize) return false;
  const isDefaultPlacement =
    candidate.instances === defaults.instances && candidate.threads === defaults.threads;
  return isDefaultPlacement || candidate.instances * candidate.threads <= 2 * cores;
}

function refuseUnsupported(config: ModelConfig): void {
  const steps = (config.ensemble_scheduling?.step ?? []).map((step) => step.model_name);
  if (config.ensemble_scheduling !== undefined) {
    throw unsupported(
      `'${config.name}' is an ensemble: tune the models that it is made of (${steps.join(', ')})`,
    );
  }
  if (config.sequence_batching !== undefined) {
    throw unsupported(`'${config.name}' takes sequences, which tuning does not send`);
  }
  if (config.model_transaction_policy?.decoupled === true) {
    throw unsupported(`'${config.name}' is decoupled: it does not answer plain requests`);
  }
}

function valuesUpTo(limit: number, own: number): readonly number[] {
  return ascending([...powersOfTwo(limit), limit, own]);
}

/** A batch that waits for more rows than can come would always wait for its whole delay. */
function preferredSizes(batchSizeMax: number): readonly number[] {
  return powersOfTwo(batchSizeMax)
    .filter((size) => size >= 2)
    .slice(-preferredSizeCount);
}

function powerOfTwoFrom(rows: number): number {
  return 2 ** Math.ceil(Math.log2(rows));
}

function powersOfTwo(limit: number): readonly number[] {
  const values: number[] = [];
  for (let value = 1; value <= limit; value *= 2) values.push(value);
  return values;
}

function ascending(values: readonly number[]): readonly number[] {
  return [...new Set(values)].sort((left, right) => left - right);
}
