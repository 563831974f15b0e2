import { internal, invalidArg } from '../errors.js';
import { toConfigDataType } from '../inference/datatype.js';
import type { TensorMetadata } from '../inference/model-metadata.js';
import { formatShape, matchesDims } from '../inference/shape.js';
import type { ModelSignature } from './auto-complete.js';
import type { ModelConfig, ModelInput, ModelOutput } from './model-config.js';
import { sequenceControlTensors } from './sequence-control-tensors.js';

/**
 * Checks that a completed configuration describes the model's file: every input of the file is
 * listed (or is a sequence control, state or batch input), and names, datatypes and dimensions of
 * what is listed agree. Throws INVALID_ARG with the texts of the reference server's ONNX Runtime
 * backend.
 */
export function validateAgainstSignature(config: ModelConfig, signature: ModelSignature): void {
  validateInputCount(config, signature);
  validateSequenceControls(config, signature);
  const inputs = [...signature.inputs, ...signature.optionalInputs];
  for (const input of config.input) {
    if (input.optional && config.max_batch_size > 0) {
      throw invalidArg(
        `unable to load model '${config.name}', optional input '${input.name}' is not supported ` +
          'for models that support batching',
      );
    }
    const tensor = tensorOf(input, inputs, 'input');
    validateDatatype(input, tensor, 'input', config);
    if (input.allow_ragged_batch) validateRagged(input, tensor, config);
    else validateDims(input, tensor, config);
  }
  const scattered = new Set(config.batch_output.flatMap((output) => output.target_name));
  for (const output of config.output) {
    const tensor = tensorOf(output, signature.outputs, 'output');
    validateDatatype(output, tensor, 'output', config);
    if (!scattered.has(output.name)) validateDims(output, tensor, config);
  }
}

function validateInputCount(config: ModelConfig, signature: ModelSignature): void {
  const replaceable = new Set(signature.optionalInputs.map((tensor) => tensor.name));
  const listed = config.input.filter((input) => !(input.optional && replaceable.has(input.name)));
  const expected =
    listed.length +
    config.batch_input.flatMap((input) => input.target_name).length +
    sequenceControlTensors(config).length +
    (config.sequence_batching?.state.length ?? 0);
  if (expected !== signature.inputs.length) {
    throw invalidArg(
      `unable to load model '${config.name}', configuration expects ${expected} inputs, model ` +
        `provides ${signature.inputs.length}`,
    );
  }
}

function validateSequenceControls(config: ModelConfig, signature: ModelSignature): void {
  for (const control of sequenceControlTensors(config)) {
    const tensor = signature.inputs.find((input) => input.name === control.name);
    if (tensor === undefined) {
      throw internal(
        `configuration specified sequence control '${control.name}', but model does not provide ` +
          'that input',
      );
    }
    const dims = tensor.shape.slice(config.max_batch_size > 0 ? 1 : 0);
    if (dims.length !== 1 || dims[0] !== 1) {
      throw invalidArg(
        `unable to load model '${config.name}', sequence control '${control.name}' in model has ` +
          `dims ${formatShape(dims)} but dims [1] is expected`,
      );
    }
    if (toConfigDataType(tensor.datatype) !== control.dataType) {
      throw invalidArg(
        `unable to load model '${config.name}', sequence control '${control.name}', the model ` +
          `expects data-type ${toConfigDataType(tensor.datatype)} but the model configuration ` +
          `specifies data-type ${control.dataType}`,
      );
    }
  }
}

function tensorOf(
  given: ModelInput | ModelOutput,
  tensors: readonly TensorMetadata[],
  role: 'input' | 'output',
): TensorMetadata {
  const tensor = tensors.find((candidate) => candidate.name === given.name);
  if (tensor !== undefined) return tensor;
  const allowed = tensors.map((candidate) => candidate.name).sort();
  throw invalidArg(
    `unexpected inference ${role} '${given.name}', allowed ${role}s are: ${allowed.join(', ')}`,
  );
}

function validateDatatype(
  given: ModelInput | ModelOutput,
  tensor: TensorMetadata,
  role: 'input' | 'output',
  config: ModelConfig,
): void {
  const dataType = toConfigDataType(tensor.datatype);
  if (given.data_type !== dataType) {
    throw invalidArg(
      `unable to load model '${config.name}', configuration expects datatype ${given.data_type} ` +
        `for ${role} '${given.name}', model provides ${dataType}`,
    );
  }
}

/** The rows of a ragged batch are put one behind the other, whatever their shapes. */
function validateRagged(input: ModelInput, tensor: TensorMetadata, config: ModelConfig): void {
  if (tensor.shape.length === 1 && tensor.shape[0] === -1) return;
  throw invalidArg(
    `unable to load model '${config.name}', configuration expects model provides input with shape ` +
      `[-1]  for ragged input '${input.name}', model provides ${formatShape(tensor.shape)}`,
  );
}

function validateDims(
  given: ModelInput | ModelOutput,
  tensor: TensorMetadata,
  config: ModelConfig,
): void {
  const dims = given.reshape?.shape ?? given.dims;
  const subject = `model '${config.name}', tensor '${given.name}'`;
  const isBatching = config.max_batch_size > 0;
  if (isBatching && tensor.shape[0] !== -1) {
    throw invalidArg(
      `${subject}: for the model to support batching the shape should have at least 1 dimension ` +
        'and the first dimension must be -1; but shape expected by the model is ' +
        formatShape(tensor.shape),
    );
  }
  if (tensor.shape.length === 0) {
    if (dims.every((dim) => dim === 1)) return;
    throw invalidArg(
      `unable to load model '${config.name}', scalar tensor '${given.name}', should only provide 1 ` +
        "in the model configuration when the model doesn't support batching. Model configuration " +
        `provided: ${formatShape(dims)}.`,
    );
  }
  const fullDims = isBatching ? [-1, ...dims] : dims;
  if (matchesDims(fullDims, tensor.shape)) return;
  const specified = isBatching
    ? '(an initial batch dimension because max_batch_size > 0 followed by the explicit tensor ' +
      `shape, making complete shape ${formatShape(fullDims)})`
    : `(shape ${formatShape(fullDims)})`;
  throw invalidArg(
    `${subject}: the model expects ${tensor.shape.length} dimensions (shape ` +
      `${formatShape(tensor.shape)}) but the model configuration specifies ${fullDims.length} ` +
      `dimensions ${specified}`,
  );
}
