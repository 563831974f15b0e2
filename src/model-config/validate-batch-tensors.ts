import { invalidArg } from '../errors.js';
import type { ModelConfig } from './model-config.js';

const batchInputDataTypes: ReadonlySet<string> = new Set(['TYPE_INT32', 'TYPE_FP32']);

/**
 * Checks `batch_input` and `batch_output`; part of `validateModelConfig`, with the reference
 * server's texts.
 */
export function validateBatchTensors(config: ModelConfig): void {
  const problem = batchInputProblem(config) ?? batchOutputProblem(config);
  if (problem !== undefined) throw invalidArg(`${problem} for ${config.name}`);
}

function batchInputProblem(config: ModelConfig): string | undefined {
  for (const batchInput of config.batch_input) {
    const { kind, source_input: sources } = batchInput;
    if (sources.length !== 1) {
      return `batch input kind '${kind}' expects 1 source input, got ${sources.length}`;
    }
    if (!batchInputDataTypes.has(batchInput.data_type)) {
      return 'batch input data type must be TYPE_INT32 or TYPE_FP32';
    }
    const problem = sourceProblem(sources, config);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function batchOutputProblem(config: ModelConfig): string | undefined {
  const outputNames = new Set(config.output.map((output) => output.name));
  for (const { kind, source_input: sources, target_name: targets } of config.batch_output) {
    if (sources.length !== 1) {
      return `batch output kind '${kind}' expects 1 source input, got ${sources.length}`;
    }
    const problem = sourceProblem(sources, config);
    if (problem !== undefined) return problem;
    const unknown = targets.find((target) => !outputNames.has(target));
    if (unknown !== undefined) return `unknown target output name '${unknown}'`;
    const repeated = targets.find((target, index) => targets.indexOf(target) !== index);
    if (repeated !== undefined) {
      return `target output name '${repeated}' can only be specified once`;
    }
  }
  return undefined;
}

function sourceProblem(sources: readonly string[], config: ModelConfig): string | undefined {
  const inputNames = new Set(config.input.map((input) => input.name));
  const unknown = sources.find((source) => !inputNames.has(source));
  return unknown === undefined ? undefined : `unknown source input name '${unknown}'`;
}
