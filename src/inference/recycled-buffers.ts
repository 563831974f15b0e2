/**
 * From this size on buffers are worth care: they are moved and not cloned, not zeroed when they are
 * made, and used again. A new one costs a page fault for every 4 KiB, and the garbage collector a
 * full round for every 64 MB of them.
 */
export const largeBytesMin = 65_536;

/** A new buffer of `byteLength` bytes that the caller may move to another thread. */
export function newBuffer(byteLength: number): ArrayBuffer {
  if (byteLength < largeBytesMin) return new ArrayBuffer(byteLength);
  const { buffer } = Buffer.allocUnsafeSlow(byteLength);
  // Node never backs an unpooled buffer with shared memory; the check is for the type.
  return buffer instanceof ArrayBuffer ? buffer : new ArrayBuffer(byteLength);
}

/** Buffers kept at most, and their bytes together: enough for each instance of a usual model. */
const keptMax = 4;
const keptBytesMax = 67_108_864;

/**
 * Large buffers that came back and serve again, as a request's body or as a batch on its way to an
 * instance: their memory is mapped already. A buffer serves where it is large enough and not more
 * than twice too large; its users never look behind what they wrote.
 */
export class RecycledBuffers {
  readonly #kept: ArrayBuffer[] = [];
  #keptBytes = 0;

  /** A buffer of at least `byteLength` bytes; its content is arbitrary where it is large. */
  readonly take = (byteLength: number): ArrayBuffer => {
    if (byteLength < largeBytesMin) return newBuffer(byteLength);
    return this.find(byteLength) ?? newBuffer(byteLength);
  };

  /** One that came back and serves for `byteLength` bytes; undefined where there is none. */
  find(byteLength: number): ArrayBuffer | undefined {
    const index = this.#kept.findIndex(
      (buffer) => buffer.byteLength >= byteLength && buffer.byteLength <= 2 * byteLength,
    );
    const [buffer] = index < 0 ? [] : this.#kept.splice(index, 1);
    if (buffer !== undefined) this.#keptBytes -= buffer.byteLength;
    return buffer;
  }

  /** Takes ownership; the oldest are let go where there are too many. */
  give(buffer: ArrayBuffer): void {
    if (buffer.byteLength > keptBytesMax) return;
    this.#kept.push(buffer);
    this.#keptBytes += buffer.byteLength;
    while (this.#kept.length > keptMax || this.#keptBytes > keptBytesMax) {
      this.#keptBytes -= this.#kept.shift()?.byteLength ?? 0;
    }
  }
}
