import type { Clock } from '../clock.js';
import type { Outcome } from '../inference/outcome.js';
import type { RequestTiming } from '../inference/request-timing.js';
import { DurationHistogram } from './duration-histogram.js';
import { DurationWindow } from './duration-window.js';
import type {
  BatchStatistics,
  InferenceStatistic,
  ModelStatistics,
  ResponseStatistic,
  StatisticDuration,
} from './statistics.js';

/** `[start, input end, output start, end]` of one execution, nanoseconds of `Clock.nowNs`. */
export type ExecutionStamps = readonly [number, number, number, number];

/** One response of a decoupled model. */
export interface RecordedResponse {
  /** Index of the response within its request. */
  readonly index: number;
  readonly kind: 'success' | 'fail' | 'empty_response' | 'cancel';
  readonly computeInferNs: number;
  readonly computeOutputNs: number;
}

/** Why a request that had been accepted failed: the labels of `nv_inference_request_failure`. */
export type FailureReason = Extract<Outcome, 'REJECTED' | 'CANCELED' | 'BACKEND' | 'OTHER'>;

/** Phases whose latest durations are kept where `summary_latencies` asks for them. */
export type SummarizedPhase =
  | 'request'
  | 'queue'
  | 'compute_input'
  | 'compute_infer'
  | 'compute_output'
  | 'cache_hit'
  | 'cache_miss';

/**
 * Counts what happens to the requests and executions of one model version. Everything on the path
 * of a request is additions to numbers; `/stats` and `/metrics` take snapshots when asked.
 *
 * ```
 * request ends     success  fail  queue  compute_*  inference_count  failure reason
 *   SUCCESS          +1            +1       +1          + rows
 *   CACHE_HIT        +1            +1
 *   REJECTED … OTHER         +1                                            +1
 *   REFUSED         (counted apart: it never entered the queue)
 * execution ends   execution_count +1, batch_stats[rows] +1, also when it failed
 * ```
 */
export class ModelStatisticsRecorder {
  readonly requestDurations = new DurationHistogram();
  readonly queueDurations = new DurationHistogram();
  /** Undefined where summaries are off. */
  readonly windows: Readonly<Record<SummarizedPhase, DurationWindow>> | undefined;
  readonly failures: Record<FailureReason, number> = {
    REJECTED: 0,
    CANCELED: 0,
    BACKEND: 0,
    OTHER: 0,
  };
  /** Requests refused before they were queued. */
  refusedRequests = 0;

  readonly #name: string;
  readonly #version: string;
  readonly #clock: Clock;
  /** On the clock's `nowNs`; 0 before the first. */
  #lastInferenceNs = 0;
  #inferenceCount = 0;
  #executionCount = 0;
  readonly #success = zero();
  readonly #fail = zero();
  readonly #queue = zero();
  readonly #computeInput = zero();
  readonly #computeInfer = zero();
  readonly #computeOutput = zero();
  readonly #cacheHit = zero();
  readonly #cacheMiss = zero();
  readonly #batches = new Map<number, MutableBatch>();
  readonly #responses: Record<ResponseStatistic, StatisticDuration>[] = [];

  constructor(name: string, version: string, clock: Clock, options: RecorderOptions) {
    this.#name = name;
    this.#version = version;
    this.#clock = clock;
    this.windows = options.isSummarized ? createWindows() : undefined;
  }

