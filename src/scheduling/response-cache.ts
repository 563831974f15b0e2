import type { Parameters } from '../inference/infer-request.js';
import type { Tensor } from '../inference/tensor.js';

/** What a model answered, without what belongs to one request alone. */
export interface CachedResponse {
  readonly parameters: Parameters;
  readonly outputs: readonly Tensor[];
}

/**
 * Where answers are kept. A cache never fails a request: what goes wrong inside is a miss, or an
 * insertion that did not happen.
 */
export interface ResponseCache {
  /** At once where the cache is in this process. */
  lookup(key: string): CachedResponse | undefined | Promise<CachedResponse | undefined>;
  /** Copies what it keeps; `response` may view memory of a whole batch. */
  insert(key: string, response: CachedResponse): void;
  close(): Promise<void>;
}

/** What an entry takes beside its tensors' bytes: key, map slot, descriptions. Measured, rounded up. */
const entryOverheadBytes = 512;

interface Entry {
  readonly response: CachedResponse;
  readonly sizeBytes: number;
}

/**
 * The answers of all models in this process, the least recently used ones dropped when they take
 * more than `sizeBytesMax`. An answer larger than that is not kept.
 */
export class LocalResponseCache implements ResponseCache {
  readonly #sizeBytesMax: number;
  /** In the order of use, the least recent first. */
  readonly #entries = new Map<string, Entry>();
  #sizeBytes = 0;
  /** Used last: a question that comes again and again moves nothing. */
  #newest: Entry | undefined;

  constructor(sizeBytesMax: number) {
    this.#sizeBytesMax = sizeBytesMax;
  }

  get entries(): number {
    return this.#entries.size;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  lookup(key: string): CachedResponse | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (entry !== this.#newest) {
      this.#entries.delete(key);
      this.#entries.set(key, entry);
      this.#newest = entry;
    }
    return entry.response;
  }

  insert(key: string, response: CachedResponse): void {
    this.#drop(key);
    let sizeBytes = entryOverheadBytes + key.length;
    for (const { bytes } of response.outputs) sizeBytes += bytes.byteLength;
    if (sizeBytes > this.#sizeBytesMax) return;
    while (this.#sizeBytes + sizeBytes > this.#sizeBytesMax) {
      const [oldest] = this.#entries.keys();
      if (oldest === undefined) break;
      this.#drop(oldest);
    }
    const outputs = response.outputs.map((output) => ({ ...output, bytes: output.bytes.slice() }));
    const entry = { response: { parameters: response.parameters, outputs }, sizeBytes };
    this.#entries.set(key, entry);
    this.#newest = entry;
    this.#sizeBytes += sizeBytes;
  }

  async close(): Promise<void> {
    this.#entries.clear();
    this.#sizeBytes = 0;
  }

  #drop(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#sizeBytes -= entry.sizeBytes;
  }
}
