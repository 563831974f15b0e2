import { internal } from '../errors.js';
import { type Datatype, elementBytes, fromConfigDataType } from '../inference/datatype.js';
import { elementCount } from '../inference/shape.js';
import type { Tensor } from '../inference/tensor.js';
import type { BatchInput, ModelConfig } from '../model-config/model-config.js';
import { splitRows } from './tensor-transfer.js';

/*
 * Batches whose requests differ in shape (`allow_ragged_batch`), for instances that work on whole
 * tensors. Three requests with X of [1,2], [2,1] and [1,4]:
 *
 *   X                                        [8]    all elements, one request after the other
 *   BATCH_ELEMENT_COUNT                      [3]    2 2 4
 *   BATCH_ACCUMULATED_ELEMENT_COUNT          [3]    2 4 8
 *   BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO[4]    0 2 4 8
 *   BATCH_MAX_ELEMENT_COUNT_AS_SHAPE         [4]    zeros; only the shape counts
 *   BATCH_ITEM_SHAPE                         [4,1]  2 | 1 | 1 | 4, one row a row
 *   BATCH_ITEM_SHAPE_FLATTEN                 [4]    2 1 1 4
 *   BATCH_SCATTER_WITH_INPUT_SHAPE           an output of 8 elements goes back as [1,2], [2,1], [1,4]
 *
 * Inputs that are not ragged are joined along their first dimension, other outputs cut along it.
 */

type Requests = readonly (readonly Tensor[])[];

/** Joins and splits the batches of a model with ragged inputs, batch inputs or batch outputs. */
export class RaggedBatch {
  readonly #ragged: ReadonlySet<string>;
  readonly #batchInputs: readonly BatchInput[];
  /** Output name → input whose shapes it takes. */
  readonly #scattered = new Map<string, string>();

  private constructor(config: ModelConfig) {
    const ragged = config.input.filter((input) => input.allow_ragged_batch);
    this.#ragged = new Set(ragged.map((input) => input.name));
    this.#batchInputs = config.batch_input;
    for (const { target_name: targets, source_input: sources } of config.batch_output) {
      for (const target of targets) this.#scattered.set(target, sourceOf(sources));
    }
  }

  /** Undefined for a model whose batches are plain. */
  static of(config: ModelConfig): RaggedBatch | undefined {
    const isPlain =
      config.max_batch_size === 0 ||
      (config.batch_input.length === 0 &&
        config.batch_output.length === 0 &&
        !config.input.some((input) => input.allow_ragged_batch));
    return isPlain ? undefined : new RaggedBatch(config);
  }

  /** One tensor an input, and the batch inputs behind them. All inputs are raw. */
  merge(requests: Requests): readonly Tensor[] {
    const [first = []] = requests;
    const joined = first.map(({ name }) => {
      const tensors = requests.map((request) => inputOf(request, name));
      return this.#ragged.has(name) ? joinElements(tensors) : joinRows(tensors);
    });
    const batchInputs = this.#batchInputs.flatMap((batchInput) =>
      makeBatchInputs(batchInput, requests),
    );
    return [...joined, ...batchInputs];
  }

  /** Each request's outputs: `[request][output]`, views of `outputs`. INTERNAL where they do not fit. */
  split(outputs: readonly Tensor[], requests: Requests, label: string): Requests {
    const rows = requests.map((request) => request[0]?.shape[0] ?? 1);
    const results = requests.map((): Tensor[] => []);
    for (const output of outputs) {
      const source = this.#scattered.get(output.name);
      const pieces =
        source === undefined
          ? splitRows([output], rows, label).flat()
          : scatter(output, requests, source, label);
      for (const [index, piece] of pieces.entries()) results[index]?.push(piece);
    }
    return results;
  }
}

function joinElements(tensors: readonly Tensor[]): Tensor {
  const [first] = tensors;
  if (first === undefined) throw internal('an empty batch; this is a bug');
  const elements = tensors.reduce((sum, { shape }) => sum + elementCount(shape), 0);
  return { ...first, shape: [elements], bytes: concatenated(tensors) };
}

