import type { ExecuteReply } from '../execution/model-instances.js';
import { largeBytesMin, RecycledBuffers } from '../inference/recycled-buffers.js';

/**
 * Large buffers on their way round: an instance fills one with outputs, it is lent to the responses
 * that show them, and when all of them have been sent it goes back with a later batch. A reader
 * that does not tell keeps its buffer, and the garbage collector gets it in the end.
 */
export class OutputBuffers {
  readonly #buffers = new RecycledBuffers();
  /** Bytes of output that a row needed last. */
  #rowBytes = 0;

  /** A buffer for the outputs of `rows` rows like the last ones; undefined where none came back. */
  spareFor(rows: number): ArrayBuffer | undefined {
    const byteLength = rows * this.#rowBytes;
    return byteLength < largeBytesMin ? undefined : this.#buffers.find(byteLength);
  }

  /**
   * Lends `buffer`, with `outputBytes` of `rows` rows in it, to `readers` responses; each calls the
   * result once when it is not read any more. Undefined for a small one, which is not worth it.
   */
  lend(
    buffer: ArrayBuffer,
    outputBytes: number,
    rows: number,
    readers: number,
  ): (() => void) | undefined {
    if (buffer.byteLength < largeBytesMin) return undefined;
    this.#rowBytes = outputBytes / Math.max(1, rows);
    let left = readers;
    return () => {
      left -= 1;
      if (left === 0) this.#buffers.give(buffer);
    };
  }
}

/** Bytes of all outputs in an answer. */
export function outputBytesOf(reply: Exclude<ExecuteReply, { readonly type: 'failed' }>): number {
  let sum = 0;
  if (reply.type === 'executed-merged') {
    for (const { byteLength } of reply.outputs) sum += byteLength;
    return sum;
  }
  for (const result of reply.results) {
    if (result.type !== 'response') continue;
    for (const { byteLength } of result.response.outputs) sum += byteLength;
  }
  return sum;
}
