import { type InferenceServerError, invalidArg } from '../errors.js';

/** Shorter containers are quicker walked than looked up, and not listed. */
const listedBytesMin = 24;

/**
 * Checks that `bytes[0, end)` is one JSON text (RFC 8259) in the dialect of the reference server:
 * `NaN`, `Inf` and `Infinity` are numbers, also negative; a byte order mark may come first; bytes
 * of strings need not be UTF-8. Works without recursion, so that depth costs no stack. Returns the
 * offsets of objects and arrays, start and end, ordered by start; short ones are left out.
 *
 * An array under the key `data` that is longer than `searchedBytesMin` is stepped over by a native
 * search and not looked into: whoever decodes it finds its errors.
 */
export function checkJsonSyntax(
  bytes: Uint8Array,
  end: number,
  searchedBytesMin: number,
): readonly number[] {
  // Stacks with their heights: setting the length of an array is slower than all else here.
  const containers: number[] = [];
  let listed = 0;
  // Open containers: places in `containers`, complemented for objects.
  const open: number[] = [];
  let depth = 0;
  let inObject = false;
  let isAfterDataKey = false;
  let at = skipSpace(bytes, documentStart(bytes, end), end);
  if (at >= end || bytes[at] === 0) throw syntaxError('The document is empty.', at);

  // Each turn reads one value, then closes everything that ends behind it.
  for (;;) {
    const byte = bytes[at];
    let isValueRead = true;
    if (byte === openBrace || byte === openBracket) {
      const isObject = byte === openBrace;
      const dataEnd =
        isAfterDataKey && !isObject && end - at > searchedBytesMin
          ? findArrayEnd(bytes, at, end)
          : 0;
      if (dataEnd - at > searchedBytesMin) {
        containers[listed++] = at;
        containers[listed++] = dataEnd;
        at = dataEnd;
      } else {
        open[depth++] = isObject ? ~listed : listed;
        containers[listed++] = at;
        containers[listed++] = 0;
        inObject = isObject;
        at = skipSpace(bytes, at + 1, end);
        isValueRead = at < end && bytes[at] === (isObject ? closeBrace : closeBracket);
      }
    } else {
      at = skipScalar(bytes, at, end);
    }
    isAfterDataKey = false;

    while (isValueRead) {
      if (depth === 0) {
        at = skipSpace(bytes, at, end);
        // A NUL ends the text for the reference server too.
        if (at < end && bytes[at] !== 0) {
          throw syntaxError('The document root must not be followed by other values.', at);
        }
        containers.length = listed;
        return containers;
      }
      at = skipSpace(bytes, at, end);
      const next = at < end ? bytes[at] : 0;
      if (next === comma) {
        at = skipSpace(bytes, at + 1, end);
        isValueRead = false;
      } else if (next === (inObject ? closeBrace : closeBracket)) {
        at++;
        const place = open[--depth] ?? 0;
        const entry = inObject ? ~place : place;
        if (at - (containers[entry] ?? 0) < listedBytesMin) listed = entry;
        else containers[entry + 1] = at;
        inObject = depth > 0 && (open[depth - 1] ?? 0) < 0;
      } else {
        throw syntaxError(
          inObject
            ? "Missing a comma or '}' after an object member."
            : "Missing a comma or ']' after an array element.",
          at,
        );
      }
    }

    if (inObject) {
      if (at >= end || bytes[at] !== quote) {
        throw syntaxError('Missing a name for object member.', at);
      }
      const keyStart = at;
      at = skipString(bytes, at, end);
      isAfterDataKey = isDataKey(bytes, keyStart, at);
      at = skipSpace(bytes, at, end);
      if (at >= end || bytes[at] !== colon) {
        throw syntaxError('Missing a colon after a name of object member.', at);
      }
      at = skipSpace(bytes, at + 1, end);
    }
  }
}

/** Offset behind a byte order mark, if there is one. */
export function documentStart(bytes: Uint8Array, end: number): number {
  return end >= 3 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
}

/** INVALID_ARG with the offset `at`, in the reference server's words. */
export function syntaxError(reason: string, at: number): InferenceServerError {
  return invalidArg(`failed to parse the request JSON buffer: ${reason} at ${at}`);
}

