import { type InferenceServerError, invalidArg } from '../errors.js';
import type { InputMessage, OutputMessage, ParameterMessage } from './infer-message-proto.js';
import { binaryOutput, type OutputForm, type SharedMemoryTarget } from './response-form.js';

/*
 * Parameters of a request's inputs and outputs: shared memory and classification. All others are
 * passed over, as the reference server does. Throws INVALID_ARG with its texts.
 */

/** Where in shared memory a tensor is; undefined where it travels in the message. */
export function readSharedMemory({
  name,
  parameters,
}: InputMessage | OutputMessage): SharedMemoryTarget | undefined {
  if (parameters.size === 0) return undefined;
  const region = parameters.get('shared_memory_region');
  const offset = parameters.get('shared_memory_offset');
  const byteSize = parameters.get('shared_memory_byte_size');
  if (region === undefined) {
    if (offset !== undefined) throw lonely('shared_memory_offset', name);
    if (byteSize !== undefined) throw lonely('shared_memory_byte_size', name);
    return undefined;
  }
  if (region.kind !== 'string_param') {
    throw wrongKind('shared_memory_region', name, 'string_param');
  }
  if (byteSize === undefined) {
    throw invalidArg(
      `'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor '${name}'`,
    );
  }
  return {
    region: region.value,
    offset: offset === undefined ? 0 : readBytes('shared_memory_offset', name, offset),
    byteSize: readBytes('shared_memory_byte_size', name, byteSize),
  };
}

/** How an output leaves: its bytes, its classes, or through shared memory. */
export function readOutputForm(output: OutputMessage): OutputForm {
  if (output.parameters.size === 0) return binaryOutput;
  const sharedMemory = readSharedMemory(output);
  const classificationCount = readClassification(output.parameters.get('classification'));
  if (sharedMemory !== undefined && classificationCount > 0) {
    throw invalidArg("output can't set both 'shared_memory_region' and 'classification'");
  }
  return { isBinary: true, classificationCount, sharedMemory };
}

function readClassification(message: ParameterMessage | undefined): number {
  if (message === undefined) return 0;
  if (message.kind !== 'int64_param') {
    throw invalidArg("invalid value type for 'classification' parameter, expected int64_param");
  }
  if (message.value <= 0n) {
    throw invalidArg("invalid value for 'classification' parameter, expected >= 0");
  }
  return Number(message.value);
}

function readBytes(parameter: string, tensor: string, message: ParameterMessage): number {
  if (message.kind !== 'int64_param' && message.kind !== 'uint64_param') {
    throw wrongKind(parameter, tensor, 'int64_param');
  }
  if (message.value < 0n) {
    throw invalidArg(
      `invalid value for '${parameter}' parameter for tensor '${tensor}', expected >= 0`,
    );
  }
  return Number(message.value);
}

function wrongKind(parameter: string, tensor: string, expected: string): InferenceServerError {
  return invalidArg(
    `invalid value type for '${parameter}' parameter for tensor '${tensor}', expected ${expected}.`,
  );
}

function lonely(parameter: string, tensor: string): InferenceServerError {
  return invalidArg(
    `'${parameter}' can not be specified without 'shared_memory_region' parameter for tensor '${tensor}'`,
  );
}
