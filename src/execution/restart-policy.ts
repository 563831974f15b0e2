/** Failures one after another that an instance may have before it is given up. */
export const failuresMax = 5;
/** Pause before the start that follows a failure; doubles with each up to the longest. */
const delayNsFirst = 500e6;
const delayNsMax = 30e9;

/**
 * When an instance that was lost starts again. A thread that a request brought down starts at once,
 * however often; one that dies by itself or does not load waits longer and longer, and is given up
 * in the end.
 */
export class RestartPolicy {
  #failures = 0;

  get failures(): number {
    return this.#failures;
  }

  /** The instance was lost, or did not start, and no request is to blame. */
  failed(): void {
    this.#failures += 1;
  }

  /** The instance has done its work once: what was before does not count any more. */
  succeeded(): void {
    this.#failures = 0;
  }

  /** Nanoseconds until the next start, 0 for at once; undefined where there is to be none. */
  nextDelayNs(): number | undefined {
    if (this.#failures > failuresMax) return undefined;
    if (this.#failures === 0) return 0;
    return Math.min(delayNsMax, delayNsFirst * 2 ** (this.#failures - 1));
  }
}
