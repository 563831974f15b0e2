import { internal } from '../errors.js';
import { readElementLength } from '../inference/bytes-elements.js';
import { elementBytes } from '../inference/datatype.js';
import { largeBytesMin, newBuffer } from '../inference/recycled-buffers.js';
import { elementCount, formatShape } from '../inference/shape.js';
import type { Tensor } from '../inference/tensor.js';
import type { TensorMessage } from './messages.js';

/*
 * How tensors cross the thread boundary: the tensors of one message lie in one ArrayBuffer that is
 * moved, each at a multiple of `alignment`, so that any typed array can be a view of it.
 *
 *   buffer  |INPUT0 of request 0|of request 1|..|INPUT1 of request 0|of request 1|..|
 *           ^ multiple of 64                     ^ multiple of 64
 */

/** A cache line; at least the 8 bytes that a view of 64-bit elements needs. */
const alignment = 64;

export interface PackedTensors {
  readonly buffer: ArrayBuffer;
  readonly tensors: readonly TensorMessage[];
}

export interface PackedTensorLists {
  readonly buffer: ArrayBuffer;
  readonly lists: readonly PackedTensorList[];
}

/** The tensors of one request or response. Lists that differ in nothing but their bytes share them. */
export interface PackedTensorList {
  /** Their offsets count from `byteOffset`. */
  readonly tensors: readonly TensorMessage[];
  readonly byteOffset: number;
}

/** Gives a buffer of at least so many bytes that may be moved to another thread. */
export type AllocateBuffer = (byteLength: number) => ArrayBuffer;

/** Copies `tensors` into one buffer. */
export function packTensors(
  tensors: readonly Tensor[],
  allocate: AllocateBuffer = newBuffer,
): PackedTensors {
  const { buffer, lists } = packTensorLists([tensors], allocate);
  return { buffer, tensors: lists[0]?.tensors ?? [] };
}

/**
 * The buffer of an only tensor as a message of its own, where it is large and takes at least half of
 * the buffer from its start: then it can be moved as it lies. Undefined otherwise.
 */
export function wholeBuffer(tensors: readonly Tensor[]): PackedTensors | undefined {
  const [tensor] = tensors;
  if (tensors.length !== 1 || tensor === undefined) return undefined;
  const { name, datatype, shape, encoding, bytes } = tensor;
  const { buffer, byteLength, byteOffset } = bytes;
  if (byteLength < largeBytesMin || byteOffset !== 0) return undefined;
  if (2 * byteLength < buffer.byteLength) return undefined;
  if (!(buffer instanceof ArrayBuffer)) return undefined;
  return { buffer, tensors: [{ name, datatype, shape, encoding, byteOffset: 0, byteLength }] };
}

/** Copies the tensors of several requests or responses into one buffer. */
export function packTensorLists(
  lists: readonly (readonly Tensor[])[],
  allocate: AllocateBuffer = newBuffer,
): PackedTensorLists {
  let end = 0;
  for (const list of lists) {
    for (const tensor of list) end = aligned(end) + tensor.bytes.byteLength;
  }
  const buffer = allocate(end);
  const target = new Uint8Array(buffer);
  let position = 0;
  let former: readonly TensorMessage[] | undefined;
  const packed = lists.map((list): PackedTensorList => {
    const start = aligned(position);
    for (const { bytes } of list) {
      position = aligned(position);
      target.set(bytes, position);
      position += bytes.byteLength;
    }
    if (former === undefined || !areLike(list, former)) former = placed(list);
    return { tensors: former, byteOffset: start };
  });
  return { buffer, lists: packed };
}

/** `list` as it lies one behind the other, each at a multiple of the alignment. */
function placed(list: readonly Tensor[]): readonly TensorMessage[] {
  let byteOffset = 0;
  return list.map(({ name, datatype, shape, encoding, bytes }) => {
    const { byteLength } = bytes;
    const message = { name, datatype, shape, encoding, byteOffset, byteLength };
    byteOffset = aligned(byteOffset + byteLength);
    return message;
  });
}

/** Whether the tensors differ in nothing but their bytes. */
function areLike(list: readonly Tensor[], messages: readonly TensorMessage[]): boolean {
  if (list.length !== messages.length) return false;
  for (let index = 0; index < list.length; index += 1) {
    const tensor = list[index];
    const message = messages[index];
    if (tensor === undefined || message === undefined) return false;
    const isLike =
      tensor.name === message.name &&
      tensor.datatype === message.datatype &&
      tensor.encoding === message.encoding &&
      tensor.bytes.byteLength === message.byteLength &&
      haveEqualItems(tensor.shape, message.shape);
    if (!isLike) return false;
  }
  return true;
}

/** Compares names or dimensions, which are few. */
export function haveEqualItems<T extends string | number>(
  left: readonly T[],
  right: readonly T[],
): boolean {
  if (left.length !== right.length) return false;
  for (let index = 0; index < left.length; index += 1) {
    if (left[index] !== right[index]) return false;
  }
  return true;
}

/**
 * Joins the raw inputs of several requests along their first dimension, in the order of the
 * requests, into one buffer. Every request has the same inputs (in any order) with the same
 * dimensions behind the first; a single request's tensors keep their shape as it is.
 */
