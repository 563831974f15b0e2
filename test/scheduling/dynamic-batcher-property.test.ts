import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { InferenceServerError } from '../../src/errors.js';
import { DynamicBatcher, lookAtOnce } from '../../src/scheduling/dynamic-batcher.js';
import type { PendingRequest } from '../../src/scheduling/pending-request.js';
import {
  batchSizeOptions,
  type DynamicBatchingOptions,
} from '../../src/scheduling/scheduling-options.js';
import { FakeClock } from '../support/fake-clock.js';
import { FakeExecutor } from '../support/fake-executor.js';
import { int32Tensor, type ObservedRequest, observedRequest } from '../support/pending-requests.js';
import { SeededRandom } from '../support/random.js';
import { QueueOracle } from './queue-oracle.js';

const eventsPerRun = 1000;
/** 20 thousand events in a usual run, a million where FULL=1 asks for it. */
const runs = process.env['FULL'] === '1' ? 1000 : 20;

function randomOptions(random: SeededRandom): DynamicBatchingOptions {
  const batchSizeMax = random.integer(1, 8);
  const preferred = [1, 2, 3, 4, 5, 6, 7, 8].filter(() => random.chance(0.2));
  const preservesOrdering = random.chance(0.25);
  const levels = Array.from({ length: preservesOrdering ? 1 : random.integer(1, 3) }, () => ({
    timeoutAction:
      !preservesOrdering && random.chance(0.4) ? ('DELAY' as const) : ('REJECT' as const),
    defaultTimeoutUs: random.chance(0.5) ? random.integer(1, 30_000) : 0,
    allowsTimeoutOverride: random.chance(0.5),
    queueSizeMax: random.chance(0.5) ? random.integer(1, 12) : 0,
  }));
  return {
    modelName: 'm',
    batch: batchSizeOptions(
      batchSizeMax,
      preferred,
      random.chance(0.5) ? random.integer(1, 10_000) : 0,
    ),
    queue: { levels, defaultLevel: random.integer(0, levels.length - 1) },
    preservesOrdering,
    shapedInputs: random.chance(0.3) ? ['X'] : [],
    optionalInputs: [],
    latencyTargetNs: 0,
  };
}

/** One model under random load; every claim is checked as things happen. */
class Run {
  readonly #random: SeededRandom;
  readonly #options: DynamicBatchingOptions;
  readonly #clock = new FakeClock();
  readonly #instances: number;
  readonly #all: ObservedRequest[] = [];
  readonly #unsettled = new Set<ObservedRequest>();
  readonly #byPending = new Map<string, ObservedRequest>();
  /** Requests in the order in which they started, whose answers are not out. */
  #unanswered: string[] = [];
  #executor: FakeExecutor;
  #scheduler: DynamicBatcher;
  #oracle: QueueOracle;
  #sent = 0;

  constructor(seed: number) {
    this.#random = new SeededRandom(seed);
    this.#options = randomOptions(this.#random);
    this.#instances = this.#random.integer(1, 3);
    this.#executor = new FakeExecutor(this.#instances);
    this.#scheduler = this.#load();
    this.#oracle = new QueueOracle(this.#options.queue);
  }

  #load(): DynamicBatcher {
    this.#executor = new FakeExecutor(this.#instances);
    this.#executor.onBatch = (batch) => this.#checkBatch(batch);
    this.#oracle = new QueueOracle(this.#options.queue);
    return new DynamicBatcher(this.#options, this.#executor, this.#clock, lookAtOnce);
  }

