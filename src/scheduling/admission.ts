import { overloaded } from '../errors.js';

export interface AdmissionLimits {
  /** Requests in flight at once; 0 is no limit. */
  readonly requestsMax: number;
  /** Bytes of their bodies together; 0 is no limit. */
  readonly bytesMax: number;
}

/** When a client that was turned away should come back: `Retry-After` of the answer. */
const retryAfterSeconds = 1;

/**
 * Bounds what the whole server holds at once, from the moment a body's size is known to the last
 * byte of its answer. A single body above the byte limit is never let in.
 */
export class Admission {
  readonly #limits: AdmissionLimits;
  #requests = 0;
  #bytes = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  get requests(): number {
    return this.#requests;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Lets a request with a body of `bytes` in; the result lets it out again and may be called more
   * than once. Throws UNAVAILABLE where a limit would be passed.
   */
  enter(bytes: number): () => void {
    const { requestsMax, bytesMax } = this.#limits;
    if (requestsMax > 0 && this.#requests >= requestsMax) {
      throw overloaded(
        `server has reached its limit of ${requestsMax} requests in flight`,
        retryAfterSeconds,
      );
    }
    if (bytesMax > 0 && this.#bytes + bytes > bytesMax) {
      throw overloaded(
        `server has reached its limit of ${bytesMax} bytes in flight: ${this.#bytes} are, ` +
          `${bytes} more were refused`,
        retryAfterSeconds,
      );
    }
    this.#requests += 1;
    this.#bytes += bytes;
    let isInside = true;
    return () => {
      if (!isInside) return;
      isInside = false;
      this.#requests -= 1;
      this.#bytes -= bytes;
    };
  }
}
