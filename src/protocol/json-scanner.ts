import {
  backslash,
  checkJsonSyntax,
  closeBrace,
  closeBracket,
  comma,
  documentStart,
  hexCode,
  latin1,
  openBrace,
  openBracket,
  quote,
  skipSpace,
} from './json-syntax.js';
import { decodeText } from './json-text.js';

/** What a JSON value is. */
export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null';

/**
 * A checked JSON text, read in place: values are offsets into its bytes, and nothing is built until
 * it is asked for. 64-bit integers stay exact, and an object keeps all members of one name.
 *
 * ```
 * for (let key = json.firstMember(object); key >= 0; key = json.nextMember(value)) {
 *   value = json.memberValue(key);
 * }
 * ```
 */
export class JsonText {
  readonly bytes: Uint8Array;
  readonly end: number;
  /** Offset of the document's value. */
  readonly root: number;
  /** Start and end of the longer objects and arrays, ordered by start. */
  readonly #containers: readonly number[];

  /**
   * Checks `bytes[0, end)`, which must not change afterwards. Throws INVALID_ARG for a text that is
   * not JSON. See {@link checkJsonSyntax} for `searchedBytesMin`.
   */
  constructor(bytes: Uint8Array, end: number, searchedBytesMin = Number.POSITIVE_INFINITY) {
    this.bytes = bytes;
    this.end = end;
    this.#containers = checkJsonSyntax(bytes, end, searchedBytesMin);
    this.root = skipSpace(bytes, documentStart(bytes, end), end);
  }

  kind(at: number): JsonKind {
    switch (this.bytes[at]) {
      case openBrace:
        return 'object';
      case openBracket:
        return 'array';
      case quote:
        return 'string';
      case 0x74:
      case 0x66:
        return 'boolean';
      case 0x6e:
        return 'null';
      default:
        return 'number';
    }
  }

  /** Offset behind the value at `at`. */
  skip(at: number): number {
    const { bytes, end } = this;
    const first = bytes[at];
    if (first === quote) return this.#skipString(at);
    if (first !== openBrace && first !== openBracket) {
      let next = at + 1;
      while (next < end && !endsScalar(bytes[next] ?? 0)) next++;
      return next;
    }
    const listedEnd = this.#containerEnd(at);
    if (listedEnd > 0) return listedEnd;
    let depth = 0;
    let next = at;
    for (;;) {
      const byte = bytes[next];
      if (byte === quote) {
        next = this.#skipString(next);
        continue;
      }
      next++;
      if (byte === openBrace || byte === openBracket) depth++;
      else if ((byte === closeBrace || byte === closeBracket) && --depth === 0) return next;
    }
  }

  /** Offset of the first key of the object at `at`; -1 where it is empty. */
  firstMember(at: number): number {
    const next = skipSpace(this.bytes, at + 1, this.end);
    return this.bytes[next] === closeBrace ? -1 : next;
  }

  /** Offset of the value that belongs to the key at `keyAt`. */
  memberValue(keyAt: number): number {
    const colonAt = skipSpace(this.bytes, this.#skipString(keyAt), this.end);
    return skipSpace(this.bytes, colonAt + 1, this.end);
  }

  /** Offset of the key behind the value at `valueAt`; -1 at the end of its object. */
  nextMember(valueAt: number): number {
    return this.#next(valueAt);
  }

  /** Offset of the first element of the array at `at`; -1 where it is empty. */
  firstItem(at: number): number {
    const next = skipSpace(this.bytes, at + 1, this.end);
    return this.bytes[next] === closeBracket ? -1 : next;
  }

  /** Offset of the element behind the one at `itemAt`; -1 at the end of its array. */
  nextItem(itemAt: number): number {
    return this.#next(itemAt);
  }

  /** Offset of the value of the first member called `name`; -1 where there is none. */
  find(objectAt: number, name: string): number {
    for (let key = this.firstMember(objectAt); key >= 0; ) {
      const value = this.memberValue(key);
      if (this.string(key) === name) return value;
      key = this.nextMember(value);
    }
    return -1;
  }

  /** The string at `at`. See `json-text.ts` for bytes that are not UTF-8. */
  string(at: number): string {
    const { bytes } = this;
    const stop = this.#skipString(at) - 1;
    let isPlain = stop - at <= 64;
    if (isPlain) {
      let text = '';
      for (let index = at + 1; index < stop; index++) {
        const byte = bytes[index] ?? 0;
        if (byte >= 0x80 || byte === backslash) {
          isPlain = false;
          break;
        }
        text += String.fromCharCode(byte);
      }
      if (isPlain) return text;
    }
    return decodeText(this.stringBytes(at));
  }

  /** The bytes of the string at `at`, escapes resolved: a view of the text where it has none. */
  stringBytes(at: number): Uint8Array {
    const { bytes } = this;
    const stop = this.#skipString(at) - 1;
    const escapeAt = bytes.subarray(at + 1, stop).indexOf(backslash);
    if (escapeAt < 0) return bytes.subarray(at + 1, stop);
    const target = new Uint8Array(stop - at - 1);
    return target.subarray(0, unescapeInto(target, 0, bytes, at + 1, stop));
  }

  boolean(at: number): boolean {
    return this.bytes[at] === 0x74;
  }

  /**
   * The number at `at`: a `bigint` where it is an integer of at most 64 bits (signed or unsigned),
   * else a double, as the reference server tells them apart.
   */
  number(at: number): bigint | number {
    const text = latin1(this.bytes, at, this.skip(at));
    if (isIntegerText.test(text)) {
      const value = BigInt(text);
      if (value >= -0x8000000000000000n && value <= 0xffffffffffffffffn) return value;
    }
    return numberOf(text);
  }

  /** The unsigned integer at `at` where it is one of at most 15 digits; else -1. */
  smallUnsigned(at: number): number {
    const { bytes } = this;
    let next = at;
    let value = 0;
    for (;;) {
      const byte = bytes[next] ?? 0;
      if (byte < 0x30 || byte > 0x39) break;
      value = value * 10 + byte - 0x30;
      next++;
    }
    const isWhole = next > at && (next >= this.end || endsScalar(bytes[next] ?? 0));
    return isWhole && next - at <= 15 ? value : -1;
  }

  #next(valueAt: number): number {
    const next = skipSpace(this.bytes, this.skip(valueAt), this.end);
    return this.bytes[next] === comma ? skipSpace(this.bytes, next + 1, this.end) : -1;
  }

