import type { InferEnvelope } from './infer-envelope.js';

interface Entry {
  readonly header: Buffer;
  readonly envelope: InferEnvelope;
}

/** Longer headers are not worth their memory. */
const headerBytesMax = 8192;
/** Slots of the table, and of the filter; powers of two. */
const slots = 1024;

/**
 * Remembers what the JSON parts of binary requests said, by their bytes: a client that sends
 * tensors in binary repeats the same header for hours, and comparing it costs a tenth of reading
 * it. Direct-mapped, so that both the size and the cost of a miss are bounded: an entry stays until
 * another header that was seen twice needs its slot. Headers seen once are never kept, so that
 * clients with an id of its own in each request don't fill the table.
 */
export class EnvelopeCache {
  readonly #entries: (Entry | undefined)[] = new Array<Entry | undefined>(slots).fill(undefined);
  /** Hash of the last header that missed, by slot. */
  readonly #seenOnce = new Int32Array(slots);

  /** The envelope of the header `body[0, headerByteLength)`, if it is remembered. */
  get(body: Uint8Array, headerByteLength: number): InferEnvelope | undefined {
    if (headerByteLength > headerBytesMax) return undefined;
    const entry = this.#entries[hash(body, headerByteLength) & (slots - 1)];
    if (entry === undefined || entry.header.byteLength !== headerByteLength) return undefined;
    return entry.header.compare(body, 0, headerByteLength) === 0 ? entry.envelope : undefined;
  }

  /** Remembers a header that was not found, from its second time on. It is copied. */
  offer(body: Uint8Array, headerByteLength: number, envelope: InferEnvelope): void {
    if (headerByteLength > headerBytesMax) return;
    const key = hash(body, headerByteLength);
    const slot = key & (slots - 1);
    if (this.#seenOnce[slot] !== key) {
      this.#seenOnce[slot] = key;
      return;
    }
    const header = Buffer.from(body.subarray(0, headerByteLength));
    this.#entries[slot] = { header, envelope };
  }
}

/**
 * A hash over 32 bytes spread evenly, and the length. Headers that differ elsewhere share a slot,
 * which costs a comparison; `get` compares all bytes.
 */
function hash(body: Uint8Array, length: number): number {
  const step = Math.max(1, length >>> 5);
  let value = length;
  for (let at = length - 1; at >= 0; at -= step)
    value = Math.imul(value ^ (body[at] ?? 0), 0x01000193);
  return value ^ (value >>> 15);
}
