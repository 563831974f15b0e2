import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { InferenceServerError } from '../../src/errors.js';
import type { LookPolicy } from '../../src/scheduling/dynamic-batcher.js';
import type { PendingRequest } from '../../src/scheduling/pending-request.js';
import { SequenceBatcher } from '../../src/scheduling/sequence-batcher.js';
import type { SequenceOptions } from '../../src/scheduling/sequence-options.js';
import { FakeClock } from '../support/fake-clock.js';
import { FakeExecutor } from '../support/fake-executor.js';
import { int32Tensor, type ObservedRequest, observedRequest } from '../support/pending-requests.js';
import { SeededRandom } from '../support/random.js';
import { direct, oldest } from './sequence-cases.js';

const eventsPerRun = 1000;
const runs = process.env['FULL'] === '1' ? 500 : 10;

const flagControl = (kind: 'start' | 'end' | 'ready') => ({
  kind,
  name: kind,
  datatype: 'BOOL' as const,
  values: [Uint8Array.of(0), Uint8Array.of(1)] as const,
});

function randomOptions(random: SeededRandom): SequenceOptions {
  const max = random.integer(1, 4);
  const delayMs = random.chance(0.4) ? random.integer(1, 8) : 0;
  return {
    modelName: 'm',
    isBatching: true,
    strategy: random.chance(0.5)
      ? direct(max, random.next(), delayMs)
      : oldest(random.integer(1, 6), max, [], delayMs, random.chance(0.3)),
    idleNs: random.integer(10, 60) * 1e6,
    isIterative: false,
    controls: [flagControl('start'), flagControl('end'), flagControl('ready')],
    states: [
      {
        inputName: 'S_IN',
        outputName: 'S_OUT',
        initial: { datatype: 'INT32', shape: [1, 1] },
        initialFile: '',
        isVisible: false,
      },
    ],
    shapedInputs: [],
    optionalInputs: [],
  };
}

/** What the test expects of a sequence: its sum so far, and where it runs. */
interface Expected {
  sum: number;
  lane: number;
  row: number;
}

/**
 * A model that adds up what a sequence sends, by implicit state. The test keeps its own sums, from
 * the requests that ran, and compares every answer.
 */
class Run {
  readonly #random: SeededRandom;
  readonly #options: SequenceOptions;
  readonly #clock = new FakeClock();
  readonly #all: ObservedRequest[] = [];
  readonly #unsettled = new Set<ObservedRequest>();
  readonly #byId = new Map<string, ObservedRequest>();
  readonly #expected = new Map<bigint, Expected>();
  /** Ids of requests under way, by sequence. */
  readonly #running = new Map<bigint, string>();
  /** Number of the last request of each sequence that started. */
  readonly #lastStarted = new Map<bigint, number>();
  readonly #putOff: (() => void)[] = [];
  #executors: readonly FakeExecutor[] = [];
  #batcher: SequenceBatcher;
  #sent = 0;

  constructor(seed: number) {
    this.#random = new SeededRandom(seed);
    this.#options = randomOptions(this.#random);
    this.#clock.afterTimer = () => this.#flush();
    this.#batcher = this.#load();
  }

  #load(): SequenceBatcher {
    this.#executors = Array.from({ length: this.#random.integer(1, 3) }, () => new FakeExecutor(1));
    for (const [lane, executor] of this.#executors.entries()) {
      executor.onBatch = (batch) => this.#checkBatch(batch, lane);
    }
    this.#expected.clear();
    this.#lastStarted.clear();
    const lookPolicy: LookPolicy = (look) => this.#putOff.push(look);
    return new SequenceBatcher(this.#options, this.#executors, this.#clock, lookPolicy, new Map());
  }

