/**
 * Bounds how many requests of one ensemble step run at once, over all requests of the ensemble.
 * What does not fit waits here, first come, first served; how much can wait is bounded by the
 * ensemble requests in flight, which hold their producing steps back meanwhile.
 */
export class StepLimiter {
  readonly #inflightMax: number;
  readonly #waiting = new Set<() => void>();
  #running = 0;

  /** `inflightMax` 0 is no bound. */
  constructor(inflightMax: number) {
    this.#inflightMax = inflightMax;
  }

  /** Takes a place now if there is one. */
  tryTake(): boolean {
    if (this.#inflightMax > 0 && this.#running >= this.#inflightMax) return false;
    this.#running += 1;
    return true;
  }

  /** Calls `onTaken` when a place is taken for it. The result gives the wait up. */
  wait(onTaken: () => void): () => void {
    this.#waiting.add(onTaken);
    return () => {
      this.#waiting.delete(onTaken);
    };
  }

  /** Gives a place back, to the first that waits. */
  release(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#running -= 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
