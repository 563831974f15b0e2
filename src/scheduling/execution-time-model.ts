/** How much older observations count after each new one: about the last hundred matter. */
const decay = 0.98;

/**
 * Learns `duration ≈ fixed + perRow × rows` of a model's executions by least squares in which older
 * observations fade. Both parts are at least 0.
 */
export class ExecutionTimeModel {
  #weight = 0;
  #rows = 0;
  #duration = 0;
  #rowsSquared = 0;
  #rowsDuration = 0;

  get isKnown(): boolean {
    return this.#weight > 0;
  }

  observe(rows: number, durationNs: number): void {
    this.#weight = this.#weight * decay + 1;
    this.#rows = this.#rows * decay + rows;
    this.#duration = this.#duration * decay + durationNs;
    this.#rowsSquared = this.#rowsSquared * decay + rows * rows;
    this.#rowsDuration = this.#rowsDuration * decay + rows * durationNs;
  }

  /** Expected duration of an execution of `rows` rows; 0 while nothing was observed. */
  durationNs(rows: number): number {
    const { fixedNs, perRowNs } = this.#fit();
    return fixedNs + perRowNs * rows;
  }

  /** Most rows whose execution is expected to end within `durationNs`; Infinity where all do. */
  rowsWithin(durationNs: number): number {
    const { fixedNs, perRowNs } = this.#fit();
    if (fixedNs > durationNs) return 0;
    return perRowNs === 0 ? Number.POSITIVE_INFINITY : (durationNs - fixedNs) / perRowNs;
  }

  #fit(): { readonly fixedNs: number; readonly perRowNs: number } {
    if (this.#weight === 0) return { fixedNs: 0, perRowNs: 0 };
    const meanRows = this.#rows / this.#weight;
    const meanDuration = this.#duration / this.#weight;
    const variance = this.#rowsSquared / this.#weight - meanRows * meanRows;
    const covariance = this.#rowsDuration / this.#weight - meanRows * meanDuration;
    // Batches of (nearly) one size tell nothing about a row's share: all of it is taken as fixed.
    const slope = variance > 1e-6 * meanRows * meanRows ? Math.max(0, covariance / variance) : 0;
    const perRowNs = Math.min(slope, meanDuration / meanRows);
    return { fixedNs: Math.max(0, meanDuration - perRowNs * meanRows), perRowNs };
  }
}
