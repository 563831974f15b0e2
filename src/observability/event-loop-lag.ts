import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import type { MetricFamily } from './exposition.js';

const resolutionMs = 10;

/**
 * How much later than due the main thread comes to its timers: what a request waits when
 * something blocks the event loop. Each reading begins a new window.
 */
export class EventLoopLag {
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: resolutionMs });

  constructor() {
    this.#histogram.enable();
  }

  families(): readonly MetricFamily[] {
    const histogram = this.#histogram;
    const samples = [
      { labels: { quantile: '0.5' }, value: toLagSecs(histogram.percentile(50)) },
      { labels: { quantile: '0.99' }, value: toLagSecs(histogram.percentile(99)) },
      { labels: { quantile: '1' }, value: toLagSecs(histogram.max) },
    ];
    histogram.reset();
    return [
      {
        name: 'nereid_event_loop_lag_seconds',
        help: 'Delay of the main thread since the last reading',
        kind: 'gauge',
        samples: () => samples,
      },
    ];
  }

  /** Idempotent. */
  close(): void {
    this.#histogram.disable();
  }
}

/** The histogram holds times between ticks, which include the tick itself; 0 while it is empty. */
function toLagSecs(ns: number): number {
  return Math.max(0, ns / 1e9 - resolutionMs / 1e3);
}
