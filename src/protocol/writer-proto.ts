import assert from 'node:assert/strict';

/** Fields shorter than this are gathered in one block; longer ones stay views until the end. */
const viewBytesMin = 1024;
const blockBytes = 512;

/** The first block: most messages, and all those inside another, end in it. */
const firstBlockBytes = 128;

/**
 * Writes protobuf's binary form. Large byte fields are kept as views and copied once, by
 * {@link finish}; they must not change until then. Tags are field number * 8 + wire type.
 * Nothing is left out for being a default: callers do that.
 */
export class ProtoWriter {
  #byteLength = 0;
  readonly #parts: Uint8Array[] = [];
  #block: Buffer = Buffer.allocUnsafe(firstBlockBytes);
  /** `[#partStart, #at)` of the block is not in `#parts` yet. */
  #partStart = 0;
  #at = 0;

  /** Of all that was written. */
  get byteLength(): number {
    return this.#byteLength;
  }

  tag(tag: number): this {
    return this.#writeVarint(tag);
  }

  bool(tag: number, value: boolean): this {
    return this.#writeVarint(tag).#writeVarint(value ? 1 : 0);
  }

  /** An int64 or uint64. A negative number takes ten bytes, as protobuf has it. */
  integer(tag: number, value: number | bigint): this {
    return this.#writeVarint(tag).#writeInteger(value);
  }

  double(tag: number, value: number): this {
    this.#writeVarint(tag);
    this.#reserve(8);
    this.#block.writeDoubleLE(value, this.#at);
    return this.#advance(8);
  }

  text(tag: number, text: string): this {
    const byteLength = Buffer.byteLength(text, 'utf8');
    this.#writeVarint(tag).#writeVarint(byteLength);
    if (byteLength >= viewBytesMin) return this.#view(Buffer.from(text, 'utf8'));
    this.#reserve(byteLength);
    this.#block.write(text, this.#at, 'utf8');
    return this.#advance(byteLength);
  }

  bytes(tag: number, bytes: Uint8Array): this {
    const { byteLength } = bytes;
    this.#writeVarint(tag).#writeVarint(byteLength);
    if (byteLength >= viewBytesMin) return this.#view(bytes);
    this.#reserve(byteLength);
    this.#block.set(bytes, this.#at);
    return this.#advance(byteLength);
  }

  /** A sub-message; its parts become this message's. */
  message(tag: number, message: ProtoWriter): this {
    message.#closePart();
    this.#writeVarint(tag).#writeVarint(message.#byteLength);
    this.#closePart();
    this.#parts.push(...message.#parts);
    this.#byteLength += message.#byteLength;
    return this;
  }

  /** Integers of a packed repeated field; nothing where there are none. */
  packed(tag: number, values: readonly number[]): this {
    if (values.length === 0) return this;
    let byteLength = 0;
    for (const value of values) byteLength += integerByteLength(value);
    this.#writeVarint(tag).#writeVarint(byteLength);
    for (const value of values) this.#writeInteger(value);
    return this;
  }

  /** The message in one piece. */
  finish(): Buffer {
    this.#closePart();
    const message = Buffer.allocUnsafe(this.#byteLength);
    let at = 0;
    for (const part of this.#parts) {
      message.set(part, at);
      at += part.byteLength;
    }
    assert.equal(at, this.#byteLength, 'the parts are not the message, this is a bug');
    return message;
  }

  #writeInteger(value: number | bigint): this {
    if (typeof value === 'number' && value >= 0 && Number.isSafeInteger(value)) {
      return this.#writeVarint(value);
    }
    let rest = BigInt.asUintN(64, BigInt(value));
    this.#reserve(10);
    let length = 0;
    for (; rest > 0x7fn; rest >>= 7n) {
      this.#block[this.#at + length++] = Number(rest & 0x7fn) | 0x80;
    }
    this.#block[this.#at + length++] = Number(rest);
    return this.#advance(length);
  }

  /** `value` is a safe integer of at least 0. */
  #writeVarint(value: number): this {
    this.#reserve(10);
    let rest = value;
    let length = 0;
    while (rest > 0x7f) {
      this.#block[this.#at + length++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#block[this.#at + length++] = rest;
    return this.#advance(length);
  }

  #advance(byteLength: number): this {
    this.#at += byteLength;
    this.#byteLength += byteLength;
    return this;
  }

  #view(bytes: Uint8Array): this {
    this.#closePart();
    this.#parts.push(bytes);
    this.#byteLength += bytes.byteLength;
    return this;
  }

  #reserve(byteLength: number): void {
    if (this.#at + byteLength <= this.#block.byteLength) return;
    this.#closePart();
    this.#block = Buffer.allocUnsafe(Math.max(blockBytes, byteLength));
    this.#partStart = 0;
    this.#at = 0;
  }

  #closePart(): void {
    if (this.#at === this.#partStart) return;
    this.#parts.push(this.#block.subarray(this.#partStart, this.#at));
    this.#partStart = this.#at;
  }
}

function integerByteLength(value: number): number {
  if (value < 0 || !Number.isSafeInteger(value)) {
    let rest = BigInt.asUintN(64, BigInt(value)) >> 7n;
    let length = 1;
    for (; rest > 0n; rest >>= 7n) length++;
    return length;
  }
  let length = 1;
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 0x80)) length++;
  return length;
}