function joinRows(tensors: readonly Tensor[]): Tensor {
  const [first] = tensors;
  if (first === undefined) throw internal('an empty batch; this is a bug');
  const rows = tensors.reduce((sum, { shape }) => sum + (shape[0] ?? 0), 0);
  return { ...first, shape: [rows, ...first.shape.slice(1)], bytes: concatenated(tensors) };
}

/** Aligned for views of any element size, which joined pieces of a message need not be. */
function concatenated(tensors: readonly Tensor[]): Uint8Array {
  const bytes = new Uint8Array(tensors.reduce((sum, tensor) => sum + tensor.bytes.byteLength, 0));
  let position = 0;
  for (const tensor of tensors) {
    bytes.set(tensor.bytes, position);
    position += tensor.bytes.byteLength;
  }
  return bytes;
}

function makeBatchInputs(batchInput: BatchInput, requests: Requests): readonly Tensor[] {
  const source = sourceOf(batchInput.source_input);
  const shapes = requests.map((request) => inputOf(request, source).shape);
  const { values, shape } = batchInputValues(batchInput.kind, shapes);
  const datatype = fromConfigDataType(batchInput.data_type) ?? 'INT32';
  const bytes = numbersAs(datatype, values);
  return batchInput.target_name.map((name) => ({ name, datatype, shape, encoding: 'raw', bytes }));
}

function batchInputValues(
  kind: string,
  shapes: readonly (readonly number[])[],
): { readonly values: readonly number[]; readonly shape: readonly number[] } {
  const counts = shapes.map(elementCount);
  switch (kind) {
    case 'BATCH_ELEMENT_COUNT':
      return { values: counts, shape: [counts.length] };
    case 'BATCH_ACCUMULATED_ELEMENT_COUNT':
      return { values: accumulated(counts), shape: [counts.length] };
    case 'BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO':
      return { values: [0, ...accumulated(counts)], shape: [counts.length + 1] };
    case 'BATCH_MAX_ELEMENT_COUNT_AS_SHAPE': {
      const most = Math.max(0, ...counts);
      return { values: new Array<number>(most).fill(0), shape: [most] };
    }
    case 'BATCH_ITEM_SHAPE':
    case 'BATCH_ITEM_SHAPE_FLATTEN': {
      const rows = shapes.flatMap((shape) =>
        Array.from({ length: shape[0] ?? 0 }, () => shape.slice(1)),
      );
      const rank = (shapes[0]?.length ?? 1) - 1;
      const shape = kind === 'BATCH_ITEM_SHAPE' ? [rows.length, rank] : [rows.length * rank];
      return { values: rows.flat(), shape };
    }
    default:
      throw internal(`unknown batch input kind '${kind}'`);
  }
}

function accumulated(counts: readonly number[]): readonly number[] {
  let sum = 0;
  return counts.map((count) => {
    sum += count;
    return sum;
  });
}

function numbersAs(datatype: Datatype, values: readonly number[]): Uint8Array {
  const typed = datatype === 'FP32' ? Float32Array.from(values) : Int32Array.from(values);
  return new Uint8Array(typed.buffer);
}

function scatter(
  output: Tensor,
  requests: Requests,
  source: string,
  label: string,
): readonly Tensor[] {
  const shapes = requests.map((request) => inputOf(request, source).shape);
  const elements = shapes.reduce((sum, shape) => sum + elementCount(shape), 0);
  const size = elementBytes[output.datatype];
  if (size === 0 || elements !== elementCount(output.shape)) {
    throw internal(
      `${label}: output '${output.name}' of ${output.datatype} [${output.shape.join(',')}] can't be ` +
        `scattered over the ${elements} elements of input '${source}'`,
    );
  }
  let position = 0;
  return shapes.map((shape) => {
    const start = position;
    position += elementCount(shape) * size;
    return { ...output, shape, bytes: output.bytes.subarray(start, position) };
  });
}

function inputOf(request: readonly Tensor[], name: string): Tensor {
  const input = request.find((candidate) => candidate.name === name);
  if (input === undefined) throw internal(`a batch mixes inputs: no '${name}'; this is a bug`);
  return input;
}

/** The configuration was checked to name exactly one. */
function sourceOf(sources: readonly string[]): string {
  const [source] = sources;
  if (source === undefined) throw internal('a batch tensor without a source; this is a bug');
  return source;
}
