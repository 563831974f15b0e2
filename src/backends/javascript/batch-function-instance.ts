import { internal, isErrorCode } from '../../errors.js';
import { thrownText } from '../../execution/error-transfer.js';
import type { Tensor } from '../../inference/tensor.js';
import type { ModelConfig } from '../../model-config/model-config.js';
import type { MergedModelInstance } from '../backend.js';
import {
  fromGivenTensor,
  isRecord,
  type OutputRules,
  outputRules,
  toReceivedTensor,
  typeName,
} from './javascript-tensors.js';
import type { BatchFunction, ReceivedTensor } from './model-contract.js';

/** A JavaScript model that is one function from the batch's inputs to its outputs. */
export class BatchFunctionInstance implements MergedModelInstance {
  readonly batchForm = 'merged';
  /** An author may give an input back as an output, or keep it. */
  readonly sharesNoMemory = false;
  readonly #compute: BatchFunction;
  readonly #instanceName: string;
  readonly #rules: OutputRules;

  constructor(compute: BatchFunction, config: ModelConfig, instanceName: string) {
    this.#compute = compute;
    this.#instanceName = instanceName;
    this.#rules = outputRules(config);
  }

  async execute(
    inputs: readonly Tensor[],
    requestedOutputs: readonly string[],
  ): Promise<readonly Tensor[]> {
    const byName: Record<string, ReceivedTensor> = {};
    for (const input of inputs) byName[input.name] = toReceivedTensor(input);
    const outputs = await this.#call(byName);
    if (!isRecord(outputs)) {
      throw internal(
        `model '${this.#rules.modelName}': the function must return its outputs by name, ` +
          `got ${typeName(outputs)}`,
      );
    }
    const rows = this.#rules.isBatching ? inputs[0]?.shape[0] : undefined;
    const tensors: Tensor[] = [];
    for (const [name, given] of Object.entries(outputs)) {
      if (requestedOutputs.length > 0 && !requestedOutputs.includes(name)) continue;
      tensors.push(fromGivenTensor(namedTensor(name, given), this.#rules, rows));
    }
    return tensors;
  }

  async unload(): Promise<void> {}

  async #call(inputs: Readonly<Record<string, ReceivedTensor>>): Promise<unknown> {
    try {
      return await this.#compute(inputs);
    } catch (error) {
      if (isRecord(error) && isErrorCode(error['code'])) throw error;
      throw internal(
        `Failed to process the request(s) for model '${this.#instanceName}', message: ` +
          (error instanceof Error ? `${error.name}: ${error.message}` : thrownText(error)),
        error,
      );
    }
  }
}

/** An output is a tensor without its name, or the data alone. */
function namedTensor(name: string, given: unknown): unknown {
  if (Array.isArray(given) || ArrayBuffer.isView(given)) return { name, data: given };
  if (!isRecord(given)) return { name, data: given };
  return { name, datatype: given['datatype'], shape: given['shape'], data: given['data'] };
}
