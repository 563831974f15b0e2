import type { Tensor } from '../inference/tensor.js';
import type { DynamicBatchingOptions } from './scheduling-options.js';

/** Text that is equal for two requests exactly if they may share a batch. */
export type BatchKeyOf = (inputs: readonly Tensor[]) => string;

/**
 * Models whose inputs are all fixed in shape and required get the same key for every request, at no
 * cost. Otherwise the key holds the shapes (without the batch dimension, in the order of the
 * configuration) of the inputs that are variable, and which of the optional inputs are there.
 */
export function batchKeyOf(
  options: Pick<DynamicBatchingOptions, 'shapedInputs' | 'optionalInputs'>,
): BatchKeyOf {
  const { shapedInputs, optionalInputs } = options;
  if (shapedInputs.length === 0 && optionalInputs.length === 0) return () => '';
  return (inputs) => {
    let key = '';
    for (const name of shapedInputs) {
      const input = inputs.find((candidate) => candidate.name === name);
      key += input === undefined ? '-;' : `${innerShape(input.shape)};`;
    }
    for (const name of optionalInputs) {
      key += inputs.some((candidate) => candidate.name === name) ? '1' : '0';
    }
    return key;
  };
}

function innerShape(shape: readonly number[]): string {
  let text = '';
  for (let axis = 1; axis < shape.length; axis += 1) text += `${shape[axis]},`;
  return text;
}
