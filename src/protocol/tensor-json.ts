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
import { countMismatch, ElementCounter, type RunDecoder, runDecoder } from './run-decoder.js';

/** Arrays inside one another deeper than this are refused. */
const nestingLimit = 1000;

/**
 * The elements of a JSON array, nested in any way, as raw bytes: what a tensor of `encoding: 'json'`
 * stands for. `text` is an array, or one element, and need not have been checked before.
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
  // Each element and each comma is a character: known before anything of that size is allocated.
  if (count > (text.byteLength + 1) / 2) throw countMismatch();
  const raw = new Uint8Array(count * elementBytes[datatype]);
  const elements = new ElementCounter(count);
  walkArray(text, runDecoder(datatype, raw, text, elements));
  if (elements.written !== count) throw countMismatch();
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

function notAString(): InferenceServerError {
  return invalidArg(
    'Unable to parse JSON bytes array: attempt to access JSON non-string as string',
  );
}

/**
 * Walks over a JSON array of any nesting and checks its brackets and commas up to the end of `text`.
 * `decode` gets the offset of an element and returns the one behind it, or behind a later element
 * of the same array.
 */
function walkArray(text: Uint8Array, decode: RunDecoder): void {
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
        if ((text[at] ?? 0) <= 0x20) at = skipSpace(text, at, end);
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
