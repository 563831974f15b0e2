import type { CompositeSeries, Labels } from './exposition.js';

/** Name of the histogram, as in the reference server. */
export const firstResponseFamily = 'nv_inference_first_response_histogram_ms';

/** How long the requests of one decoupled model waited for their first response. */
export class FirstResponses {
  readonly #boundsMs: readonly number[];
  /** By bucket, not cumulative; the last one has no bound. */
  readonly #counts: number[];
  #count = 0;
  #sumNs = 0;

  /** `boundsMs` ascend. */
  constructor(boundsMs: readonly number[]) {
    this.#boundsMs = boundsMs;
    this.#counts = new Array<number>(boundsMs.length + 1).fill(0);
  }

  record(ns: number): void {
    const milliseconds = ns / 1e6;
    let bucket = 0;
    while (milliseconds > (this.#boundsMs[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#count += 1;
    this.#sumNs += ns;
  }

  series(labels: Labels): CompositeSeries {
    let cumulative = 0;
    const points = this.#boundsMs.map((bound, index): readonly [string, number] => {
      cumulative += this.#counts[index] ?? 0;
      return [String(bound), cumulative];
    });
    return {
      labels,
      points: [...points, ['+Inf', this.#count]],
      sum: this.#sumNs / 1e6,
      count: this.#count,
    };
  }
}
