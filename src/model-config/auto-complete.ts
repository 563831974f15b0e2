import { invalidArg } from '../errors.js';
import { toConfigDataType } from '../inference/datatype.js';
import type { TensorMetadata } from '../inference/model-metadata.js';
import type { ModelConfig, ModelInput, ModelOutput } from './model-config.js';

/** What a model's file says of itself. Shapes are whole; -1 is a symbolic dimension. */
export interface ModelSignature {
  readonly inputs: readonly TensorMetadata[];
  readonly outputs: readonly TensorMetadata[];
  /** Inputs with a value of their own in the file, which a request may replace. */
  readonly optionalInputs: readonly TensorMetadata[];
}

/** What completion needs besides the signature. */
export interface AutoCompleteSettings {
  /** Largest batch of a model that can batch and whose configuration does not say. */
  readonly defaultMaxBatchSize: number;
}

/**
 * The configuration with the tensors and the batching that the model's file tells. Given inputs and
 * outputs stay as they are, and where both are given nothing changes. A model can batch when the
 * first dimension of every input and every output is symbolic. `config` itself stays as it is; the
 * result wants `completeModelConfig` again. INVALID_ARG where the configuration batches a model that
 * cannot. Follows the reference server's ONNX Runtime backend.
 */
export function completeFromSignature(
  config: ModelConfig,
  signature: ModelSignature,
  settings: AutoCompleteSettings,
): ModelConfig {
  const hasInputs = config.input.length > 0 || config.batch_input.length > 0;
  const hasOutputs = config.output.length > 0;
  if (hasInputs && hasOutputs) return config;
  const completed = completeBatching(config, signature, settings);
  const isBatching = completed.max_batch_size > 0;
  if (!hasInputs) {
    completed.input = signature.inputs.map((tensor) => inputFrom(tensor, isBatching));
  }
  if (!hasOutputs) {
    completed.output = signature.outputs.map((tensor) => outputFrom(tensor, isBatching));
  }
  return completed;
}

function completeBatching(
  config: ModelConfig,
  signature: ModelSignature,
  { defaultMaxBatchSize }: AutoCompleteSettings,
): ModelConfig {
  const canBatch = [...signature.inputs, ...signature.outputs].every(
    (tensor) => tensor.shape[0] === -1,
  );
  if (!canBatch) {
    if (config.max_batch_size === 0) return { ...config };
    throw invalidArg(
      `autofill failed for model '${config.name}': model does not support batching while non-zero ` +
        'max_batch_size is specified',
    );
  }
  const maxBatchSize =
    config.max_batch_size === 0 ? Math.max(defaultMaxBatchSize, 0) : config.max_batch_size;
  const hasScheduler =
    config.dynamic_batching !== undefined || config.sequence_batching !== undefined;
  return {
    ...config,
    max_batch_size: maxBatchSize,
    ...(maxBatchSize > 1 && !hasScheduler && { dynamic_batching: emptyDynamicBatching() }),
  };
}

/** `dynamic_batching { }` with all its defaults; a new one each time, so that it may be changed. */
export function emptyDynamicBatching(): NonNullable<ModelConfig['dynamic_batching']> {
  return {
    preferred_batch_size: [],
    max_queue_delay_microseconds: 0,
    preserve_ordering: false,
    priority_levels: 0,
    default_priority_level: 0,
    priority_queue_policy: {},
  };
}

function inputFrom(tensor: TensorMetadata, isBatching: boolean): ModelInput {
  return {
    name: tensor.name,
    data_type: toConfigDataType(tensor.datatype),
    format: 'FORMAT_NONE',
    ...shapeFrom(tensor, isBatching),
    is_shape_tensor: false,
    allow_ragged_batch: false,
    optional: false,
    is_non_linear_format_io: false,
  };
}

function outputFrom(tensor: TensorMetadata, isBatching: boolean): ModelOutput {
  return {
    name: tensor.name,
    data_type: toConfigDataType(tensor.datatype),
    ...shapeFrom(tensor, isBatching),
    label_filename: '',
    is_shape_tensor: false,
    is_non_linear_format_io: false,
  };
}

/**
 * Dimensions of a configuration, which cannot be none: a scalar is one element, given to a batching
 * model without a dimension. Without batching an empty reshape is not allowed, and the model's rank
 * tells.
 */
function shapeFrom(
  tensor: TensorMetadata,
  isBatching: boolean,
): Pick<ModelInput, 'dims' | 'reshape'> {
  const dims = tensor.shape.slice(isBatching ? 1 : 0);
  if (dims.length > 0) return { dims };
  return isBatching ? { dims: [1], reshape: { shape: [] } } : { dims: [1] };
}
