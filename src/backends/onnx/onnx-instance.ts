import type { InferenceSession, Tensor as RuntimeTensor } from 'onnxruntime-node';
import { internal } from '../../errors.js';
import { thrownText } from '../../execution/error-transfer.js';
import { elementBytes } from '../../inference/datatype.js';
import type { TensorMetadata } from '../../inference/model-metadata.js';
import { elementCount } from '../../inference/shape.js';
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
  /** Outputs with fixed dims behind the batch, by name. */
  readonly #fixedOutputs: ReadonlyMap<string, TensorMetadata>;
  /** Those that have come in the shape that the file declares: a file may be wrong. */
  readonly #sound = new Set<string>();

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
    const fixed = config.max_batch_size > 0 ? signature.outputs.filter(isFixedBehindBatch) : [];
    this.#fixedOutputs = new Map(fixed.map((output) => [output.name, output]));
  }

  async execute(
    inputs: readonly Tensor[],
    requestedOutputs: readonly string[],
    spare: ArrayBuffer | undefined,
  ): Promise<readonly Tensor[]> {
    const feeds: Record<string, RuntimeTensor> = {};
    for (const input of inputs) {
      const dims = this.#scalars.has(input.name) ? [] : input.shape;
      feeds[input.name] = toRuntimeTensor(input, dims);
    }
    const names = requestedOutputs.length > 0 ? requestedOutputs : this.#outputNames;
    const rows = inputs[0]?.shape[0] ?? 0;
    const target = spare === undefined ? undefined : this.#target(names, rows, spare);
    const outputs = await this.#run(feeds, target ?? [...names]);
    return names.map((name) => {
      const output = outputs[name];
      if (output === undefined) {
        throw internal(`model '${this.#modelName}' has given no output '${name}'`);
      }
      const fixed = this.#fixedOutputs.get(name);
      if (fixed !== undefined && isShape(output.dims, rows, fixed.shape)) this.#sound.add(name);
      return fromRuntimeTensor(name, output, this.#scalars.has(name) ? [1] : output.dims);
    });
  }

  /**
   * An only output in memory that is there, so that the runtime writes where it else would copy
   * from. Undefined where its shape is not sure before the model has run.
   */
  #target(
    names: readonly string[],
    rows: number,
    spare: ArrayBuffer,
  ): Record<string, RuntimeTensor> | undefined {
    const [name = ''] = names;
    const fixed = this.#fixedOutputs.get(name);
    if (fixed === undefined || names.length !== 1 || !this.#sound.has(name)) return undefined;
    const shape = [rows, ...fixed.shape.slice(1)];
    const byteLength = elementCount(shape) * elementBytes[fixed.datatype];
    if (byteLength > spare.byteLength) return undefined;
    const { datatype } = fixed;
    const bytes = new Uint8Array(spare, 0, byteLength);
    return { [name]: toRuntimeTensor({ name, datatype, shape, encoding: 'raw', bytes }, shape) };
  }

  async unload(): Promise<void> {
    await this.#session.release();
  }

  async #run(
    feeds: Record<string, RuntimeTensor>,
    fetches: string[] | Record<string, RuntimeTensor>,
  ): Promise<InferenceSession.OnnxValueMapType> {
    try {
      return await this.#session.run(feeds, fetches);
    } catch (error) {
      throw internal(`onnx runtime error: ${thrownText(error)}`, error);
    }
  }
}

function isFixedBehindBatch({ datatype, shape }: TensorMetadata): boolean {
  const [batch, ...dims] = shape;
  return datatype !== 'BYTES' && batch === -1 && dims.every((dim) => dim > 0);
}

function isShape(dims: readonly number[], rows: number, declared: readonly number[]): boolean {
  return (
    dims.length === declared.length &&
    dims.every((dim, axis) => dim === (axis === 0 ? rows : declared[axis]))
  );
}
