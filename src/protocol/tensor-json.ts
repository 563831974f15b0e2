import { type InferenceServerError, invalidArg } from '../errors.js';
import { writeElementLength } from '../inference/bytes-elements.js';
import { type Datatype, elementBytes } from '../inference/datatype.js';
import { elementCount } from '../inference/shape.js';
import { unescapeInto } from './json-scanner.js';
import {
  closeBracket,
  comma,
  openBracket,
  quote,
  skipSpace,
  skipString,
  syntaxError,
} from './json-syntax.js';
import { NumberReader, wrongType } from './number-reader.js';

/** Arrays inside one another deeper than this are refused. */
const nestingLimit = 1000;

/**
 * The elements of a JSON array, nested in any way, as raw bytes: what a tensor of `encoding: 'json'`
 * stands for. `text` is an array up to its last byte and need not have been checked before.
 *
 * Throws INVALID_ARG: `failed to parse the request JSON buffer: ...` where it is not JSON,
 * `Unable to parse 'data': ...` where elements don't fit `datatype` or their number `shape`.
 */
export function decodeTensorJson(
  datatype: Datatype,
  shape: readonly number[],
  text: Uint8Array,
): Uint8Array {
  const count = elementCount(shape);
  if (datatype === 'BYTES') {
    const { bytes, elements } = decodeBytesJson(text);
    if (elements !== count) throw countMismatch();
    return bytes;
  }
  // Two characters an element, one for the last: decided before anything of that size is allocated.
  if (count > (text.byteLength - 1) / 2) throw countMismatch();
  const raw = new Uint8Array(count * elementBytes[datatype]);
  const decoder = elementDecoder(datatype, raw, text);
  let written = 0;
  walkArray(text, (at) => {
    if (written === count) throw countMismatch();
    return decoder(at, written++);
  });
  if (written !== count) throw countMismatch();
  return raw;
}

/** The strings of a JSON array in binary form, and how many they are. */
export function decodeBytesJson(text: Uint8Array): {
  readonly bytes: Uint8Array;
  readonly elements: number;
} {
  // `""` and a comma are 3 characters of text and 4 bytes of length, so that the binary form is at
  // most 4/3 of the text, and one length.
  const target = new Uint8Array(Math.ceil((text.byteLength * 4) / 3) + 4);
  let elements = 0;
  let written = 0;
  walkArray(text, (at) => {
    if (at >= text.byteLength) throw syntaxError('Invalid value.', at);
    if (text[at] !== quote) throw notAString();
    const next = skipString(text, at, text.byteLength);
    const stop = unescapeInto(target, written + 4, text, at + 1, next - 1);
    writeElementLength(target, written, stop - written - 4);
    written = stop;
    elements++;
    return next;
  });
  return { bytes: target.slice(0, written), elements };
}

function countMismatch(): InferenceServerError {
  return invalidArg("Unable to parse 'data': Shape does not match true shape of 'data' field");
}

function notAString(): InferenceServerError {
  return invalidArg(
    'Unable to parse JSON bytes array: attempt to access JSON non-string as string',
  );
}

/** Reads the element at an offset into place `index`; returns the offset behind it. */
type ElementDecoder = (at: number, index: number) => number;

function elementDecoder(
  datatype: Exclude<Datatype, 'BYTES'>,
  raw: Uint8Array,
  text: Uint8Array,
): ElementDecoder {
  const reader = new NumberReader(text);
  const { buffer } = raw;
  switch (datatype) {
    case 'BOOL':
      return (at, index) => {
        const isTrue = startsWith(text, at, 'true');
        if (!isTrue && !startsWith(text, at, 'false')) throw wrongType('non-boolean as boolean');
        raw[index] = isTrue ? 1 : 0;
        return at + (isTrue ? 4 : 5);
      };
    case 'FP32': {
      const floats = new Float32Array(buffer);
      return (at, index) => {
        floats[index] = reader.float32(at);
        return reader.next;
      };
    }
    case 'FP64': {
      const floats = new Float64Array(buffer);
      return (at, index) => {
        floats[index] = reader.double(at);
        return reader.next;
      };
    }
    case 'INT8':
      return integerDecoder(datatype, reader, new Int8Array(buffer), -0x80, 0x7f);
    case 'INT16':
      return integerDecoder(datatype, reader, new Int16Array(buffer), -0x8000, 0x7fff);
    case 'INT32':
      return integerDecoder(datatype, reader, new Int32Array(buffer), -0x80000000, 0x7fffffff);
    case 'UINT8':
      return integerDecoder(datatype, reader, raw, 0, 0xff);
    case 'UINT16':
      return integerDecoder(datatype, reader, new Uint16Array(buffer), 0, 0xffff);
    case 'UINT32':
      return integerDecoder(datatype, reader, new Uint32Array(buffer), 0, 0xffffffff);
    case 'INT64':
    case 'UINT64': {
      const words = new Uint32Array(buffer);
      const isSigned = datatype === 'INT64';
      return (at, index) => {
        reader.integer64(at, isSigned, words, index * 2);
        return reader.next;
      };
    }
    case 'FP16':
    case 'BF16':
      throw unsupportedInJson(datatype);
  }
}

/** FP16 and BF16 have no JSON form (the reference server takes and gives them only as binary). */
function unsupportedInJson(datatype: Datatype): InferenceServerError {
  return invalidArg(
    `receiving ${datatype} data via JSON is not supported. Please use the binary data format`,
  );
}

function integerDecoder(
  datatype: Datatype,
  reader: NumberReader,
  integers: Int8Array | Int16Array | Int32Array | Uint8Array | Uint16Array | Uint32Array,
  min: number,
  max: number,
): ElementDecoder {
  return (at, index) => {
    const value = reader.integer(at, min < 0);
    // The reference server lets it wrap: 300 becomes 44 as INT8. Here it is the client's mistake.
    if (value < min || value > max) {
      throw invalidArg(`Unable to parse 'data': ${value} is out of the range of ${datatype}`);
    }
    integers[index] = value;
    return reader.next;
  };
}

function startsWith(text: Uint8Array, at: number, word: string): boolean {
  for (let index = 0; index < word.length; index++) {
    if (text[at + index] !== word.charCodeAt(index)) return false;
  }
  return true;
}

/** Calls `decode` for each element, in order; checks brackets and commas up to the end of `text`. */
function walkArray(text: Uint8Array, decode: (at: number) => number): void {
  const end = text.byteLength;
  let at = skipSpace(text, 0, end);
  let depth = 0;
  do {
    if (text[at] === openBracket && at < end) {
      if (++depth > nestingLimit) {
        throw invalidArg(`JSON nesting depth exceeds maximum allowed limit (${nestingLimit})`);
      }
      at = skipSpace(text, at + 1, end);
      if (text[at] !== closeBracket || at >= end) continue;
      at++;
      depth--;
    } else {
      at = decode(at);
    }
    while (depth > 0) {
      if (text[at] !== comma && text[at] !== closeBracket) at = skipSpace(text, at, end);
      const byte = at < end ? text[at] : 0;
      at++;
      if (byte === comma) {
        if (text[at] === 0x20) at = skipSpace(text, at, end);
        break;
      }
      if (byte !== closeBracket) {
        throw syntaxError("Missing a comma or ']' after an array element.", at - 1);
      }
      depth--;
    }
  } while (depth > 0);
  at = skipSpace(text, at, end);
  if (at < end) throw syntaxError("Missing a comma or '}' after an object member.", at);
}
