import type { InferEnvelope } from './infer-envelope.js';
import { backslash, latin1, quote } from './json-syntax.js';

interface Entry {
  /** From the id's closing quote on, where the header starts with an id. */
  readonly header: Buffer;
  readonly startsWithId: boolean;
  readonly envelope: InferEnvelope;
}

/** Longer headers are not worth their memory. */
const headerBytesMax = 8192;
/** Slots of the table, and of the filter; a power of two. */
const slots = 1024;

/**
 * Remembers what the JSON parts of binary requests said, by their bytes: a client that sends
 * tensors in binary repeats the same header for hours, and comparing it takes 0.2 us where reading
 * it takes 7 us. An `id` that comes first, where clients put it, is left out of the comparison.
 *
 * Direct-mapped, so that both the size and the cost of a miss are bounded: an entry stays until
 * another header that was seen twice needs its slot. Headers seen once are never kept.
 */
export class EnvelopeCache {
  readonly #entries: (Entry | undefined)[] = new Array<Entry | undefined>(slots).fill(undefined);
  /** Hash of the last header that missed, by slot. */
  readonly #seenOnce = new Int32Array(slots);

  /** What the header `body[0, headerEnd)` says, if that is remembered. */
  get(body: Uint8Array, headerEnd: number): InferEnvelope | undefined {
    if (headerEnd > headerBytesMax) return undefined;
    const start = leadingIdEnd(body, headerEnd);
    const entry = this.#entries[hash(body, start, headerEnd) & (slots - 1)];
    if (entry === undefined || entry.startsWithId !== start > 0) return undefined;
    if (entry.header.length !== headerEnd - start) return undefined;
    if (entry.header.compare(body, start, headerEnd) !== 0) return undefined;
    const { envelope } = entry;
    return start === 0 ? envelope : { ...envelope, id: leadingId(body, start) };
  }

  /** Remembers a header that was not found, from its second time on. It is copied. */
  offer(body: Uint8Array, headerEnd: number, envelope: InferEnvelope): void {
    if (headerEnd > headerBytesMax) return;
    const start = leadingIdEnd(body, headerEnd);
    const key = hash(body, start, headerEnd);
    const slot = key & (slots - 1);
    if (this.#seenOnce[slot] !== key) {
      this.#seenOnce[slot] = key;
      return;
    }
    const header = Buffer.from(body.subarray(start, headerEnd));
    this.#entries[slot] = { header, startsWithId: start > 0, envelope };
  }
}

const idKey = Buffer.from('{"id":"');
const idBytesMax = 128;

/**
 * Offset of the closing quote of an id at the very start of a header; 0 where there is none, or one
 * that is not plain ASCII.
 */
function leadingIdEnd(body: Uint8Array, end: number): number {
  for (let at = 0; at < idKey.length; at++) {
    if (body[at] !== idKey[at]) return 0;
  }
  const stop = Math.min(end, idKey.length + idBytesMax);
  for (let at = idKey.length; at < stop; at++) {
    const byte = body[at] ?? 0;
    if (byte === quote) return at;
    if (byte < 0x20 || byte > 0x7e || byte === backslash) return 0;
  }
  return 0;
}

function leadingId(body: Uint8Array, end: number): string {
  return latin1(body, idKey.length, end);
}

/**
 * A hash over 32 bytes spread evenly, and the length. Headers that differ elsewhere share a slot,
 * which costs a comparison; `get` compares all bytes.
 */
function hash(body: Uint8Array, start: number, end: number): number {
  const step = Math.max(1, (end - start) >>> 5);
  let value = end - start;
  for (let at = end - 1; at >= start; at -= step) {
    value = Math.imul(value ^ (body[at] ?? 0), 0x01000193);
  }
  return value ^ (value >>> 15);
}