  play(events: number): void {
    for (let event = 0; event < events; event += 1) {
      const choice = this.#random.next();
      if (choice < 0.5) this.#send();
      else if (choice < 0.75) this.#finish('complete');
      else if (choice < 0.78) this.#finish('fail');
      else if (choice < 0.81) this.#cancel();
      else if (choice < 0.998) this.#clock.advance(this.#random.integer(0, 8e6));
      else this.#reload();
      this.#flush();
      this.#checkState();
    }
    this.#reload();
    for (const { end } of this.#all) assert.ok(end !== undefined);
    assert.equal(this.#clock.pendingTimers, 0);
  }

  #flush(): void {
    while (this.#putOff.length > 0) this.#putOff.shift()?.();
  }

  #send(): void {
    this.#sent += 1;
    const correlationId = BigInt(this.#random.integer(1, 8));
    const observed = observedRequest(
      {
        id: `r${this.#sent}`,
        timeoutUs: this.#random.chance(0.3) ? this.#random.integer(1, 20_000) : 0,
        inputs: [int32Tensor('X', [1, 1], [this.#random.integer(1, 100)])],
        sequence: {
          correlationId,
          start: this.#random.chance(0.4),
          end: this.#random.chance(0.25),
        },
      },
      1,
      (ended) => this.#checkEnd(ended),
    );
    this.#byId.set(observed.pending.request.id, observed);
    try {
      this.#batcher.enqueue(observed.pending);
      this.#all.push(observed);
      if (observed.end === undefined) this.#unsettled.add(observed);
    } catch (error) {
      assert.ok((error as InferenceServerError).message.includes('must specify the START flag'));
      assert.equal(observed.pending.request.sequence?.start, false);
      observed.pending.fail(error as InferenceServerError, 'REFUSED');
    }
  }

  #finish(how: 'complete' | 'fail'): void {
    const busy = this.#executors.filter((executor) => executor.runningBatches.length > 0);
    const executor = this.#random.pick(busy);
    const [index] = executor?.runningBatches ?? [];
    if (executor === undefined || index === undefined) return;
    if (how === 'fail') executor.fail(index);
    else {
      executor.complete(index, (pending) => {
        const sum = inputOf(pending, 'S_IN') + inputOf(pending, 'X');
        return [int32Tensor('Y', [1, 1], [sum]), int32Tensor('S_OUT', [1, 1], [sum])];
      });
    }
  }

  #cancel(): void {
    const recent = this.#all.slice(-20).filter(({ end }) => end === undefined);
    this.#random.pick(recent)?.pending.cancel();
  }

  #reload(): void {
    void this.#batcher.drain();
    this.#flush();
    for (let round = 0; this.#batcher.inFlightRequests > 0; round += 1) {
      assert.ok(round < 10_000);
      this.#finish('complete');
      this.#clock.advance(1e6);
      this.#flush();
    }
    this.#batcher.destroy();
    this.#batcher = this.#load();
  }

  #checkBatch(batch: readonly PendingRequest[], lane: number): void {
    const { strategy } = this.#options;
    const max = strategy.kind === 'direct' ? strategy.slots : strategy.batch.batchSizeMax;
    assert.ok(batch.length <= max);
    assert.equal(
      batch.some((pending) => flagOf(pending, 'ready')),
      true,
    );
    for (const [row, pending] of batch.entries()) {
      if (!flagOf(pending, 'ready')) {
        assert.equal(strategy.kind, 'direct');
        assert.deepEqual([inputOf(pending, 'X'), inputOf(pending, 'S_IN')], [0, 0]);
        continue;
      }
      this.#checkRow(pending, lane, row);
    }
  }

  #checkRow(pending: PendingRequest, lane: number, row: number): void {
    const { id, sequence } = pending.request;
    const correlationId = sequence?.correlationId as bigint;
    const sent = this.#byId.get(id)?.pending;
    assert.notEqual(sent?.state, 'settled');
    assert.equal(flagOf(pending, 'start'), sent?.request.sequence?.start);
    assert.equal(flagOf(pending, 'end'), sent?.request.sequence?.end);
    // One request of a sequence at a time, in the order in which they were sent.
    assert.equal(this.#running.has(correlationId), false);
    this.#running.set(correlationId, id);
    const number = Number(id.slice(1));
    assert.ok(number > (this.#lastStarted.get(correlationId) ?? 0));
    this.#lastStarted.set(correlationId, number);
    const known = this.#expected.get(correlationId);
    if (known === undefined || flagOf(pending, 'start')) {
      assert.equal(flagOf(pending, 'start'), true);
      this.#expected.set(correlationId, { sum: 0, lane, row });
    } else {
      assert.equal(lane, known.lane);
      if (this.#options.strategy.kind === 'direct') assert.equal(row, known.row);
    }
    assert.equal(inputOf(pending, 'S_IN'), this.#expected.get(correlationId)?.sum);
  }

  #checkEnd(observed: ObservedRequest): void {
    const { pending, responses, end } = observed;
    this.#unsettled.delete(observed);
    const correlationId = pending.request.sequence?.correlationId as bigint;
    if (this.#running.get(correlationId) === pending.request.id)
      this.#running.delete(correlationId);
    if (end?.outcome !== 'SUCCESS') {
      assert.equal(responses.length, 0);
      return;
    }
    const expected = this.#expected.get(correlationId);
    if (expected === undefined) throw new Error('answered without having run');
    expected.sum += inputOf(pending, 'X');
    assert.equal(responses.length, 1);
    const outputs = responses[0]?.outputs ?? [];
    assert.deepEqual(
      outputs.map(({ name }) => name),
      ['Y'],
    );
    assert.equal(new Int32Array(outputs[0]?.bytes.slice().buffer ?? [])[0], expected.sum);
  }

  #checkState(): void {
    const unsettled = this.#unsettled;
    assert.equal(this.#batcher.inFlightRequests, unsettled.size);
    const executing = this.#executors.flatMap((executor) =>
      executor.runningBatches.flatMap((index) => executor.batches[index] ?? []),
    );
    const real = executing.filter((pending) => flagOf(pending, 'ready'));
    assert.equal(this.#batcher.queuedRequests, unsettled.size - real.length);
  }
}

function inputOf({ modelInputs }: PendingRequest, name: string): number {
  const bytes = modelInputs.find((input) => input.name === name)?.bytes ?? new Uint8Array(4);
  return new Int32Array(bytes.slice().buffer)[0] ?? 0;
}

function flagOf({ modelInputs }: PendingRequest, name: string): boolean {
  return modelInputs.find((input) => input.name === name)?.bytes[0] === 1;
}

describe('SequenceBatcher under random load', () => {
  it.each(Array.from({ length: runs }, (_, index) => index + 1))(
    'keeps every sequence in order, in its place and with its own state (seed %i)',
    (seed) => {
      new Run(seed).play(eventsPerRun);
    },
    60_000,
  );
});
