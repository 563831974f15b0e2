import type { Clock } from '../clock.js';

/**
 * One timer that wakes its owner no later than asked. Asking again for a later time keeps the
 * earlier timer: an owner that wakes too soon looks, finds nothing to do and asks anew, which is
 * much cheaper than replacing a timer for every request.
 */
export class Alarm {
  readonly #clock: Clock;
  readonly #onDue: () => void;
  #armedForNs = Number.POSITIVE_INFINITY;
  #cancel: (() => void) | undefined = undefined;

  constructor(clock: Clock, onDue: () => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /** Wakes the owner at `atNs` or before; Infinity asks for nothing. */
  wakeBy(atNs: number): void {
    if (atNs >= this.#armedForNs) return;
    this.#cancel?.();
    this.#armedForNs = atNs;
    const delayNs = Math.max(0, atNs - this.#clock.nowNs());
    this.#cancel = this.#clock.setTimer(delayNs, () => {
      this.#armedForNs = Number.POSITIVE_INFINITY;
      this.#cancel = undefined;
      this.#onDue();
    });
  }

  /** Idempotent. */
  clear(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#armedForNs = Number.POSITIVE_INFINITY;
  }
}
