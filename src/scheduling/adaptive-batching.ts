import { ExecutionTimeModel } from './execution-time-model.js';
import type { BatchSizeOptions } from './scheduling-options.js';

/*
 * Chooses batch size and queue delay for a target of the 95th percentile of latency, so that the
 * instances do as few executions as the target allows. All times are given; nothing is read.
 *
 *   target  |<------ delay ------>|<-- wait for an instance -->|<-- execution -->|<-- reserve -->|
 *
 *   rows    the most whose execution takes at most a share of the target (a request may meet a
 *           running execution and then needs its own), but never fewer than keep up with arrivals
 *   delay   what the target leaves beside the execution of what arrives meanwhile, but not longer
 *           than those rows need to arrive; none where not even one more request can be expected
 *   trust   a factor of the delay: measured latencies above the target cut it at once, those well
 *           below let it grow slowly, also above 1 where the plan was too careful. It grows only
 *           while it decides: what is learned while batches fill up before the delay is over would
 *           make the delay too long when fewer requests arrive
 */

/** Share of the target that one execution may take: it may have to wait for another one. */
const executionShare = 0.45;
/** Share of the target that is planned for; the rest absorbs what the model does not see. */
const plannedShare = 0.95;
/** How far capacity must lie above arrivals. */
const headroom = 1.15;
/** The controller thinks again after this time. */
const periodNs = 100e6;
/** Latencies that the percentile is taken from, and how many make it worth taking. */
const sampleSize = 256;
const samplesMin = 60;
const trustCut = 0.85;
const trustGrowth = 0.04;
const trustMax = 2;
/** The percentile is kept between these shares of the target. */
const comfortShare = 0.88;
const alarmShare = 0.95;
/** Weight of the last period in the arrival rate. */
const rateWeight = 0.3;

/** Pure controller: the same observations give the same answers. */
export class AdaptiveBatching {
  readonly #targetNs: number;
  readonly #configured: BatchSizeOptions;
  readonly #execution = new ExecutionTimeModel();
  readonly #latencies = new Float64Array(sampleSize);
  #latencyCount = 0;
  #arrivedRows = 0;
  #periodStartNs = 0;
  /** Rows per nanosecond. */
  #arrivalRate = 0;
  #trust = 1;
  /** The delay was as long as the plan and the trust in it allowed. */
  #isTrustDeciding = true;
  #options: BatchSizeOptions;

  /** `configured` bounds what is chosen and is used until something is known. */
  constructor(targetNs: number, configured: BatchSizeOptions) {
    this.#targetNs = targetNs;
    this.#configured = configured;
    this.#options = configured;
  }

  /** What the next batch is to be formed by. */
  options(nowNs: number): BatchSizeOptions {
    if (nowNs - this.#periodStartNs >= periodNs) this.#think(nowNs);
    return this.#options;
  }

  observeArrival(rows: number): void {
    this.#arrivedRows += rows;
  }

  observeExecution(rows: number, durationNs: number): void {
    if (durationNs > 0) this.#execution.observe(rows, durationNs);
  }

  /** From a request's arrival to its answer. */
  observeLatency(latencyNs: number): void {
    this.#latencies[this.#latencyCount % sampleSize] = latencyNs;
    this.#latencyCount += 1;
  }

  #think(nowNs: number): void {
    const elapsedNs = nowNs - this.#periodStartNs;
    if (this.#periodStartNs > 0) {
      const rate = this.#arrivedRows / elapsedNs;
      this.#arrivalRate += rateWeight * (rate - this.#arrivalRate);
    }
    this.#arrivedRows = 0;
    this.#periodStartNs = nowNs;
    this.#adjustTrust();
    if (this.#execution.isKnown) this.#options = this.#choose();
  }

  #adjustTrust(): void {
    const count = Math.min(this.#latencyCount, sampleSize);
    if (count < samplesMin) return;
    const sorted = this.#latencies.slice(0, count).sort();
    this.#latencyCount = 0;
    const p95 = sorted[Math.floor(count * 0.95)] ?? 0;
    if (p95 > alarmShare * this.#targetNs) this.#trust *= trustCut;
    else if (p95 < comfortShare * this.#targetNs && this.#isTrustDeciding) {
      this.#trust = Math.min(trustMax, this.#trust + trustGrowth);
    }
  }

  #choose(): BatchSizeOptions {
    const rows = this.#rows();
    const fillNs = this.#arrivalRate > 0 ? (rows - 1) / this.#arrivalRate : 0;
    const trustedNs = this.#plannedDelayNs(rows) * this.#trust;
    // However well it goes: a request that waits longer than this misses the target.
    const latestNs = plannedShare * this.#targetNs - this.#execution.durationNs(1);
    const delayNs = Math.max(0, Math.min(trustedNs, fillNs, latestNs));
    this.#isTrustDeciding = trustedNs < Math.min(fillNs, latestNs);
    return {
      batchSizeMax: rows,
      preferredBatchSizes: [rows],
      queueDelayNs: delayNs * this.#arrivalRate < 1 ? 0 : delayNs,
    };
  }

  /**
   * The delay that leaves room for the execution of what arrives in it, and for the wait for an
   * execution before it, as likely as the instance is busy. Both depend on the delay: a few rounds
   * settle it.
   */
  #plannedDelayNs(rowsMax: number): number {
    const budgetNs = plannedShare * this.#targetNs;
    let delayNs = budgetNs / 2;
    for (let round = 0; round < 6; round += 1) {
      const rows = Math.min(rowsMax, 1 + this.#arrivalRate * delayNs);
      const durationNs = this.#execution.durationNs(rows);
      const utilization = Math.min(1, (this.#arrivalRate * durationNs) / rows);
      const leftNs = Math.max(0, budgetNs - durationNs * (1 + utilization));
      delayNs = (delayNs + leftNs) / 2;
    }
    return delayNs;
  }

  #rows(): number {
    const { batchSizeMax } = this.#configured;
    const quick = Math.floor(this.#execution.rowsWithin(executionShare * this.#targetNs));
    let rows = Math.min(batchSizeMax, Math.max(1, quick));
    // Keeping up comes first: a queue that grows misses every target.
    while (rows < batchSizeMax && !this.#keepsUp(rows)) rows += 1;
    return rows;
  }

  #keepsUp(rows: number): boolean {
    return rows >= headroom * this.#arrivalRate * this.#execution.durationNs(rows);
  }
}
