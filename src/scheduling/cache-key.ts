import { createHash } from 'node:crypto';
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

/**
 * SHA-256 over everything that the answer depends on: model, version and load; names, datatypes,
 * shapes and bytes of the inputs, in any order; parameters; outputs asked for, in any order, and
 * their form. Not the id, and not what only scheduling sees. 2 us for two inputs of 64 bytes,
 * 0.5 ms for an image of 600 kB.
 */
export function cacheKey(model: CachedModel, pending: PendingRequest): string {
  const { request, modelInputs } = pending;
  const inputs =
    modelInputs.length > 1
      ? [...modelInputs].sort((left, right) => compareText(left.name, right.name))
      : modelInputs;
  const described = JSON.stringify([
    model.modelName,
    model.modelVersion,
    model.generation,
    inputs.map(({ name, datatype, shape, encoding, bytes }) => [
      name,
      datatype,
      shape,
      encoding,
      bytes.byteLength,
    ]),
    request.requestedOutputs.length > 1
      ? [...request.requestedOutputs].sort(compareText)
      : request.requestedOutputs,
    request.prefersJsonText,
    [...request.parameters]
      .sort(([left], [right]) => compareText(left, right))
      .map(([name, value]) => [name, typeof value, String(value)]),
  ]);
  const hash = createHash('sha256').update(described);
  for (const { bytes } of inputs) hash.update(bytes);
  return hash.digest('base64url');
}

function compareText(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