export const quote = 0x22;
export const comma = 0x2c;
export const colon = 0x3a;
export const openBracket = 0x5b;
export const backslash = 0x5c;
export const closeBracket = 0x5d;
export const openBrace = 0x7b;
export const closeBrace = 0x7d;

/** Offset of the first byte from `from` on that is no white space of JSON; at most `end`. */
export function skipSpace(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
    at++;
  }
  return at;
}

/** Offset behind the string that starts with the quote at `from`. */
export function skipString(bytes: Uint8Array, from: number, end: number): number {
  let at = from + 1;
  while (at < end) {
    const byte = bytes[at] ?? 0;
    if (byte === quote) return at + 1;
    if (byte === backslash) {
      at = skipEscape(bytes, at, end);
    } else if (byte < 0x20) {
      throw syntaxError('Invalid escape character in string.', from + 1);
    } else {
      at++;
    }
  }
  throw syntaxError('Missing a closing quotation mark in string.', from);
}

/** Four hexadecimal digits at `at` as a number; -1 where they are not that. */
export function hexCode(bytes: Uint8Array, at: number, end: number): number {
  if (at + 4 > end) return -1;
  let code = 0;
  for (let index = at; index < at + 4; index++) {
    const byte = bytes[index] ?? 0;
    const letter = byte | 0x20;
    if (byte >= 0x30 && byte <= 0x39) code = code * 16 + byte - 0x30;
    else if (letter >= 0x61 && letter <= 0x66) code = code * 16 + letter - 0x57;
    else return -1;
  }
  return code;
}

function skipEscape(bytes: Uint8Array, at: number, end: number): number {
  const escaped = at + 1 < end ? bytes[at + 1] : 0;
  if (escaped !== 0x75) {
    // " \ / b f n r t
    const isKnown =
      escaped === quote ||
      escaped === backslash ||
      escaped === 0x2f ||
      escaped === 0x62 ||
      escaped === 0x66 ||
      escaped === 0x6e ||
      escaped === 0x72 ||
      escaped === 0x74;
    if (!isKnown) throw syntaxError('Invalid escape character in string.', at);
    return at + 2;
  }
  const code = hexCode(bytes, at + 2, end);
  if (code < 0) throw syntaxError('Incorrect hex digit after \\u escape in string.', at);
  // A high surrogate needs its low one. A low one alone passes, as in the reference server.
  if (code < 0xd800 || code > 0xdbff) return at + 6;
  const low =
    bytes[at + 6] === backslash && bytes[at + 7] === 0x75 ? hexCode(bytes, at + 8, end) : -1;
  if (low < 0xdc00 || low > 0xdfff) {
    throw syntaxError('The surrogate pair in string is invalid.', at);
  }
  return at + 12;
}

/** Offset behind the string, number or word at `from`. */
function skipScalar(bytes: Uint8Array, from: number, end: number): number {
  const byte = from < end ? bytes[from] : 0;
  if (byte === quote) return skipString(bytes, from, end);
  if (byte === 0x74) return skipWord(bytes, from, end, 'true');
  if (byte === 0x66) return skipWord(bytes, from, end, 'false');
  if (byte === 0x6e) return skipWord(bytes, from, end, 'null');
  return skipNumber(bytes, from, end);
}

