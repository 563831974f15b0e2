import { invalidArg } from '../errors.js';

/*
 * BYTES elements in the protocol's binary form: each behind its length, a 4-byte little-endian
 * unsigned integer.
 */

/** Joins elements into their binary form. */
export function encodeBytesElements(elements: readonly Uint8Array[]): Uint8Array {
  let byteLength = 0;
  for (const element of elements) byteLength += 4 + element.byteLength;
  const bytes = new Uint8Array(byteLength);
  let at = 0;
  for (const element of elements) {
    writeElementLength(bytes, at, element.byteLength);
    bytes.set(element, at + 4);
    at += 4 + element.byteLength;
  }
  return bytes;
}

/** Elements as views of `bytes`. Throws INVALID_ARG where lengths and bytes don't agree. */
export function decodeBytesElements(bytes: Uint8Array): Uint8Array[] {
  const elements: Uint8Array[] = [];
  let at = 0;
  while (at < bytes.byteLength) {
    if (bytes.byteLength - at < 4) {
      throw invalidArg(
        `incomplete string length indicator, expecting 4 bytes but only ${bytes.byteLength - at} bytes available`,
      );
    }
    const length = readElementLength(bytes, at);
    if (bytes.byteLength - at - 4 < length) {
      throw invalidArg(
        `incomplete string data, expecting string of length ${length} but only ${bytes.byteLength - at - 4} bytes available`,
      );
    }
    elements.push(bytes.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return elements;
}

/** The four bytes before a BYTES element: its length, little-endian. */
export function readElementLength(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] ?? 0) |
      ((bytes[at + 1] ?? 0) << 8) |
      ((bytes[at + 2] ?? 0) << 16) |
      ((bytes[at + 3] ?? 0) << 24)) >>>
    0
  );
}

/** Writes the four bytes before a BYTES element. */
export function writeElementLength(bytes: Uint8Array, at: number, length: number): void {
  bytes[at] = length;
  bytes[at + 1] = length >>> 8;
  bytes[at + 2] = length >>> 16;
  bytes[at + 3] = length >>> 24;
}
