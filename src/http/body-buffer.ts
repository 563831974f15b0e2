import { largeBytesMin, RecycledBuffers } from '../inference/recycled-buffers.js';
import type { BodyLimits, BodyRefusal } from './transport.js';

/**
 * Bodies up to this size come from a slab shared by several requests: making an ArrayBuffer of
 * its own costs about 0.4 us, a view 0.1 us. Larger ones own theirs. No one may move (transfer)
 * the memory of a body: tensors are packed into messages by copying.
 */
const slabBodyBytesMax = 4096;
const slabBytes = 65_536;
const nothing = new Uint8Array(0);

/**
 * What is reserved at once when a client declares a length. More is taken as bytes arrive, so that
 * a declared length alone costs no memory.
 */
const firstBytesMax = 1_048_576;

/** Hands out memory for bodies and keeps count of what all unfinished ones hold. */
export class BodyMemory {
  readonly #uploadBytesMax: number;
  #uploadBytes = 0;
  #slab = new ArrayBuffer(slabBytes);
  #slabUsed = 0;
  readonly #recycled = new RecycledBuffers();

  constructor(uploadBytesMax: number) {
    this.#uploadBytesMax = uploadBytesMax;
  }

  /** Bytes held by bodies that are still arriving. */
  get uploadBytes(): number {
    return this.#uploadBytes;
  }

  /** False where the limit of all uploads together would be passed. */
  reserve(bytes: number): boolean {
    if (this.#uploadBytes + bytes > this.#uploadBytesMax) return false;
    this.#uploadBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#uploadBytes -= bytes;
  }

  /** Uninitialised or zeroed bytes whose byte `alignAt` lies on an 8-byte boundary. */
  allocate(bytes: number, alignAt: number): Uint8Array {
    const padding = (8 - (alignAt & 7)) & 7;
    const needed = bytes + padding;
    if (bytes <= slabBodyBytesMax) {
      const start = (this.#slabUsed + 7) & ~7;
      if (start + needed <= slabBytes) {
        this.#slabUsed = start + needed;
        return new Uint8Array(this.#slab, start + padding, bytes);
      }
      this.#slab = new ArrayBuffer(slabBytes);
      this.#slabUsed = needed;
      return new Uint8Array(this.#slab, padding, bytes);
    }
    return new Uint8Array(this.#recycled.take(needed), padding, bytes);
  }

  /** Takes back what `allocate` gave, or a part of it, when nobody reads it any more. */
  recycle(body: Uint8Array): void {
    if (body.byteLength < largeBytesMin) return;
    if (body.buffer instanceof ArrayBuffer) this.#recycled.give(body.buffer);
  }
}

/** One body while it arrives in pieces. */
export class BodyBuffer {
  readonly #memory: BodyMemory;
  readonly #limits: BodyLimits;
  readonly #alignAt: number;
  readonly #declaredBytes: number | undefined;
  #bytes: Uint8Array = nothing;
  #length = 0;
  #chunks = 0;
  #reserved = 0;

  /** `declaredBytes` is the Content-Length, checked by the caller; undefined for a chunked body. */
  constructor(
    memory: BodyMemory,
    limits: BodyLimits,
    alignAt: number,
    declaredBytes: number | undefined,
  ) {
    this.#memory = memory;
    this.#limits = limits;
    this.#alignAt = alignAt;
    this.#declaredBytes = declaredBytes;
  }

  /** Copies a piece; the answer is why the body is refused, if it is. */
  append(piece: Uint8Array): BodyRefusal | undefined {
    if (piece.byteLength === 0) return undefined;
    if (this.#declaredBytes === undefined) {
      this.#chunks += 1;
      const { chunksMax } = this.#limits;
      if (this.#chunks > chunksMax) return { reason: 'too-many-chunks', chunksMax };
    }
    const length = this.#length + piece.byteLength;
    const { bytesMax } = this.#limits;
    if (length > bytesMax) return { reason: 'too-many-bytes', bytesMax, bytes: length };
    if (length > this.#bytes.byteLength && !this.#grow(length)) {
      return { reason: 'no-memory-for-uploads' };
    }
    this.#bytes.set(piece, this.#length);
    this.#length = length;
    return undefined;
  }

  /** The whole body, now the caller's. */
  take(): Uint8Array {
    this.drop();
    return this.#bytes.subarray(0, this.#length);
  }

  /** Ends the count of this body among the uploads. */
  drop(): void {
    this.#memory.release(this.#reserved);
    this.#reserved = 0;
  }

  /** Makes room for `length` bytes and, within the limits, for what is likely to follow. */
  #grow(length: number): boolean {
    const { bytesMax } = this.#limits;
    const likely =
      this.#length === 0 && this.#declaredBytes !== undefined
        ? Math.min(this.#declaredBytes, firstBytesMax)
        : this.#bytes.byteLength * 2;
    const capacity = Math.max(length, Math.min(likely, this.#declaredBytes ?? bytesMax));
    if (!this.#memory.reserve(capacity - this.#reserved)) return false;
    this.#reserved = capacity;
    const larger = this.#memory.allocate(capacity, this.#alignAt);
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#memory.recycle(this.#bytes);
    this.#bytes = larger;
    return true;
  }
}