  /** A request has settled; `rows` are what it added to its batch. */
  requestEnded(timing: RequestTiming, outcome: Outcome, rows: number): void {
    const requestNs = elapsedNs(timing.requestStartNs, timing.requestEndNs);
    switch (outcome) {
      case 'SUCCESS':
        this.#inferenceCount += rows;
        this.#succeeded(requestNs, elapsedNs(timing.queueStartNs, timing.computeStartNs));
        this.#computed(timing);
        break;
      case 'CACHE_HIT':
        this.#succeeded(requestNs, 0);
        break;
      case 'REJECTED':
      case 'CANCELED':
      case 'BACKEND':
      case 'OTHER':
        add(this.#fail, requestNs);
        this.failures[outcome] += 1;
        break;
      case 'REFUSED':
        this.refusedRequests += 1;
        return;
    }
    this.#lastInferenceNs = timing.requestEndNs;
  }

  /** An execution of `rows` rows has ended, well or not. */
  executed(rows: number, [start, inputEnd, outputStart, end]: ExecutionStamps): void {
    this.#executionCount += 1;
    let batch = this.#batches.get(rows);
    if (batch === undefined) {
      batch = { computeInput: zero(), computeInfer: zero(), computeOutput: zero() };
      this.#batches.set(rows, batch);
    }
    add(batch.computeInput, elapsedNs(start, inputEnd));
    add(batch.computeInfer, elapsedNs(inputEnd, outputStart));
    add(batch.computeOutput, elapsedNs(outputStart, end));
  }

  /** A response of a decoupled model has left. Those past {@link responseIndexMax} share one row. */
  responded(response: RecordedResponse): void {
    const index = Math.min(response.index, responseIndexMax);
    while (this.#responses.length <= index) this.#responses.push(zeroResponses());
    const row = this.#responses[index];
    if (row === undefined) return;
    add(row[response.kind], response.computeInferNs + response.computeOutputNs);
    if (response.kind === 'cancel') return;
    add(row.compute_infer, response.computeInferNs);
    if (response.kind !== 'empty_response') add(row.compute_output, response.computeOutputNs);
  }

  /** The response cache held the answer; `ns` is what the look-up took. */
  cacheHit(ns: number): void {
    add(this.#cacheHit, ns);
    this.windows?.cache_hit.record(ns);
  }

  /** It did not; `ns` is what look-up and insertion took together. */
  cacheMiss(ns: number): void {
    add(this.#cacheMiss, ns);
    this.windows?.cache_miss.record(ns);
  }

  /** A copy that later requests leave as it is. */
  snapshot(): ModelStatistics {
    return {
      name: this.#name,
      version: this.#version,
      lastInferenceMs: this.#lastInferenceMs(),
      inferenceCount: this.#inferenceCount,
      executionCount: this.#executionCount,
      inference: this.#inferenceSnapshot(),
      responses: new Map(
        this.#responses.map((row, index) => [String(index), structuredClone(row)]),
      ),
      batches: [...this.#batches]
        .sort(([left], [right]) => left - right)
        .map(([batchSize, batch]) => ({ batchSize, ...structuredClone(batch) })),
    };
  }

  /** Made from the stamp that is there anyway: reading the wall clock for each request costs 60 ns. */
  #lastInferenceMs(): number {
    if (this.#lastInferenceNs === 0) return 0;
    const agoMs = (this.#clock.nowNs() - this.#lastInferenceNs) / 1e6;
    return Math.round(this.#clock.wallMs() - agoMs);
  }

  #inferenceSnapshot(): Record<InferenceStatistic, StatisticDuration> {
    return {
      success: { ...this.#success },
      fail: { ...this.#fail },
      queue: { ...this.#queue },
      compute_input: { ...this.#computeInput },
      compute_infer: { ...this.#computeInfer },
      compute_output: { ...this.#computeOutput },
      cache_hit: { ...this.#cacheHit },
      cache_miss: { ...this.#cacheMiss },
    };
  }

  #succeeded(requestNs: number, queueNs: number): void {
    add(this.#success, requestNs);
    add(this.#queue, queueNs);
    this.requestDurations.record(requestNs);
    this.queueDurations.record(queueNs);
    if (this.windows === undefined) return;
    this.windows.request.record(requestNs);
    this.windows.queue.record(queueNs);
  }

  #computed(timing: RequestTiming): void {
    const inputNs = elapsedNs(timing.computeStartNs, timing.computeInputEndNs);
    const inferNs = elapsedNs(timing.computeInputEndNs, timing.computeOutputStartNs);
    const outputNs = elapsedNs(timing.computeOutputStartNs, timing.computeEndNs);
    add(this.#computeInput, inputNs);
    add(this.#computeInfer, inferNs);
    add(this.#computeOutput, outputNs);
    if (this.windows === undefined) return;
    this.windows.compute_input.record(inputNs);
    this.windows.compute_infer.record(inferNs);
    this.windows.compute_output.record(outputNs);
  }
}

/** What is kept beside counts and sums. */
export interface RecorderOptions {
  /** Keep the latest durations of each phase for quantiles. */
  readonly isSummarized: boolean;
}

/** Responses are told apart up to this index, so that an endless stream cannot fill memory. */
export const responseIndexMax = 255;

type MutableBatch = Record<keyof Omit<BatchStatistics, 'batchSize'>, StatisticDuration>;

function zero(): StatisticDuration {
  return { count: 0, ns: 0 };
}

function zeroResponses(): Record<ResponseStatistic, StatisticDuration> {
  return {
    compute_infer: zero(),
    compute_output: zero(),
    success: zero(),
    fail: zero(),
    empty_response: zero(),
    cancel: zero(),
  };
}

function createWindows(): Record<SummarizedPhase, DurationWindow> {
  return {
    request: new DurationWindow(),
    queue: new DurationWindow(),
    compute_input: new DurationWindow(),
    compute_infer: new DurationWindow(),
    compute_output: new DurationWindow(),
    cache_hit: new DurationWindow(),
    cache_miss: new DurationWindow(),
  };
}

function add(duration: StatisticDuration, ns: number): void {
  duration.count += 1;
  duration.ns += ns;
}

/**
 * At least 1 ns: what has happened took time, also where the clock's grain hides it; and a stamp
 * that was never set (0) must not count as the time since boot.
 */
function elapsedNs(startNs: number, endNs: number): number {
  return startNs > 0 && endNs > startNs ? endNs - startNs : 1;
}
