import type { InferenceSession, Tensor as RuntimeTensor } from 'onnxruntime-node';
import { internal } from '../../errors.js';
import { thrownText } from '../../execution/error-transfer.js';
import type { Tensor } from '../../inference/tensor.js';
import type { ModelSignature } from '../../model-config/auto-complete.js';
import type { ModelConfig } from '../../model-config/model-config.js';
import type { MergedModelInstance } from '../backend.js';
import { fromRuntimeTensor, toRuntimeTensor } from './onnx-tensors.js';

/** One session. The runtime computes in this thread; it never gives way to other work meanwhile. */
export class OnnxInstance implements MergedModelInstance {
  readonly batchForm = 'merged';
  /** The runtime's binding copies each output into a new array. */
  readonly sharesNoMemory = true;
  readonly #session: InferenceSession;
  readonly #modelName: string;
  /** Outputs to fetch where nobody names any: those of the configuration. */
  readonly #outputNames: readonly string[];
  /** Tensors that the file has as scalars, and clients see as shapes of 1. */
  readonly #scalars: ReadonlySet<string>;

  constructor(session: InferenceSession, config: ModelConfig, signature: ModelSignature) {
    this.#session = session;
    this.#modelName = config.name;
    const states = config.sequence_batching?.state ?? [];
    this.#outputNames = [
      ...config.output.map(({ name }) => name),
      ...states.map((state) => state.output_name),
    ];
    this.#scalars = new Set(
      [...signature.inputs, ...signature.outputs]
        .filter(({ shape }) => shape.length === 0)
        .map(({ name }) => name),
    );
  }

  async execute(
    inputs: readonly Tensor[],
    requestedOutputs: readonly string[],
  ): Promise<readonly Tensor[]> {
    const feeds: Record<string, RuntimeTensor> = {};
    for (const input of inputs) {
      const dims = this.#scalars.has(input.name) ? [] : input.shape;
      feeds[input.name] = toRuntimeTensor(input, dims);
    }
    const names = requestedOutputs.length > 0 ? requestedOutputs : this.#outputNames;
    const outputs = await this.#run(feeds, names);
    return names.map((name) => {
      const output = outputs[name];
      if (output === undefined) {
        throw internal(`model '${this.#modelName}' has given no output '${name}'`);
      }
      return fromRuntimeTensor(name, output, this.#scalars.has(name) ? [1] : output.dims);
    });
  }

  async unload(): Promise<void> {
    await this.#session.release();
  }

  async #run(
    feeds: Record<string, RuntimeTensor>,
    names: readonly string[],
  ): Promise<InferenceSession.OnnxValueMapType> {
    try {
      return await this.#session.run(feeds, [...names]);
    } catch (error) {
      throw internal(`onnx runtime error: ${thrownText(error)}`, error);
    }
  }
}
