/** Lets at most `max` pieces of work run at the same time; the others wait in order of arrival. */
export class ParallelLimit {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(max: number) {
    this.#free = max;
  }

  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#free > 0) {
      this.#free--;
    } else {
      // The slot is handed over by whoever finishes, so `#free` stays as it is.
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) {
        this.#free++;
      } else {
        next();
      }
    }
  }
}
