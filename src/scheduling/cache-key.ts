import { createHash } from 'node:crypto';
import type { Tensor } from '../inference/tensor.js';
import type { PendingRequest } from './pending-request.js';

/** Which load of which model an answer belongs to. */
export interface CachedModel {
  readonly modelName: string;
  readonly modelVersion: string;
  /**
   * Text that differs for every load that may answer differently. Replicas that share a cache must
   * agree on it: a fingerprint of the model's files and configuration, not a counter.
   */
  readonly generation: string;
}

/** Up to so many bytes, inputs stand in the key themselves: hashing costs more than comparing. */
const plainBytesMax = 1024;

/**
 * Everything that the answer depends on, or its SHA-256 where the inputs are large: model, version
 * and load; names, datatypes, shapes and bytes of the inputs, in any order; parameters; outputs asked
 * for, in any order, and their form. Not the id, and not what only scheduling sees. 1 us for two
 * inputs of 64 bytes (2 us hashed), 0.5 ms for an image of 600 kB.
 */
export function cacheKey(model: CachedModel, pending: PendingRequest): string {
  const { modelInputs } = pending;
  const inputs = inOrder(modelInputs)
    ? modelInputs
    : [...modelInputs].sort((left, right) => compareText(left.name, right.name));
  const described = describe(model, pending, inputs);
  let inputBytes = 0;
  for (const { bytes } of inputs) inputBytes += bytes.byteLength;
  if (inputBytes <= plainBytesMax) {
    let key = `=${described}`;
    for (const { bytes } of inputs) key += latin1(bytes);
    return key;
  }
  const hash = createHash('sha256').update(described);
  for (const { bytes } of inputs) hash.update(bytes);
  return hash.digest('base64url');
}

function inOrder(inputs: readonly Tensor[]): boolean {
  for (let index = 1; index < inputs.length; index += 1) {
    if ((inputs[index - 1]?.name ?? '') > (inputs[index]?.name ?? '')) return false;
  }
  return true;
}

/** Free text stands behind its length, so that no two descriptions read the same. */
function describe(
  model: CachedModel,
  { request }: PendingRequest,
  inputs: readonly Tensor[],
): string {
  const { requestedOutputs, parameters } = request;
  let text = `${counted(model.modelName)}${model.modelVersion} ${counted(model.generation)}`;
  text += request.prefersJsonText ? 't' : 'b';
  for (const { name, datatype, shape, encoding, bytes } of inputs) {
    text += `i${counted(name)}${datatype} ${encoding} ${shape.join(',')} ${bytes.byteLength};`;
  }
  const outputs =
    requestedOutputs.length > 1 ? [...requestedOutputs].sort(compareText) : requestedOutputs;
  for (const name of outputs) text += `o${counted(name)}`;
  if (parameters.size === 0) return text;
  const sorted = [...parameters].sort(([left], [right]) => compareText(left, right));
  for (const [name, value] of sorted) {
    text += `p${counted(name)}${typeof value} ${counted(String(value))}`;
  }
  return text;
}

function counted(text: string): string {
  return `${text.length}:${text}`;
}

function latin1({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('latin1');
}

function compareText(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
