/** Reads what {@link ByteWriter} and its Python counterpart write. Past the end it throws. */
export class ByteReader {
  readonly #buffer: Buffer;
  position: number;

  constructor(buffer: Buffer, position = 0) {
    this.#buffer = buffer;
    this.position = position;
  }

  u8(): number {
    const value = this.#buffer.readUInt8(this.position);
    this.position += 1;
    return value;
  }

  u16(): number {
    const value = this.#buffer.readUInt16LE(this.position);
    this.position += 2;
    return value;
  }

  u32(): number {
    const value = this.#buffer.readUInt32LE(this.position);
    this.position += 4;
    return value;
  }

  /** Exact to 2^53, as lengths and dimensions are. */
  i64(): number {
    const low = this.#buffer.readUInt32LE(this.position);
    const high = this.#buffer.readInt32LE(this.position + 4);
    this.position += 8;
    return high * 0x1_0000_0000 + low;
  }

  bigI64(): bigint {
    const value = this.#buffer.readBigInt64LE(this.position);
    this.position += 8;
    return value;
  }

  bigU64(): bigint {
    const value = this.#buffer.readBigUInt64LE(this.position);
    this.position += 8;
    return value;
  }

  f64(): number {
    const value = this.#buffer.readDoubleLE(this.position);
    this.position += 8;
    return value;
  }

  text(): string {
    return this.bytes(this.u32()).toString('utf8');
  }

  /** A view. */
  bytes(byteLength: number): Buffer {
    const end = this.position + byteLength;
    if (end > this.#buffer.length) throw new RangeError('a frame ends before its fields do');
    const bytes = this.#buffer.subarray(this.position, end);
    this.position = end;
    return bytes;
  }
}
