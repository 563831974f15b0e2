import { internal, invalidArg } from '../errors.js';
import { encodeBytesElements } from '../inference/bytes-elements.js';
import type { Datatype } from '../inference/datatype.js';
import { elementCount } from '../inference/shape.js';
import type { Tensor } from '../inference/tensor.js';
import { encodeText } from './json-text.js';

/** More elements than this would hold the event loop for too long. */
const elementsMax = 1_000_000;

/**
 * An output as its `count` highest values: BYTES elements `value:index[:label]`, best first, of
 * shape `[batch, k]`, or `[k]` for a model that does not batch, where all elements are one list.
 * NaN ranks above everything; equal values keep their order. Throws INVALID_ARG for a datatype
 * that has no classes or an output that is too large.
 */
export function classify(
  output: Tensor,
  count: number,
  isBatching: boolean,
  labels: readonly string[],
): Tensor {
  if (output.encoding !== 'raw') throw internal('classification of a text output; this is a bug');
  const total = elementCount(output.shape);
  if (total > elementsMax) throw invalidArg('classification output tensor too large');
  const read = valueReader(output.datatype, output.bytes);
  const rows = isBatching ? (output.shape[0] ?? 1) : 1;
  const classes = rows === 0 ? 0 : total / rows;
  const kept = Math.min(count, classes);
  const elements: Uint8Array[] = [];
  for (let row = 0; row < rows; row++) {
    const start = row * classes;
    for (const index of highest(start, classes, kept, read.value)) {
      const label = labels[index];
      const value = read.text(start + index);
      elements.push(
        encodeText(label === undefined ? `${value}:${index}` : `${value}:${index}:${label}`),
      );
    }
  }
  return {
    name: output.name,
    datatype: 'BYTES',
    shape: isBatching ? [rows, kept] : [kept],
    encoding: 'raw',
    bytes: encodeBytesElements(elements),
  };
}

/** Indices, counted from `start`, of the `kept` highest of `classes` values, best first. */
function highest(
  start: number,
  classes: number,
  kept: number,
  value: (index: number) => number | bigint,
): number[] {
  const isBefore = (left: number, right: number): boolean => {
    const a = value(start + left);
    const b = value(start + right);
    if (Number.isNaN(a) || Number.isNaN(b)) {
      return Number.isNaN(a) && !Number.isNaN(b) ? true : Object.is(a, b) && left < right;
    }
    return a > b || (a === b && left < right);
  };
  if (kept === classes || kept > 64) {
    const all = Array.from({ length: classes }, (_, index) => index);
    all.sort((left, right) => (isBefore(left, right) ? -1 : 1));
    return all.slice(0, kept);
  }
  // A few of many: keep the best seen so far, in order.
  const best: number[] = [];
  for (let index = 0; index < classes && kept > 0; index++) {
    const last = best[kept - 1];
    if (last !== undefined && !isBefore(index, last)) continue;
    let place = Math.min(best.length, kept - 1);
    while (place > 0 && isBefore(index, best[place - 1] ?? 0)) {
      best[place] = best[place - 1] ?? 0;
      place--;
    }
    best[place] = index;
  }
  return best;
}

interface ValueReader {
  value(index: number): number | bigint;
  text(index: number): string;
}

function valueReader(datatype: Datatype, bytes: Uint8Array): ValueReader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (datatype) {
    case 'UINT8':
      return integers((index) => view.getUint8(index));
    case 'INT8':
      return integers((index) => view.getInt8(index));
    case 'UINT16':
      return integers((index) => view.getUint16(index * 2, true));
    case 'INT16':
      return integers((index) => view.getInt16(index * 2, true));
    case 'UINT32':
      return integers((index) => view.getUint32(index * 4, true));
    case 'INT32':
      return integers((index) => view.getInt32(index * 4, true));
    case 'UINT64':
      return integers((index) => view.getBigUint64(index * 8, true));
    case 'INT64':
      return integers((index) => view.getBigInt64(index * 8, true));
    case 'FP32':
      return floats((index) => view.getFloat32(index * 4, true));
    case 'FP64':
      return floats((index) => view.getFloat64(index * 8, true));
    case 'BOOL':
    case 'FP16':
    case 'BF16':
    case 'BYTES':
      throw invalidArg(
        `class result not available for output due to unsupported type '${datatype}'`,
      );
  }
}

function integers(value: (index: number) => number | bigint): ValueReader {
  return { value, text: (index) => `${value(index)}` };
}

function floats(value: (index: number) => number): ValueReader {
  return { value, text: (index) => fixedText(value(index)) };
}

/** A double as C's `%f` prints it. */
function fixedText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  return sign + fixedMagnitude(Math.abs(value));
}

function fixedMagnitude(value: number): string {
  // From 1e21 on `toFixed` switches to an exponent; a double of that size is a whole number.
  if (value >= 1e21) return `${BigInt(value)}.000000`;
  // Halfway between two results lies what ends in a seventh decimal, 5, so in 1/128. C takes the
  // even neighbour, `toFixed` the larger.
  const isHalfway = Number.isInteger(value * 128) && !Number.isInteger(value * 64);
  if (!isHalfway) return value.toFixed(6);
  const below = value.toFixed(7).slice(0, -1);
  return Number(below.at(-1)) % 2 === 0 ? below : value.toFixed(6);
}
