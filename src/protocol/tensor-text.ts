import { internal, invalidArg } from '../errors.js';
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
  return `[${elementsText(datatype, bytes)}]`;
}

/** Elements that are printed into one string, so that no string grows without bound. */
const elementsPerPiece = 65_536;

/** {@link tensorText} as UTF-8, for arrays of any size. */
export function encodeTensorJson(datatype: Datatype, bytes: Uint8Array): Uint8Array {
  if (datatype === 'BYTES') return encodeBytes(bytes);
  if (isIntegerDatatype(datatype)) return encodeIntegers(datatype, bytes);
  const pieceBytes = elementsPerPiece * elementBytes[datatype];
  const pieces: Uint8Array[] = [opening];
  for (let at = 0; at < bytes.byteLength; at += pieceBytes) {
    if (at > 0) pieces.push(separator);
    const text = elementsText(datatype, bytes.subarray(at, at + pieceBytes));
    pieces.push(Buffer.from(text, 'latin1'));
  }
  pieces.push(closing);
  return Buffer.concat(pieces);
}

const opening = Buffer.from('[');
const separator = Buffer.from(',');
const closing = Buffer.from(']');

function elementsText(datatype: Datatype, bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const { byteLength } = bytes;
  switch (datatype) {
    case 'BOOL':
      return join(byteLength, 1, (at) => (bytes[at] ? 'true' : 'false'));
    case 'UINT8':
      return join(byteLength, 1, (at) => `${bytes[at]}`);
    case 'INT8':
      return join(byteLength, 1, (at) => `${view.getInt8(at)}`);
    case 'UINT16':
      return join(byteLength, 2, (at) => `${view.getUint16(at, true)}`);
    case 'INT16':
      return join(byteLength, 2, (at) => `${view.getInt16(at, true)}`);
    case 'UINT32':
      return join(byteLength, 4, (at) => `${view.getUint32(at, true)}`);
    case 'INT32':
      return join(byteLength, 4, (at) => `${view.getInt32(at, true)}`);
    case 'UINT64':
      return join(byteLength, 8, (at) => `${view.getBigUint64(at, true)}`);
    case 'INT64':
      return join(byteLength, 8, (at) => `${view.getBigInt64(at, true)}`);
    case 'FP32':
      return join(byteLength, 4, (at) => doubleText(view.getFloat32(at, true)));
    case 'FP64':
      return join(byteLength, 8, (at) => doubleText(view.getFloat64(at, true)));
    case 'BYTES':
      return bytesText(bytes);
    case 'FP16':
    case 'BF16':
      throw invalidArg(
        `sending ${datatype} data via JSON is not supported. Please use the binary data format for output`,
      );
  }
}

/** A double as the reference server prints it. */
export function doubleText(value: number): string {
  if (value < 1e21 && value > -1e21) {
    if (!Number.isInteger(value)) return `${value}`;
    return Object.is(value, -0) ? '-0.0' : `${value}.0`;
  }
  return `${value}`.replace('e+', 'e');
}

function join(byteLength: number, step: number, elementText: (at: number) => string): string {
  if (byteLength < step) return '';
  let text = elementText(0);
  for (let at = step; at + step <= byteLength; at += step) text += `,${elementText(at)}`;
  return text;
}

function bytesText(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at + 4 <= bytes.byteLength; ) {
    const end = at + 4 + readElementLength(bytes, at);
    const element = decodeText(bytes.subarray(at + 4, end));
    text = appendJsonString(at === 0 ? '' : `${text},`, element);
    at = end;
  }
  return text;
}

/** Like `bytesText`, byte by byte: a million short strings make no million objects. */
function encodeBytes(bytes: Uint8Array): Uint8Array {
  let byteLength = 2;
  for (let at = 0; at + 4 <= bytes.byteLength; ) {
    const end = at + 4 + readElementLength(bytes, at);
    for (at += 4; at < end; at++) byteLength += escapedLength(bytes[at] ?? 0);
    byteLength += 3;
  }
  const target = Buffer.allocUnsafe(byteLength);
  let written = 0;
  target[written++] = 0x5b;
  for (let at = 0; at + 4 <= bytes.byteLength; ) {
    const end = at + 4 + readElementLength(bytes, at);
    if (at > 0) target[written++] = 0x2c;
    target[written++] = 0x22;
    for (at += 4; at < end; at++) {
      const byte = bytes[at] ?? 0;
      if (escapedLength(byte) === 1) target[written++] = byte;
      else written += target.write(escapeOf(byte), written, 'latin1');
    }
    target[written++] = 0x22;
  }
  target[written++] = 0x5d;
  return target.subarray(0, written);
}

