import type { PendingRequest } from './pending-request.js';

function ignoreEnd(): void {}

/** Counts what a scheduler accepted and has not seen settle, and tells when all of it has. */
export class InFlightRequests {
  #count = 0;
  #waiting: (() => void)[] = [];
  readonly #onEnded: (pending: PendingRequest) => void;
  /** Shared by all requests: no closure a request. */
  readonly #onEnd = (pending: PendingRequest): void => {
    this.#count -= 1;
    this.#onEnded(pending);
    if (this.#count === 0) this.#wake();
  };

  /** `onEnded` hears of every request that settles. */
  constructor(onEnded: (pending: PendingRequest) => void = ignoreEnd) {
    this.#onEnded = onEnded;
  }

  get count(): number {
    return this.#count;
  }

  accept(pending: PendingRequest): void {
    this.#count += 1;
    pending.onEnd = this.#onEnd;
  }

  /** Undoes {@link accept} for a request that was refused after all. */
  giveBack(pending: PendingRequest): void {
    pending.onEnd = undefined;
    this.#count -= 1;
    if (this.#count === 0) this.#wake();
  }

  /** Resolves when nothing is in flight; at once where nothing is. */
  whenEmpty(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}
