import { invalidArg } from '../errors.js';
import { readElementLength } from '../inference/bytes-elements.js';
import { type Datatype, elementBytes } from '../inference/datatype.js';
import { appendJsonString, decodeText } from './json-text.js';

/**
 * The elements of a raw tensor as a flat JSON array. Floats print as JavaScript prints them but
 * with `.0` behind whole numbers and no `+` in exponents; NaN and infinities are bare words; FP32
 * is widened first, so that 0.1 is 0.10000000149011612; 64-bit integers are exact.
 *
 * Throws INVALID_ARG for FP16 and BF16, which leave only as binary.
 */
export function tensorText(datatype: Datatype, bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (datatype) {
    case 'BOOL':
      return join(bytes.byteLength, 1, (at) => (bytes[at] ? 'true' : 'false'));
    case 'UINT8':
      return join(bytes.byteLength, 1, (at) => `${bytes[at]}`);
    case 'INT8':
      return join(bytes.byteLength, 1, (at) => `${view.getInt8(at)}`);
    case 'UINT16':
      return join(bytes.byteLength, 2, (at) => `${view.getUint16(at, true)}`);
    case 'INT16':
      return join(bytes.byteLength, 2, (at) => `${view.getInt16(at, true)}`);
    case 'UINT32':
      return join(bytes.byteLength, 4, (at) => `${view.getUint32(at, true)}`);
    case 'INT32':
      return join(bytes.byteLength, 4, (at) => `${view.getInt32(at, true)}`);
    case 'UINT64':
      return join(bytes.byteLength, 8, (at) => `${view.getBigUint64(at, true)}`);
    case 'INT64':
      return join(bytes.byteLength, 8, (at) => `${view.getBigInt64(at, true)}`);
    case 'FP32':
      return join(bytes.byteLength, 4, (at) => doubleText(view.getFloat32(at, true)));
    case 'FP64':
      return join(bytes.byteLength, 8, (at) => doubleText(view.getFloat64(at, true)));
    case 'BYTES':
      return bytesText(bytes);
    case 'FP16':
    case 'BF16':
      throw invalidArg(
        `sending ${datatype} data via JSON is not supported. Please use the binary data format for output`,
      );
  }
}

/** {@link tensorText} as UTF-8, made in pieces: for arrays that are too long for one string. */
export function encodeTensorJson(datatype: Datatype, bytes: Uint8Array): Uint8Array {
  return Buffer.from(tensorText(datatype, bytes), 'utf8');
}

/** A double as the reference server prints it. */
export function doubleText(value: number): string {
  if (Number.isInteger(value)) {
    if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
    if (value < 1e21 && value > -1e21) return `${value}.0`;
  }
  const text = `${value}`;
  return text.includes('e+') ? text.replace('e+', 'e') : text;
}

function join(byteLength: number, step: number, elementText: (at: number) => string): string {
  if (byteLength < step) return '[]';
  let text = `[${elementText(0)}`;
  for (let at = step; at + step <= byteLength; at += step) text += `,${elementText(at)}`;
  return `${text}]`;
}

function bytesText(bytes: Uint8Array): string {
  let text = '[';
  let at = 0;
  while (at + 4 <= bytes.byteLength) {
    const length = readElementLength(bytes, at);
    const element = decodeText(bytes.subarray(at + 4, at + 4 + length));
    text = appendJsonString(at === 0 ? text : `${text},`, element);
    at += 4 + length;
  }
  return `${text}]`;
}

/** Elements of a raw tensor. */
export function rawElementCount(datatype: Datatype, bytes: Uint8Array): number {
  if (datatype !== 'BYTES') return bytes.byteLength / elementBytes[datatype];
  let count = 0;
  for (let at = 0; at + 4 <= bytes.byteLength; count++) at += 4 + readElementLength(bytes, at);
  return count;
}
