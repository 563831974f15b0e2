/** The latest durations, for quantiles over a sliding window. Holds at most {@link windowSize}. */
export class DurationWindow {
  readonly #values = new Float64Array(windowSize);
  #recorded = 0;

  record(ns: number): void {
    this.#values[this.#recorded % windowSize] = ns;
    this.#recorded += 1;
  }

  /** The value below which `quantile` (0 to 1) of the window lies; NaN of an empty window. */
  quantiles(quantiles: readonly number[]): readonly number[] {
    const size = Math.min(this.#recorded, windowSize);
    const sorted = this.#values.slice(0, size).sort();
    return quantiles.map((quantile) => {
      const rank = Math.min(size - 1, Math.max(0, Math.ceil(quantile * size) - 1));
      return sorted[rank] ?? Number.NaN;
    });
  }
}

/** Enough for a 0.999 quantile that is not always the maximum, at 8 KiB a window. */
const windowSize = 1024 * 2;
