import { internal } from '../../errors.js';
import {
  noParameters,
  type Parameters,
  type ParameterValue,
} from '../../inference/infer-request.js';
import { isRecord, typeName } from './javascript-tensors.js';
import type { ModelParameters } from './model-contract.js';

/** Parameters as a model sees them: integers that a number holds exactly are numbers. */
export function toModelParameters(parameters: Parameters): ModelParameters {
  // Without a prototype, a parameter may have any name: `__proto__` would vanish in `{}`.
  const result: Record<string, ParameterValue> = Object.create(null);
  for (const [name, value] of parameters) {
    const isExact =
      typeof value === 'bigint' &&
      value >= BigInt(Number.MIN_SAFE_INTEGER) &&
      value <= BigInt(Number.MAX_SAFE_INTEGER);
    result[name] = isExact ? Number(value) : value;
  }
  return result;
}

/** Parameters that a model gives; whole numbers become integers. INTERNAL where one is no value. */
export function fromModelParameters(given: unknown, label: string): Parameters {
  if (given === undefined) return noParameters;
  if (!isRecord(given)) throw internal(`${label}: parameters are ${typeName(given)}, no object`);
  const result = new Map<string, ParameterValue>();
  for (const [name, value] of Object.entries(given)) {
    if (typeof value === 'number') {
      result.set(name, Number.isSafeInteger(value) ? BigInt(value) : value);
    } else if (
      typeof value === 'string' ||
      typeof value === 'boolean' ||
      typeof value === 'bigint'
    ) {
      result.set(name, value);
    } else {
      throw internal(`${label}: parameter '${name}' is ${typeName(value)}`);
    }
  }
  return result;
}
