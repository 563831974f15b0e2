import type { Clock } from '../../../src/clock.js';
import { noParameters } from '../../../src/inference/infer-request.js';
import { startTiming } from '../../../src/inference/request-timing.js';
import { DynamicBatcher, lookAtOnce } from '../../../src/scheduling/dynamic-batcher.js';
import { PendingRequest } from '../../../src/scheduling/pending-request.js';
import type { BatchExecutor } from '../../../src/scheduling/scheduler.js';
import { batchSizeOptions, unlimitedQueue } from '../../../src/scheduling/scheduling-options.js';

/*
 * A day in simulated time: arrivals rise and fall between a night's and a noon's rate, with random
 * gaps (open loop). One instance runs a batch in `fixed + perRow × rows`. Nothing waits in real
 * time, so that a day of a minute takes a second and always gives the same numbers.
 */

const fixedNs = 4e6;
const perRowNs = 0.25e6;
const batchSizeMax = 64;
export const targetMs = 25;
const nightPerSecond = 60;
const noonPerSecond = 2200;

export interface DayResult {
  readonly requests: number;
  readonly p95Ms: number;
  /** Worst 95th percentile of any twentieth of the day. */
  readonly worstP95Ms: number;
  readonly withinTarget: number;
  readonly rowsPerBatch: number;
  /** Share of the day that the instance was busy: what is left can run other models. */
  readonly busy: number;
}

/** Simulated time and its events, in order. */
class SimulatedTime implements Clock {
  #nowNs = 1e9;
  #order = 0;
  readonly #events: { atNs: number; order: number; run: () => void }[] = [];

  nowNs(): number {
    return this.#nowNs;
  }

  wallMs(): number {
    return this.#nowNs / 1e6;
  }

  setTimer(delayNs: number, run: () => void): () => void {
    this.#order += 1;
    const event = { atNs: this.#nowNs + delayNs, order: this.#order, run };
    // Few are pending at a time: a sorted list beats a heap.
    let index = this.#events.length;
    while (index > 0 && isAfter(this.#events[index - 1], event)) index -= 1;
    this.#events.splice(index, 0, event);
    return () => {
      event.run = () => {};
    };
  }

  runAll(): void {
    for (let event = this.#events.shift(); event !== undefined; event = this.#events.shift()) {
      this.#nowNs = Math.max(this.#nowNs, event.atNs);
      event.run();
    }
  }
}

function isAfter(
  left: { atNs: number; order: number } | undefined,
  right: { atNs: number; order: number },
): boolean {
  if (left === undefined) return false;
  return left.atNs > right.atNs || (left.atNs === right.atNs && left.order > right.order);
}

class SimulatedInstance implements BatchExecutor {
  readonly aheadRowsMin = Number.POSITIVE_INFINITY;
  readonly bundleSizeMax = 1;
  idleInstances = 1;
  busyNs = 0;
  batches = 0;
  rows = 0;
  readonly #time: SimulatedTime;
  #listener: () => void = () => {};

  constructor(time: SimulatedTime) {
    this.#time = time;
  }

  execute(batch: readonly PendingRequest[]): void {
    this.idleInstances = 0;
    const startNs = this.#time.nowNs();
    const durationNs = fixedNs + perRowNs * batch.length;
    this.busyNs += durationNs;
    this.batches += 1;
    this.rows += batch.length;
    this.#time.setTimer(durationNs, () => {
      for (const pending of batch) {
        pending.timing.computeStartNs = startNs;
        pending.timing.computeEndNs = startNs + durationNs;
        pending.complete();
      }
      this.idleInstances = 1;
      this.#listener();
    });
  }

  onIdle(listener: () => void): void {
    this.#listener = listener;
  }

  onReturned(): void {}
}

/** Runs one day of `seconds`; `delayMs` undefined lets the batcher choose for itself. */
export function simulateDay(seconds: number, delayMs: number | undefined): DayResult {
  const time = new SimulatedTime();
  const instance = new SimulatedInstance(time);
  const batcher = new DynamicBatcher(
    {
      modelName: 'm',
      batch: batchSizeOptions(batchSizeMax, [], (delayMs ?? 0) * 1000),
      queue: unlimitedQueue,
      preservesOrdering: false,
      shapedInputs: [],
      optionalInputs: [],
      latencyTargetNs: delayMs === undefined ? targetMs * 1e6 : 0,
    },
    instance,
    time,
    lookAtOnce,
  );
  const random = seededRandom(7);
  const dayNs = seconds * 1e9;
  const startNs = time.nowNs();
  const latencies: number[][] = Array.from({ length: 20 }, () => []);
  const arrive = (): void => {
    const atNs = time.nowNs();
    const phase = (atNs - startNs) / dayNs;
    const pending = new PendingRequest(request, 1, [], startTiming(atNs), handler, () => {
      latencies[Math.min(19, Math.floor(phase * 20))]?.push((time.nowNs() - atNs) / 1e6);
    });
    batcher.enqueue(pending);
    const perSecond =
      nightPerSecond + ((noonPerSecond - nightPerSecond) * (1 - Math.cos(2 * Math.PI * phase))) / 2;
    const gapNs = (-Math.log(1 - random()) * 1e9) / perSecond;
    if (atNs + gapNs < startNs + dayNs) time.setTimer(gapNs, arrive);
  };
  time.setTimer(0, arrive);
  time.runAll();
  const all = latencies.flat();
  return {
    requests: all.length,
    p95Ms: percentile95(all),
    worstP95Ms: Math.max(...latencies.map(percentile95)),
    withinTarget: all.filter((latency) => latency <= targetMs).length / all.length,
    rowsPerBatch: instance.rows / instance.batches,
    busy: instance.busyNs / dayNs,
  };
}

const handler = { respond() {}, complete() {}, fail() {} };
const request = {
  modelName: 'm',
  modelVersion: '',
  id: '',
  parameters: noParameters,
  priority: 0,
  timeoutUs: 0,
  sequence: undefined,
  inputs: [],
  requestedOutputs: [],
  prefersJsonText: false,
};

function percentile95(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.floor(sorted.length * 0.95)] ?? 0;
}

/** Mulberry32: small, seeded, good enough for arrival gaps. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

if (import.meta.url === `file://${process.argv[1]}`) {
  console.log(`target: p95 of ${targetMs} ms; a day of 60 simulated seconds`);
  for (const delayMs of [0, 2, 4, 6, 8, 10, 11, 12, 13, 14, 16, 20, undefined]) {
    const day = simulateDay(60, delayMs);
    console.log(
      `${delayMs === undefined ? 'adaptive' : `delay ${delayMs} ms`}: p95 ${day.p95Ms.toFixed(1)} ms, ` +
        `worst hour ${day.worstP95Ms.toFixed(1)} ms, within target ${(day.withinTarget * 100).toFixed(2)} %, ` +
        `${day.rowsPerBatch.toFixed(1)} rows a batch, busy ${(day.busy * 100).toFixed(1)} %`,
    );
  }
}
