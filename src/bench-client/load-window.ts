/** What ended in one stretch of load. */
export interface LoadWindow {
  readonly durationNs: number;
  /** Of the answers with status 200, in the order of their arrival. */
  readonly latenciesNs: Float64Array;
  /** What went wrong → how often. */
  readonly failures: ReadonlyMap<string, number>;
  /** Requests of an open loop that were sent late, because no connection was free. */
  readonly delayedCount: number;
}

/** Different failures that are told apart; further ones are counted together. */
const failureKindsMax = 20;
const otherFailures = 'other failures';

/** Collects what a load measures, window by window. */
export class LoadRecorder {
  #latenciesNs = new Float64Array(1024);
  #count = 0;
  #failures = new Map<string, number>();
  #delayedCount = 0;
  #startNs: number;

  constructor(nowNs: number) {
    this.#startNs = nowNs;
  }

  succeed(latencyNs: number): void {
    if (this.#count === this.#latenciesNs.length) {
      const larger = new Float64Array(this.#count * 2);
      larger.set(this.#latenciesNs);
      this.#latenciesNs = larger;
    }
    this.#latenciesNs[this.#count] = latencyNs;
    this.#count += 1;
  }

  fail(reason: string): void {
    const isFull = this.#failures.size >= failureKindsMax && !this.#failures.has(reason);
    const key = isFull ? otherFailures : reason;
    this.#failures.set(key, (this.#failures.get(key) ?? 0) + 1);
  }

  delay(): void {
    this.#delayedCount += 1;
  }

  /** Answers of the window that is open. */
  get count(): number {
    return this.#count;
  }

  /** Ends the window and opens the next one. */
  take(nowNs: number): LoadWindow {
    const window = {
      durationNs: nowNs - this.#startNs,
      latenciesNs: this.#latenciesNs.slice(0, this.#count),
      failures: this.#failures,
      delayedCount: this.#delayedCount,
    };
    this.#count = 0;
    this.#failures = new Map();
    this.#delayedCount = 0;
    this.#startNs = nowNs;
    return window;
  }
}

/** Several windows that followed one another, as one. */
export function mergeWindows(windows: readonly LoadWindow[]): LoadWindow {
  const count = windows.reduce((sum, { latenciesNs }) => sum + latenciesNs.length, 0);
  const latenciesNs = new Float64Array(count);
  const failures = new Map<string, number>();
  let [at, durationNs, delayedCount] = [0, 0, 0];
  for (const window of windows) {
    latenciesNs.set(window.latenciesNs, at);
    at += window.latenciesNs.length;
    durationNs += window.durationNs;
    delayedCount += window.delayedCount;
    for (const [reason, times] of window.failures) {
      failures.set(reason, (failures.get(reason) ?? 0) + times);
    }
  }
  return { durationNs, latenciesNs, failures, delayedCount };
}

/** Latencies in ascending order, and what is read off them. */
export class LatencySummary {
  readonly #sortedNs: Float64Array;

  constructor(latenciesNs: Float64Array) {
    this.#sortedNs = latenciesNs.slice().sort();
  }

  get count(): number {
    return this.#sortedNs.length;
  }

  /** Not a number where there are no answers, as for the percentiles. */
  get averageNs(): number {
    let sum = 0;
    for (const latencyNs of this.#sortedNs) sum += latencyNs;
    return sum / this.count;
  }

  get standardDeviationNs(): number {
    const average = this.averageNs;
    let sum = 0;
    for (const latencyNs of this.#sortedNs) sum += (latencyNs - average) ** 2;
    return Math.sqrt(sum / this.count);
  }

  /** The smallest latency that at least `percentile` percent of the answers do not exceed. */
  percentileNs(percentile: number): number {
    const rank = Math.max(1, Math.ceil((percentile / 100) * this.count));
    return this.#sortedNs[rank - 1] ?? Number.NaN;
  }
}
