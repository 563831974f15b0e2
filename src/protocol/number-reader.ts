import { type InferenceServerError, invalidArg } from '../errors.js';
import { numberOf } from './json-scanner.js';
import { openBrace, openBracket, quote, skipNumber, syntaxError } from './json-syntax.js';

/** Powers of ten that a double holds exactly. */
const exactPowers: Float64Array = Float64Array.from({ length: 23 }, (_, power) => 10 ** power);

/**
 * Reads numbers of a JSON text. Each method takes the offset of a number and leaves the offset
 * behind it in {@link next}; each throws INVALID_ARG for anything but a number of its kind.
 *
 * Short numbers are made from their digits: a mantissa below 2^53 and a power of ten up to 10^22
 * are both exact, so that one multiplication or division rounds correctly (Clinger, "How to read
 * floating point numbers accurately"). All others go through `Number`, which is about ten times
 * slower (see `bench/micro/protocol/tensor-json.bench.ts`).
 */
export class NumberReader {
  next = 0;
  readonly #bytes: Uint8Array;
  readonly #text: Buffer;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  double(at: number): number {
    return this.#decimal(at, 15);
  }

  /**
   * A number to be stored as FP32, within one rounding of the double that the text stands for.
   * FP32 values print as up to 17 digits, which is too many for an exact mantissa: the product is
   * then off by less than 2^-49, which matters only next to the middle between two floats.
   */
  float32(at: number): number {
    const value = this.#decimal(at, 19);
    const margin = value * 2 ** -48;
    if (Math.fround(value - margin) === Math.fround(value + margin)) return value;
    return this.#decimal(at, 15);
  }

  /** An integer of at most 64 bits, rounded to a double beyond 2^53. */
  integer(at: number, isSigned: boolean): number {
    const bytes = this.#bytes;
    let next = at;
    const isNegative = bytes[next] === 0x2d;
    if (isNegative) next++;
    const start = next;
    let value = 0;
    let digit = (bytes[next] ?? 0) - 0x30;
    while (digit >= 0 && digit <= 9) {
      value = value * 10 + digit;
      digit = (bytes[++next] ?? 0) - 0x30;
    }
    const byte = bytes[next] ?? 0;
    const isPlain =
      next > start &&
      next - start <= 15 &&
      byte !== 0x2e &&
      (byte | 0x20) !== 0x65 &&
      !(bytes[start] === 0x30 && next > start + 1);
    if (!isPlain) return Number(this.#bigInteger(at, isSigned));
    if (isNegative && !isSigned && value !== 0) throw wrongInteger(isSigned);
    this.next = next;
    return isNegative ? 0 - value : value;
  }

  /** Writes an integer as two 32-bit words, the lower one first. */
  integer64(at: number, isSigned: boolean, words: Uint32Array, index: number): void {
    const value = this.integer(at, isSigned);
    if (Number.isSafeInteger(value)) {
      words[index] = value;
      words[index + 1] = Math.floor(value / 0x100000000);
      return;
    }
    const exact = this.#bigInteger(at, isSigned);
    words[index] = Number(exact & 0xffffffffn);
    words[index + 1] = Number((exact >> 32n) & 0xffffffffn);
  }

  #bigInteger(at: number, isSigned: boolean): bigint {
    const text = this.#anyNumber(at, () => wrongInteger(isSigned));
    if (!/^-?\d{1,20}$/.test(text)) throw wrongInteger(isSigned);
    const value = BigInt(text);
    const isInRange = isSigned
      ? value >= -0x8000000000000000n && value <= 0x7fffffffffffffffn
      : value >= 0n && value <= 0xffffffffffffffffn;
    if (!isInRange) throw wrongInteger(isSigned);
    return value;
  }

  #decimal(at: number, digitsMax: number): number {
    const bytes = this.#bytes;
    let next = at;
    const isNegative = bytes[next] === 0x2d;
    if (isNegative) next++;
    const start = next;
    let mantissa = 0;
    let digit = (bytes[next] ?? 0) - 0x30;
    while (digit >= 0 && digit <= 9) {
      mantissa = mantissa * 10 + digit;
      digit = (bytes[++next] ?? 0) - 0x30;
    }
    let digits = next - start;
    let isPlain = digits > 0 && !(bytes[start] === 0x30 && digits > 1);
    let power = 0;
    if (digit === -2) {
      const fraction = next + 1;
      digit = (bytes[++next] ?? 0) - 0x30;
      while (digit >= 0 && digit <= 9) {
        mantissa = mantissa * 10 + digit;
        digit = (bytes[++next] ?? 0) - 0x30;
      }
      power = fraction - next;
      digits -= power;
      isPlain &&= next > fraction;
    }
    if (((digit + 0x30) | 0x20) === 0x65) {
      const isSigned = bytes[next + 1] === 0x2b || bytes[next + 1] === 0x2d;
      const exponentStart = next + (isSigned ? 2 : 1);
      const isMinus = bytes[next + 1] === 0x2d;
      let exponent = 0;
      next = exponentStart;
      digit = (bytes[next] ?? 0) - 0x30;
      while (digit >= 0 && digit <= 9) {
        exponent = exponent * 10 + digit;
        digit = (bytes[++next] ?? 0) - 0x30;
      }
      power += isMinus ? -exponent : exponent;
      isPlain &&= next > exponentStart;
    }
    if (isPlain && digits <= digitsMax && power >= -22 && power <= 22) {
      const scale = exactPowers[power < 0 ? -power : power] ?? 1;
      const magnitude = power < 0 ? mantissa / scale : mantissa * scale;
      this.next = next;
      // "-0" is the integer 0; only "-0.0" has a sign, as in the reference server.
      return isNegative && (mantissa !== 0 || power !== 0) ? -magnitude : magnitude;
    }
    const text = this.#anyNumber(at, () => wrongType('non-number as double'));
    return text === '-0' ? 0 : numberOf(text);
  }

  #anyNumber(at: number, typeError: () => InferenceServerError): string {
    const bytes = this.#bytes;
    const end = bytes.byteLength;
    if (at >= end) throw syntaxError('Invalid value.', at);
    const first = bytes[at];
    const isOtherKind =
      first === quote ||
      first === openBrace ||
      first === openBracket ||
      first === 0x74 ||
      first === 0x66 ||
      first === 0x6e;
    if (isOtherKind) throw typeError();
    this.next = skipNumber(bytes, at, end);
    return this.#text.toString('latin1', at, this.next);
  }
}

/** How the reference server words a wrongly typed element. */
export function wrongType(access: string): InferenceServerError {
  return invalidArg(`Unable to parse 'data': attempt to access JSON ${access}`);
}

function wrongInteger(isSigned: boolean): InferenceServerError {
  return wrongType(
    isSigned ? 'non-signed-integer as signed-integer' : 'non-unsigned-integer as unsigned-integer',
  );
}
