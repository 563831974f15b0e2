import { systemClock } from '../../../src/clock.js';
import { noParameters } from '../../../src/inference/infer-request.js';
import { startTiming } from '../../../src/inference/request-timing.js';
import { DynamicBatcher, lookAtOnce } from '../../../src/scheduling/dynamic-batcher.js';
import { PendingRequest } from '../../../src/scheduling/pending-request.js';
import type { BatchExecutor } from '../../../src/scheduling/scheduler.js';
import { batchSizeOptions, unlimitedQueue } from '../../../src/scheduling/scheduling-options.js';

const batchSize = 16;

/** One instance that is busy until `finish`, and then answers its batch in one go. */
class OneInstance implements BatchExecutor {
  readonly aheadRowsMin = Number.POSITIVE_INFINITY;
  readonly bundleSizeMax = 1;
  idleInstances = 1;
  batches = 0;
  #batch: readonly PendingRequest[] = [];
  #listener: () => void = () => {};

  execute(batch: readonly PendingRequest[]): void {
    this.idleInstances = 0;
    this.#batch = batch;
    this.batches += 1;
  }

  onIdle(listener: () => void): void {
    this.#listener = listener;
  }

  onReturned(): void {}

  finish(): void {
    const batch = this.#batch;
    for (const pending of batch) pending.complete();
    this.idleInstances = 1;
    this.#listener();
  }
}

export interface BatcherCost {
  readonly requests: number;
  readonly nsPerRequest: number;
  readonly batches: number;
}

/**
 * Cost of a request in the batcher: arrival, batching in sixteens and settling, without what the
 * request itself costs to make. `timeoutUs` > 0 gives every request a deadline.
 */
export function measureDynamicBatcher(batches: number, timeoutUs: number): BatcherCost {
  const executor = new OneInstance();
  const [unlimited] = unlimitedQueue.levels;
  const levels = unlimited === undefined ? [] : [{ ...unlimited, defaultTimeoutUs: timeoutUs }];
  const batcher = new DynamicBatcher(
    {
      modelName: 'm',
      batch: batchSizeOptions(batchSize, [], 0),
      queue: { levels, defaultLevel: 0 },
      preservesOrdering: false,
      shapedInputs: [],
      optionalInputs: [],
      latencyTargetNs: 0,
    },
    executor,
    systemClock,
    lookAtOnce,
  );
  let settled = 0;
  const handler = { respond() {}, complete() {}, fail() {} };
  const onSettled = (): void => {
    settled += 1;
  };
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
  let totalNs = 0;
  const enqueueAll = (count: number): void => {
    const arriving: PendingRequest[] = [];
    for (let index = 0; index < count; index += 1) {
      arriving.push(new PendingRequest(request, 1, [], startTiming(0), handler, onSettled));
    }
    const startNs = systemClock.nowNs();
    for (const pending of arriving) batcher.enqueue(pending);
    if (executor.idleInstances === 0) executor.finish();
    totalNs += systemClock.nowNs() - startNs;
  };
  for (let batch = 0; batch < batches; batch += 1) enqueueAll(batchSize);
  while (batcher.inFlightRequests > 0) executor.finish();
  batcher.destroy();
  const requests = batches * batchSize;
  if (settled !== requests) throw new Error(`${settled} of ${requests} requests settled`);
  return { requests, nsPerRequest: totalNs / requests, batches: executor.batches };
}

if (import.meta.url === `file://${process.argv[1]}`) {
  measureDynamicBatcher(20_000, 0);
  for (const timeoutUs of [0, 10_000_000]) {
    const { requests, nsPerRequest, batches } = measureDynamicBatcher(50_000, timeoutUs);
    console.log(
      `dynamic batcher, timeout ${timeoutUs} us: ${nsPerRequest.toFixed(0)} ns a request ` +
        `(${requests} requests in ${batches} batches)`,
    );
  }
}