/** Offset behind the number at `from`, whose value is known to be finite where it has digits. */
export function skipNumber(bytes: Uint8Array, from: number, end: number): number {
  let at = bytes[from] === 0x2d ? from + 1 : from;
  const first = at < end ? (bytes[at] ?? 0) : 0;
  if (first === 0x4e) return skipWord(bytes, at, end, 'NaN');
  if (first === 0x49) {
    const isLong = at + 3 < end && bytes[at + 3] === 0x69;
    return skipWord(bytes, at, end, isLong ? 'Infinity' : 'Inf');
  }
  if (!isDigit(first)) throw syntaxError('Invalid value.', at);
  const integerStart = at;
  // A leading zero stands alone.
  at = first === 0x30 ? at + 1 : skipDigits(bytes, at, end);
  // 200 digits and an exponent of two stay below the largest double, 1.8e308.
  let isHuge = at - integerStart > 200;
  if (at < end && bytes[at] === 0x2e) {
    const fraction = at + 1;
    at = skipDigits(bytes, fraction, end);
    if (at === fraction) throw syntaxError('Miss fraction part in number.', at);
  }
  if (at < end && ((bytes[at] ?? 0) | 0x20) === 0x65) {
    const isSigned = bytes[at + 1] === 0x2b || bytes[at + 1] === 0x2d;
    const exponent = at + (isSigned ? 2 : 1);
    at = skipDigits(bytes, exponent, end);
    if (at === exponent) throw syntaxError('Miss exponent in number.', at);
    isHuge ||= at - exponent > 2;
  }
  if (isHuge && !Number.isFinite(Number(latin1(bytes, from, at)))) {
    throw syntaxError('Number too big to be stored in double.', from);
  }
  return at;
}

/** Text of the bytes, one character each: right for ASCII, and cheap. */
export function latin1(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1');
}

function skipDigits(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && isDigit(bytes[at] ?? 0)) at++;
  return at;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

function skipWord(bytes: Uint8Array, from: number, end: number, word: string): number {
  for (let index = 0; index < word.length; index++) {
    if (from + index >= end || bytes[from + index] !== word.charCodeAt(index)) {
      throw syntaxError('Invalid value.', from + index);
    }
  }
  return from + word.length;
}

function isDataKey(bytes: Uint8Array, start: number, end: number): boolean {
  return (
    end - start === 6 &&
    bytes[start + 1] === 0x64 &&
    bytes[start + 2] === 0x61 &&
    bytes[start + 3] === 0x74 &&
    bytes[start + 4] === 0x61
  );
}

/**
 * Offset behind the array at `from`, found without looking at its elements; 0 where it can't be
 * found that way. An array of numbers ends at the last bracket before the next quote or brace; one
 * of strings has to be walked, string by string.
 */
function findArrayEnd(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && (bytes[at] === openBracket || isSpace(bytes[at]))) at++;
  if (bytes[at] === quote) return findStringArrayEnd(bytes, from, end);
  if (bytes[at] === closeBracket) return 0;
  // The quote first: a search for the brace up to the end of the text for each array of a hostile
  // body would cost the square of its size.
  let stop = bytes.subarray(0, end).indexOf(quote, at);
  if (stop < 0) stop = end;
  const brace = bytes.subarray(at, stop).indexOf(closeBrace);
  if (brace >= 0) stop = at + brace;
  while (stop > at && bytes[stop - 1] !== closeBracket) {
    stop--;
    if (!isSpace(bytes[stop]) && bytes[stop] !== comma) return 0;
  }
  return stop > at ? stop : 0;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Strings longer than this are stepped over by a native search for their closing quote. */
const longStringBytes = 64;

function findStringArrayEnd(bytes: Uint8Array, from: number, end: number): number {
  const text = bytes.subarray(0, end);
  let depth = 0;
  for (let at = from; at < end; at++) {
    const byte = bytes[at];
    if (byte === openBracket) {
      depth++;
    } else if (byte === closeBracket) {
      if (--depth === 0) return at + 1;
    } else if (byte === quote) {
      at = stringEnd(text, at + 1);
      if (at < 0) return 0;
    } else if (byte === openBrace || byte === closeBrace) {
      return 0;
    }
  }
  return 0;
}

/** Offset of the closing quote of the string whose first character is at `from`; -1 for none. */
function stringEnd(text: Uint8Array, from: number): number {
  let at = from;
  const near = Math.min(text.length, from + longStringBytes);
  while (at < near) {
    const byte = text[at];
    if (byte === quote) return at;
    at += byte === backslash ? 2 : 1;
  }
  // `at` is not behind a backslash here, so that counting back from a quote may stop at it.
  for (let found = text.indexOf(quote, at); found >= 0; found = text.indexOf(quote, found + 1)) {
    let slashes = found;
    while (slashes > at && text[slashes - 1] === backslash) slashes--;
    if ((found - slashes) % 2 === 0) return found;
  }
  return -1;
}