export function packMerged(
  requests: readonly (readonly Tensor[])[],
  allocate: AllocateBuffer = newBuffer,
): PackedTensors {
  const first = requests[0] ?? [];
  if (requests.length <= 1) return packTensors(first, allocate);
  const starts: number[] = [];
  let end = 0;
  for (let index = 0; index < first.length; index += 1) {
    end = aligned(end);
    starts.push(end);
    for (const request of requests) end += tensorAt(request, index, first).bytes.length;
  }
  const buffer = allocate(end);
  const target = new Uint8Array(buffer);
  const tensors = first.map((model, index): TensorMessage => {
    const byteOffset = starts[index] ?? 0;
    let position = byteOffset;
    let rows = 0;
    for (const request of requests) {
      const tensor = tensorAt(request, index, first);
      target.set(tensor.bytes, position);
      position += tensor.bytes.length;
      rows += tensor.shape[0] ?? 1;
    }
    return {
      name: model.name,
      datatype: model.datatype,
      shape: [rows, ...model.shape.slice(1)],
      encoding: 'raw',
      byteOffset,
      byteLength: position - byteOffset,
    };
  });
  return { buffer, tensors };
}

/** Gives `spare`, once, where it serves for what is asked, and new buffers otherwise. */
export function allocateFrom(spare: ArrayBuffer | undefined): AllocateBuffer {
  let left = spare;
  return (byteLength) => {
    if (left === undefined || byteLength < largeBytesMin || byteLength > left.byteLength) {
      return newBuffer(byteLength);
    }
    const buffer = left;
    left = undefined;
    return buffer;
  };
}

/** Views of `buffer`; nothing is copied. */
export function unpackTensors(messages: readonly TensorMessage[], buffer: ArrayBuffer): Tensor[] {
  return unpackTensorList(messages, buffer, 0);
}

/** The same for one of several lists, which begins at `byteOffset`. */
export function unpackTensorList(
  messages: readonly TensorMessage[],
  buffer: ArrayBuffer,
  byteOffset: number,
): Tensor[] {
  return messages.map((message) => ({
    name: message.name,
    datatype: message.datatype,
    shape: message.shape,
    encoding: message.encoding,
    bytes: new Uint8Array(buffer, byteOffset + message.byteOffset, message.byteLength),
  }));
}

/**
 * Cuts the joined `outputs` of a batch into those of its requests: result `[request][output]`, views
 * of the same memory. `rows` are the requests' verified row counts. Throws INTERNAL where an
 * output's first dimension is not their sum: then no row can be said to be anybody's.
 */
export function splitRows(
  outputs: readonly Tensor[],
  rows: readonly number[],
  modelLabel: string,
): readonly (readonly Tensor[])[] {
  let total = 0;
  for (const count of rows) total += count;
  const results: Tensor[][] = rows.map(() => []);
  for (const output of outputs) {
    if (output.shape[0] !== total) {
      throw internal(
        `${modelLabel}: output '${output.name}' has shape ${formatShape(output.shape)}, ` +
          `expected a first dimension of ${total}, the rows of the batch`,
      );
    }
    splitOutput(output, rows, total, results);
  }
  return results;
}

/** Appends each request's rows of `output` to its list of `results`. */
function splitOutput(
  output: Tensor,
  rows: readonly number[],
  total: number,
  results: readonly Tensor[][],
): void {
  const { name, datatype, encoding, bytes } = output;
  // Not in the loop: on Node 20 each is a call into the runtime.
  const { buffer, byteOffset } = bytes;
  const rowShape = output.shape.slice(1);
  const ends =
    datatype === 'BYTES' ? bytesRowEnds(output, rows, total) : fixedRowEnds(output, rows, total);
  let start = 0;
  let shape: readonly number[] = output.shape;
  for (let index = 0; index < rows.length; index += 1) {
    const count = rows[index] ?? 0;
    // Most requests of a batch have equally many rows, and may share the list.
    if (shape[0] !== count) shape = [count, ...rowShape];
    const end = ends[index] ?? start;
    results[index]?.push({
      name,
      datatype,
      shape,
      encoding,
      bytes: new Uint8Array(buffer, byteOffset + start, end - start),
    });
    start = end;
  }
}

/** Throws INTERNAL where the bytes of a raw tensor do not fit its datatype and shape. */
export function checkTensorBytes(tensor: Tensor, modelLabel: string): void {
  const { datatype, shape, bytes } = tensor;
  const size = elementBytes[datatype];
  if (size === 0) return;
  const expected = elementCount(shape) * size;
  if (expected !== bytes.byteLength) {
    throw internal(
      `${modelLabel}: output '${tensor.name}' has ${bytes.byteLength} bytes, ` +
        `expected ${expected} for ${datatype} ${formatShape(shape)}`,
    );
  }
}

/** The next place in a message's buffer where a tensor may begin. */
export function aligned(position: number): number {
  return Math.ceil(position / alignment) * alignment;
}

/** The tensor that belongs to `first[index]`; almost always at the same index. */
function tensorAt(request: readonly Tensor[], index: number, first: readonly Tensor[]): Tensor {
  const name = first[index]?.name;
  const tensor = request[index];
  if (tensor !== undefined && tensor.name === name) return tensor;
  const found = request.find((candidate) => candidate.name === name);
  if (found === undefined) throw internal(`a batch mixes inputs: no '${name}'; this is a bug`);
  return found;
}

/** Where the rows of each request end, where every row has the same size. */
function fixedRowEnds(output: Tensor, rows: readonly number[], total: number): readonly number[] {
  const rowBytes = total === 0 ? 0 : output.bytes.byteLength / total;
  let end = 0;
  return rows.map((count) => {
    end += count * rowBytes;
    return end;
  });
}

/** The same for elements of any length, by walking their length prefixes. */
function bytesRowEnds(output: Tensor, rows: readonly number[], total: number): readonly number[] {
  const { bytes } = output;
  const rowElements = total === 0 ? 0 : elementCount(output.shape) / total;
  let end = 0;
  return rows.map((count) => {
    for (let element = count * rowElements; element > 0; element -= 1) {
      end += 4 + readElementLength(bytes, end);
    }
    return end;
  });
}