function escapedLength(byte: number): number {
  if (byte >= 0x20) return byte === 0x22 || byte === 0x5c ? 2 : 1;
  return escapeOf(byte).length;
}

function escapeOf(byte: number): string {
  return appendJsonString('', String.fromCharCode(byte)).slice(1, -1);
}

type IntegerDatatype =
  | 'INT8'
  | 'INT16'
  | 'INT32'
  | 'INT64'
  | 'UINT8'
  | 'UINT16'
  | 'UINT32'
  | 'UINT64';

/** Characters of the longest value of a datatype. */
const integerChars: Readonly<Record<IntegerDatatype, number>> = {
  INT8: 4,
  INT16: 6,
  INT32: 11,
  INT64: 20,
  UINT8: 3,
  UINT16: 5,
  UINT32: 10,
  UINT64: 20,
};

function isIntegerDatatype(datatype: Datatype): datatype is IntegerDatatype {
  return Object.hasOwn(integerChars, datatype);
}

/** Digits are written straight into the target: strings would cost three times as much. */
function encodeIntegers(datatype: IntegerDatatype, bytes: Uint8Array): Uint8Array {
  const step = elementBytes[datatype];
  const count = Math.floor(bytes.byteLength / step);
  const target = Buffer.allocUnsafe(count * (integerChars[datatype] + 1) + 2);
  const read = integerReader(datatype, bytes);
  let end = 0;
  target[end++] = 0x5b;
  for (let index = 0; index < count; index++) {
    if (index > 0) target[end++] = 0x2c;
    const value = read(index * step);
    end =
      typeof value === 'number'
        ? writeInteger(target, end, value)
        : end + target.write(`${value}`, end, 'latin1');
  }
  target[end++] = 0x5d;
  return target.subarray(0, end);
}

function integerReader(
  datatype: IntegerDatatype,
  bytes: Uint8Array,
): (at: number) => number | bigint {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (datatype) {
    case 'UINT8':
      return (at) => view.getUint8(at);
    case 'INT8':
      return (at) => view.getInt8(at);
    case 'UINT16':
      return (at) => view.getUint16(at, true);
    case 'INT16':
      return (at) => view.getInt16(at, true);
    case 'UINT32':
      return (at) => view.getUint32(at, true);
    case 'INT32':
      return (at) => view.getInt32(at, true);
    case 'INT64':
    case 'UINT64': {
      const isSigned = datatype === 'INT64';
      return (at) => {
        const high = isSigned ? view.getInt32(at + 4, true) : view.getUint32(at + 4, true);
        const value = high * 0x100000000 + view.getUint32(at, true);
        if (Number.isSafeInteger(value)) return value;
        return isSigned ? view.getBigInt64(at, true) : view.getBigUint64(at, true);
      };
    }
  }
}

/** Writes a whole number below 2^53; returns the end. */
function writeInteger(target: Uint8Array, at: number, value: number): number {
  if (value < 0) {
    target[at] = 0x2d;
    return writeInteger(target, at + 1, -value);
  }
  if (value >= 1e9) {
    const billions = Math.floor(value / 1e9);
    const end = writeInteger(target, at, billions) + 9;
    writeDigits(target, end, value - billions * 1e9, 9);
    return end;
  }
  let digits = 1;
  for (let limit = 10; value >= limit; limit *= 10) digits++;
  writeDigits(target, at + digits, value, digits);
  return at + digits;
}

/** Writes the last `digits` digits of a number below 2^31 so that they end at `end`. */
function writeDigits(target: Uint8Array, end: number, value: number, digits: number): void {
  let rest = value | 0;
  for (let place = end - 1; place >= end - digits; place--) {
    const tens = (rest / 10) | 0;
    target[place] = 0x30 + rest - tens * 10;
    rest = tens;
  }
}

/** How many elements a raw tensor's bytes hold. Throws INTERNAL where they end within one. */
export function rawElementCount(datatype: Datatype, bytes: Uint8Array): number {
  if (datatype !== 'BYTES') return bytes.byteLength / elementBytes[datatype];
  let count = 0;
  let at = 0;
  while (at < bytes.byteLength) {
    if (at + 4 > bytes.byteLength) break;
    at += 4 + readElementLength(bytes, at);
    count++;
  }
  if (at !== bytes.byteLength) {
    throw internal('output tensor shape does not match size of output: a string is cut off');
  }
  return count;
}