  #skipString(at: number): number {
    const { bytes } = this;
    let next = at + 1;
    for (;;) {
      const byte = bytes[next];
      if (byte === quote) return next + 1;
      next += byte === backslash ? 2 : 1;
    }
  }

  #containerEnd(at: number): number {
    const containers = this.#containers;
    let low = 0;
    let high = containers.length >> 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const start = containers[middle * 2] ?? 0;
      if (start === at) return containers[middle * 2 + 1] ?? 0;
      if (start < at) low = middle + 1;
      else high = middle;
    }
    return 0;
  }
}

const isIntegerText = /^-?\d{1,20}$/;

/** A number's text as a double, with the words that JSON does not have. */
export function numberOf(text: string): number {
  const value = Number(text);
  if (!Number.isNaN(value)) return value;
  if (text.endsWith('N')) return Number.NaN;
  return text.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
}

function endsScalar(byte: number): boolean {
  return (
    byte === comma ||
    byte === closeBracket ||
    byte === closeBrace ||
    byte === 0x20 ||
    byte === 0x0a ||
    byte === 0x0d ||
    byte === 0x09
  );
}

/** Writes the checked string content `source[start, stop)` without its escapes; returns the end. */
export function unescapeInto(
  target: Uint8Array,
  targetStart: number,
  source: Uint8Array,
  start: number,
  stop: number,
): number {
  let written = targetStart;
  let at = start;
  while (at < stop) {
    const byte = source[at++] ?? 0;
    if (byte !== backslash) {
      target[written++] = byte;
      continue;
    }
    const escaped = source[at++] ?? 0;
    if (escaped !== 0x75) {
      target[written++] = controlOf(escaped);
      continue;
    }
    let code = hexCode(source, at, stop);
    at += 4;
    if (code >= 0xd800 && code <= 0xdbff) {
      code = 0x10000 + ((code - 0xd800) << 10) + (hexCode(source, at + 2, stop) - 0xdc00);
      at += 6;
    }
    written = writeUtf8(target, written, code);
  }
  return written;
}

function controlOf(escaped: number): number {
  switch (escaped) {
    case 0x62:
      return 0x08;
    case 0x66:
      return 0x0c;
    case 0x6e:
      return 0x0a;
    case 0x72:
      return 0x0d;
    case 0x74:
      return 0x09;
    default:
      return escaped;
  }
}

/** Also encodes a lone low surrogate, as three bytes, which is what the reference server does. */
function writeUtf8(target: Uint8Array, at: number, code: number): number {
  if (code < 0x80) {
    target[at] = code;
    return at + 1;
  }
  if (code < 0x800) {
    target[at] = 0xc0 | (code >> 6);
    target[at + 1] = 0x80 | (code & 0x3f);
    return at + 2;
  }
  if (code < 0x10000) {
    target[at] = 0xe0 | (code >> 12);
    target[at + 1] = 0x80 | ((code >> 6) & 0x3f);
    target[at + 2] = 0x80 | (code & 0x3f);
    return at + 3;
  }
  target[at] = 0xf0 | (code >> 18);
  target[at + 1] = 0x80 | ((code >> 12) & 0x3f);
  target[at + 2] = 0x80 | ((code >> 6) & 0x3f);
  target[at + 3] = 0x80 | (code & 0x3f);
  return at + 4;
}
