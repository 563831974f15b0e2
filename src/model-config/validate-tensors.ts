import { invalidArg } from '../errors.js';
import { elementCount } from '../inference/shape.js';
import { tensorrtPlatform } from './backend-table.js';
import type { ModelConfig, ModelInput, ModelOutput } from './model-config.js';

const imageFormats: ReadonlySet<string> = new Set(['FORMAT_NHWC', 'FORMAT_NCHW']);
const variableHint = 'or -1 to indicate a variable-size dimension';

/** Checks inputs and outputs; part of `validateModelConfig`, with the reference server's texts. */
export function validateTensors(config: ModelConfig): void {
  for (const input of config.input) {
    const formatProblem =
      imageFormats.has(input.format) && input.dims.length !== 3
        ? 'model input NHWC/NCHW require 3 dims'
        : undefined;
    throwProblem(
      shapeProblem(input, 'model input', config) ??
        formatProblem ??
        tensorrtOnlyProblem(input, 'input', config),
      config,
    );
  }
  for (const output of config.output) {
    throwProblem(
      shapeProblem(output, 'model output', config) ?? tensorrtOnlyProblem(output, 'output', config),
      config,
    );
  }
}

function throwProblem(problem: string | undefined, config: ModelConfig): void {
  if (problem !== undefined) throw invalidArg(`${problem} for ${config.name}`);
}

function shapeProblem(
  tensor: ModelInput | ModelOutput,
  role: string,
  config: ModelConfig,
): string | undefined {
  if (tensor.name === '') return `${role} must specify 'name'`;
  const subject = `${role} '${tensor.name}'`;
  if (tensor.data_type === 'TYPE_INVALID') return `${subject} must specify 'data_type'`;
  if (tensor.dims.length === 0) return `${subject} must specify 'dims'`;
  const reshape = tensor.reshape?.shape;
  if (reshape?.length === 0 && config.max_batch_size === 0) {
    return (
      `${subject} cannot have empty reshape for non-batching model as scalar tensors are not ` +
      'supported'
    );
  }
  if (!tensor.dims.every(isDimension)) {
    return `${subject} dimension must be integer >= 1, ${variableHint}`;
  }
  if (reshape === undefined) return undefined;
  if (!reshape.every(isDimension)) {
    return `${subject} reshape dimensions must be integer >= 1, ${variableHint}`;
  }
  const difference = reshapeDifference(tensor.dims, reshape);
  return difference === undefined
    ? undefined
    : `${subject} has different ${difference} for dims and reshape`;
}

function isDimension(dim: number): boolean {
  return dim >= 1 || dim === -1;
}

/** In what `reshape` cannot hold the elements of `dims`; an empty one holds a single element. */
function reshapeDifference(dims: readonly number[], reshape: readonly number[]) {
  const isVariable = dims.includes(-1);
  if (isVariable !== reshape.includes(-1)) return 'size';
  const dimCounts = fixedElementCounts(dims);
  const reshapeCounts = fixedElementCounts(reshape);
  if (dimCounts.length !== reshapeCounts.length) return 'number of variable-size dimensions';
  return dimCounts.every((count, index) => count === reshapeCounts[index]) ? undefined : 'size';
}

/**
 * Element counts of the runs of fixed dimensions between variable ones: [2,4,-1,6] is 8 and 6, and
 * so may become [8,-1,1,6].
 */
function fixedElementCounts(dims: readonly number[]): number[] {
  const runs: number[][] = [[]];
  for (const dim of dims) {
    if (dim === -1) runs.push([]);
    else runs.at(-1)?.push(dim);
  }
  return runs.map(elementCount);
}

function tensorrtOnlyProblem(
  tensor: ModelInput | ModelOutput,
  role: string,
  config: ModelConfig,
): string | undefined {
  if (config.platform !== tensorrtPlatform) {
    if (tensor.is_shape_tensor) return 'shape tensors are only supported for TensorRT platform';
    if (tensor.is_non_linear_format_io) {
      return 'Non-linear IO format is only supported for the TensorRT platform';
    }
  }
  if (tensor.is_non_linear_format_io && tensor.dims.length !== 3) {
    return `Non-linear IO format ${role} requires 3 dims`;
  }
  return undefined;
}
