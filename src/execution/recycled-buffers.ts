import { largeBytesMin, newBuffer } from './tensor-transfer.js';

/** Buffers kept at most, and their bytes together: enough for each instance of a usual model. */
const keptMax = 4;
const keptBytesMax = 67_108_864;

/**
 * Large buffers that came back from an instance and carry the next batch there: their memory is
 * mapped already. A buffer serves where it is large enough and not more than twice too large; what
 * lies behind the tensors of a message is never looked at.
 */
export class RecycledBuffers {
  readonly #kept: ArrayBuffer[] = [];
  #keptBytes = 0;

  /** A buffer of at least `byteLength` bytes; its content is arbitrary where it is large. */
  readonly take = (byteLength: number): ArrayBuffer => {
    if (byteLength < largeBytesMin) return newBuffer(byteLength);
    const index = this.#kept.findIndex(
      (buffer) => buffer.byteLength >= byteLength && buffer.byteLength <= 2 * byteLength,
    );
    const [buffer] = index < 0 ? [] : this.#kept.splice(index, 1);
    if (buffer === undefined) return newBuffer(byteLength);
    this.#keptBytes -= buffer.byteLength;
    return buffer;
  };

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
