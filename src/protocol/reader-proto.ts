import { isUtf8 } from 'node:buffer';
import { type InferenceServerError, invalidArg } from '../errors.js';

/** How deep groups, an encoding that no message here uses, may nest in a field to be skipped. */
const groupDepthMax = 100;

const varintWire = 0;
const fixed64Wire = 1;
const lengthWire = 2;
const groupStartWire = 3;
const groupEndWire = 4;
const fixed32Wire = 5;

/**
 * Reads protobuf's binary form field by field, without copies: bytes come as views of the message.
 *
 * ```
 * while (reader.next()) {
 *   switch (reader.tag) {              // field number * 8 + wire type
 *     case 10: name = reader.text(); break;
 *     default: reader.skip();          // unknown fields, and known ones of another wire type
 *   }
 * }
 * ```
 *
 * Every method throws INVALID_ARG where the bytes are not a message.
 */
export class ProtoReader {
  /** Of the field that the last {@link next} found. */
  tag = 0;
  readonly #bytes: Buffer;
  readonly #end: number;
  #at: number;
  /** Halves of the varint read last, as unsigned numbers. */
  #low = 0;
  #high = 0;

  constructor(bytes: Uint8Array, start = 0, end = bytes.byteLength) {
    this.#bytes = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#at = start;
    this.#end = end;
  }

  /** Goes on to the next field; false at the end of the message. */
  next(): boolean {
    if (this.#at >= this.#end) return false;
    this.#readVarint();
    this.tag = this.#low;
    if (this.#high !== 0 || this.tag < 8) throw malformed();
    return true;
  }

  skip(): void {
    this.#skip(this.tag, groupDepthMax);
  }

  /** A sub-message. */
  message(): ProtoReader {
    const length = this.#readLength();
    return new ProtoReader(this.#bytes, this.#at - length, this.#at);
  }

  /** A view, valid for as long as the message is. */
  bytes(): Uint8Array {
    const length = this.#readLength();
    const { buffer, byteOffset } = this.#bytes;
    return new Uint8Array(buffer, byteOffset + this.#at - length, length);
  }

  text(): string {
    const length = this.#readLength();
    const start = this.#at - length;
    const text = this.#bytes.toString('utf8', start, this.#at);
    // What is not UTF-8 is read as this character, which may also be there in its own right.
    if (text.includes('\ufffd') && !isUtf8(this.#bytes.subarray(start, this.#at))) {
      throw malformed();
    }
    return text;
  }

  bool(): boolean {
    this.#readVarint();
    return this.#low !== 0 || this.#high !== 0;
  }

  /** The lower 32 bits of a varint, signed. */
  int32(): number {
    this.#readVarint();
    return this.#low | 0;
  }

  /** The lower 32 bits of a varint, unsigned. */
  uint32(): number {
    this.#readVarint();
    return this.#low;
  }

  /** A signed 64-bit integer, rounded where it is beyond 2^53. */
  int64Number(): number {
    this.#readVarint();
    return (this.#high | 0) * 0x1_0000_0000 + this.#low;
  }

  /** An unsigned 64-bit integer, rounded where it is beyond 2^53. */
  uint64Number(): number {
    this.#readVarint();
    return this.#high * 0x1_0000_0000 + this.#low;
  }

  int64(): bigint {
    return BigInt.asIntN(64, this.uint64());
  }

  uint64(): bigint {
    this.#readVarint();
    return (BigInt(this.#high) << 32n) | BigInt(this.#low);
  }

  /** Writes a 64-bit varint to `target`, little-endian. */
  copyVarint(target: DataView, offset: number): void {
    this.#readVarint();
    target.setUint32(offset, this.#low, true);
    target.setUint32(offset + 4, this.#high, true);
  }

  double(): number {
    this.#advance(8);
    return this.#bytes.readDoubleLE(this.#at - 8);
  }

  /** A varint as it is encoded, a view. */
  varintBytes(): Uint8Array {
    const start = this.#at;
    this.#readVarint();
    const { buffer, byteOffset } = this.#bytes;
    return new Uint8Array(buffer, byteOffset + start, this.#at - start);
  }

  /** The bytes of a fixed field, a view. */
  fixed(byteLength: 4 | 8): Uint8Array {
    this.#advance(byteLength);
    const { buffer, byteOffset } = this.#bytes;
    return new Uint8Array(buffer, byteOffset + this.#at - byteLength, byteLength);
  }

  /** True where no byte is left: a packed field is read as `while (!packed.isAtEnd)`. */
  get isAtEnd(): boolean {
    return this.#at >= this.#end;
  }

  #readLength(): number {
    this.#readVarint();
    if (this.#high !== 0) throw malformed();
    const length = this.#low;
    this.#advance(length);
    return length;
  }

  #advance(byteLength: number): void {
    if (byteLength > this.#end - this.#at) throw malformed();
    this.#at += byteLength;
  }

  #readVarint(): void {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.#at >= this.#end) throw malformed();
      const byte = this.#bytes[this.#at++] ?? 0;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >> 4;
      } else if (shift < 63) high |= bits << (shift - 32);
      else high |= (bits & 1) << 31;
      if (byte < 0x80) {
        this.#low = low >>> 0;
        this.#high = high >>> 0;
        return;
      }
    }
    throw malformed();
  }

  #skip(tag: number, depthLeft: number): void {
    switch (tag & 7) {
      case varintWire:
        this.#readVarint();
        break;
      case fixed64Wire:
        this.#advance(8);
        break;
      case lengthWire:
        this.#readLength();
        break;
      case fixed32Wire:
        this.#advance(4);
        break;
      case groupStartWire:
        this.#skipGroup(tag, depthLeft);
        break;
      default:
        throw malformed();
    }
  }

  #skipGroup(startTag: number, depthLeft: number): void {
    if (depthLeft === 0) throw malformed();
    const endTag = startTag - groupStartWire + groupEndWire;
    while (this.next()) {
      if (this.tag === endTag) return;
      this.#skip(this.tag, depthLeft - 1);
    }
    throw malformed();
  }
}

function malformed(): InferenceServerError {
  return invalidArg('the request is not a valid protobuf message');
}
