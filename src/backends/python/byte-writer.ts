import { Buffer } from 'node:buffer';

const initialBytes = 4096;

/** Writes little-endian fields one after another into memory that grows and is used again. */
export class ByteWriter {
  #buffer = Buffer.allocUnsafeSlow(initialBytes);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Starts anew. What {@link bytes} gave before is overwritten from now on. */
  reset(): void {
    this.#length = 0;
  }

  /** A view of what was written. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Leaves room for `byteLength` bytes, which the caller fills with {@link setU32}. */
  skip(byteLength: number): number {
    this.#reserve(byteLength);
    const at = this.#length;
    this.#length += byteLength;
    return at;
  }

  alignTo8(): void {
    const padding = -this.#length & 7;
    this.#reserve(padding);
    this.#buffer.fill(0, this.#length, this.#length + padding);
    this.#length += padding;
  }

  u8(value: number): void {
    this.#reserve(1);
    this.#buffer[this.#length] = value;
    this.#length += 1;
  }

  u16(value: number): void {
    this.#reserve(2);
    this.#buffer.writeUInt16LE(value, this.#length);
    this.#length += 2;
  }

  u32(value: number): void {
    this.#reserve(4);
    this.#buffer.writeUInt32LE(value, this.#length);
    this.#length += 4;
  }

  setU32(at: number, value: number): void {
    this.#buffer.writeUInt32LE(value, at);
  }

  setU64(at: number, value: bigint): void {
    if (value === 0n) this.#buffer.fill(0, at, at + 8);
    else this.#buffer.writeBigUInt64LE(BigInt.asUintN(64, value), at);
  }

  /** A whole number of at most 2^53. */
  i64(value: number): void {
    this.#reserve(8);
    this.#buffer.writeUInt32LE(value >>> 0, this.#length);
    this.#buffer.writeInt32LE(Math.floor(value / 0x1_0000_0000), this.#length + 4);
    this.#length += 8;
  }

  bigI64(value: bigint): void {
    this.#reserve(8);
    this.#buffer.writeBigInt64LE(BigInt.asIntN(64, value), this.#length);
    this.#length += 8;
  }

  f64(value: number): void {
    this.#reserve(8);
    this.#buffer.writeDoubleLE(value, this.#length);
    this.#length += 8;
  }

  /** u32 length and UTF-8. */
  text(text: string): void {
    // Three bytes a code unit is the most that UTF-8 takes.
    this.#reserve(4 + text.length * 3);
    const byteLength = this.#buffer.write(text, this.#length + 4, 'utf8');
    this.#buffer.writeUInt32LE(byteLength, this.#length);
    this.#length += 4 + byteLength;
  }

  /** UTF-8 without a length. */
  utf8(text: string): void {
    this.#reserve(text.length * 3);
    this.#length += this.#buffer.write(text, this.#length, 'utf8');
  }

  /** Writes again what lies from `start` to `end`. */
  repeat(start: number, end: number): void {
    this.#reserve(end - start);
    this.#buffer.copyWithin(this.#length, start, end);
    this.#length += end - start;
  }

  copy(bytes: Uint8Array): void {
    this.#reserve(bytes.byteLength);
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.byteLength;
  }

  #reserve(byteLength: number): void {
    const needed = this.#length + byteLength;
    if (needed <= this.#buffer.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(grown, 0, 0, this.#length);
    this.#buffer = grown;
  }
}