  play(events: number): void {
    for (let event = 0; event < events; event += 1) {
      const choice = this.#random.next();
      if (choice < 0.5) this.#send();
      else if (choice < 0.72) this.#finish('complete');
      else if (choice < 0.75) this.#finish('fail');
      else if (choice < 0.85) this.#cancel();
      else if (choice < 0.998) this.#clock.advance(this.#random.integer(0, 8e6));
      else this.#reload();
      this.#checkState();
    }
    this.#reload();
    for (const { end } of this.#all) assert.ok(end !== undefined);
    assert.equal(this.#clock.pendingTimers, 0);
  }

  #send(): void {
    const rows = this.#random.integer(1, Math.min(3, this.#options.batch.batchSizeMax));
    const width = this.#random.chance(0.8) ? 1 : 2;
    this.#sent += 1;
    const observed = observedRequest(
      {
        id: `r${this.#sent}`,
        priority: this.#random.integer(0, 4),
        timeoutUs: this.#random.chance(0.3) ? this.#random.integer(1, 20_000) : 0,
        inputs: [int32Tensor('X', [rows, width], new Array<number>(rows * width).fill(this.#sent))],
      },
      rows,
      (ended) => this.#checkEnd(ended),
    );
    // Entered before, because the scheduler may start it at once.
    this.#byPending.set(observed.pending.request.id, observed);
    this.#oracle.add(observed, this.#clock.nowNs());
    try {
      this.#scheduler.enqueue(observed.pending);
      this.#all.push(observed);
      if (observed.end === undefined) this.#unsettled.add(observed);
    } catch (error) {
      this.#oracle.remove(observed);
      const level = this.#oracle.levelOf(observed.pending.request.priority);
      assert.ok((error as InferenceServerError).message.includes('Exceeds maximum queue size'));
      assert.equal(this.#oracle.sizeOf(level), this.#options.queue.levels[level]?.queueSizeMax);
      observed.pending.fail(error as InferenceServerError, 'REFUSED');
    }
  }

  /** Joins the rows of the batch and cuts them again, as an executor with one tensor does. */
  #finish(how: 'complete' | 'fail'): void {
    const index = this.#random.pick(this.#executor.runningBatches);
    if (index === undefined) return;
    if (how === 'fail') {
      this.#executor.fail(index);
      return;
    }
    const batch = this.#executor.batches[index] ?? [];
    const joined = batch.flatMap((pending) => valuesOf(pending));
    let position = 0;
    this.#executor.complete(index, (pending) => {
      const count = valuesOf(pending).length;
      const own = joined.slice(position, position + count);
      position += count;
      return [int32Tensor('Y', pending.modelInputs[0]?.shape ?? [], own)];
    });
  }

  #cancel(): void {
    // One of the last few: older ones have mostly ended.
    const recent = this.#all.slice(-20).filter(({ end }) => end === undefined);
    const observed = this.#random.pick(recent);
    if (observed === undefined) return;
    const wasWaiting = this.#oracle.find(observed) !== undefined;
    observed.pending.cancel();
    if (wasWaiting) assert.equal(observed.end?.outcome, 'CANCELED');
  }

  /** Drains the old scheduler, with its executions ending one by one, and loads a new one. */
  #reload(): void {
    void this.#scheduler.drain();
    while (this.#executor.runningBatches.length > 0) this.#finish('complete');
    assert.equal(this.#scheduler.inFlightRequests, 0);
    this.#scheduler.destroy();
    this.#scheduler = this.#load();
  }

  /** A batch is what stands first in the queue, fits together and is not too large. */
  #checkBatch(batch: readonly PendingRequest[]): void {
    const { batchSizeMax } = this.#options.batch;
    const rows = batch.reduce((sum, pending) => sum + pending.rows, 0);
    assert.ok(rows <= batchSizeMax);
    const first = this.#oracle.order(this.#clock.nowNs()).slice(0, batch.length);
    assert.deepEqual(
      batch.map(({ request }) => request.id),
      first.map(({ observed }) => observed.pending.request.id),
    );
    if (this.#options.shapedInputs.length > 0) {
      const widths = new Set(batch.map(({ modelInputs }) => modelInputs[0]?.shape[1]));
      assert.equal(widths.size, 1);
    }
    for (const { request, isCancelled } of batch) {
      assert.equal(isCancelled, false);
      const observed = this.#byPending.get(request.id);
      if (observed !== undefined) this.#oracle.remove(observed);
      this.#unanswered.push(request.id);
    }
  }

  #checkEnd(observed: ObservedRequest): void {
    this.#unsettled.delete(observed);
    const { pending, responses, end } = observed;
    const { id } = pending.request;
    const waiting = this.#oracle.find(observed);
    this.#oracle.remove(observed);
    switch (end?.outcome) {
      case 'SUCCESS': {
        const [response] = responses;
        assert.equal(response?.id, id);
        assert.deepEqual(
          [...new Int32Array(response?.outputs[0]?.bytes.slice().buffer ?? [])],
          valuesOf(pending),
        );
        break;
      }
      case 'REJECTED':
        assert.equal(this.#clock.nowNs(), waiting?.deadlineNs);
        assert.equal(responses.length, 0);
        break;
      default:
        assert.equal(responses.length, 0);
    }
    if (this.#options.preservesOrdering && waiting === undefined && end?.outcome !== 'REFUSED') {
      assert.equal(this.#unanswered[0], id);
    }
    this.#unanswered = this.#unanswered.filter((other) => other !== id);
  }

  #checkState(): void {
    assert.equal(this.#scheduler.queuedRequests, this.#oracle.size);
    const unsettled = this.#unsettled;
    assert.equal(this.#scheduler.inFlightRequests, unsettled.size);
    // An answer that is out before its turn would be out before its end.
    for (const { responses } of unsettled) if (responses.length > 0) throw new Error('out of turn');
    for (const [level, { queueSizeMax }] of this.#options.queue.levels.entries()) {
      if (queueSizeMax > 0) {
        assert.ok(this.#oracle.sizeOf(level) <= queueSizeMax);
      }
    }
    if (this.#executor.idleInstances === 0) return;
    // While an instance is idle, the head of the queue waits for nothing but a delay that runs.
    const nowNs = this.#clock.nowNs();
    const [head] = this.#oracle.order(nowNs);
    if (head === undefined) return;
    assert.ok(nowNs - head.enqueuedNs < this.#options.batch.queueDelayNs);
  }
}

function valuesOf(pending: PendingRequest): number[] {
  const bytes = pending.request.inputs[0]?.bytes ?? new Uint8Array(0);
  return [...new Int32Array(bytes.slice().buffer)];
}

describe('DynamicBatcher under random load', () => {
  it.each(Array.from({ length: runs }, (_, index) => index + 1))(
    'settles each request once, in order, within limits and with its own rows (seed %i)',
    (seed) => {
      new Run(seed).play(eventsPerRun);
    },
    60_000,
  );
});
