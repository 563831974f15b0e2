import type { Clock } from '../clock.js';
import { internal } from '../errors.js';
import { Alarm } from './alarm.js';
import type { LookPolicy } from './dynamic-batcher.js';
import type { PendingRequest } from './pending-request.js';
import type { BatchExecutor } from './scheduler.js';
import type { Sequence, SequenceLane } from './sequence.js';
import type { SequenceStrategy } from './sequence-options.js';
import type { SequenceRows } from './sequence-rows.js';

export type DirectStrategy = Extract<SequenceStrategy, { kind: 'direct' }>;

/*
 *   slots      0        1        2        3          a batch, while 0, 1 and 3 have sequences and
 *            [ A ]    [ B ]    [   ]    [ C ]        A and C have a request:
 *                                                    A's request | null | null | C's request
 *
 *   A model that keeps its state by row finds each sequence in the same row of every batch. Rows
 *   without a request are null requests up to the highest slot that has a sequence; where the model
 *   takes no READY control it could not tell them apart, and gets only real rows.
 */

/** Each sequence keeps one row of one instance's batches. */
export class DirectLane implements SequenceLane {
  readonly queuedRequests = 0;
  readonly #strategy: DirectStrategy;
  readonly #executor: BatchExecutor;
  readonly #clock: Clock;
  readonly #lookPolicy: LookPolicy;
  readonly #rows: SequenceRows;
  readonly #startNext: (sequence: Sequence) => PendingRequest;
  readonly #slots: (Sequence | undefined)[];
  readonly #alarm: Alarm;
  #isLookDue = false;
  #isDestroyed = false;

  constructor(
    strategy: DirectStrategy,
    executor: BatchExecutor,
    clock: Clock,
    lookPolicy: LookPolicy,
    rows: SequenceRows,
    startNext: (sequence: Sequence) => PendingRequest,
  ) {
    this.#strategy = strategy;
    this.#executor = executor;
    this.#clock = clock;
    this.#lookPolicy = lookPolicy;
    this.#rows = rows;
    this.#startNext = startNext;
    this.#slots = new Array<Sequence | undefined>(strategy.slots).fill(undefined);
    this.#alarm = new Alarm(clock, () => this.#look());
    executor.onIdle(() => this.#look());
  }

  get firstFreeSlot(): number | undefined {
    const slot = this.#slots.indexOf(undefined);
    return slot === -1 ? undefined : slot;
  }

  admit(sequence: Sequence): void {
    const slot = this.firstFreeSlot;
    if (slot === undefined) throw internal('no free sequence slot; this is a bug');
    this.#slots[slot] = sequence;
  }

  notice(_sequence: Sequence): void {
    if (this.#isLookDue) return;
    this.#isLookDue = true;
    this.#lookPolicy(() => {
      this.#isLookDue = false;
      this.#look();
    });
  }

  release(sequence: Sequence): void {
    const slot = this.#slots.indexOf(sequence);
    if (slot !== -1) this.#slots[slot] = undefined;
  }

  destroy(): void {
    this.#isDestroyed = true;
    this.#alarm.clear();
  }

  #look(): void {
    while (!this.#isDestroyed && this.#executor.idleInstances > 0) {
      const ready = this.#slots.filter((sequence) => sequence?.isReady === true);
      const oldest = oldestEntry(ready);
      if (oldest === undefined) return;
      const waitUntilNs = directWaitUntilNs(this.#strategy, ready.length, oldest.enqueuedNs);
      if (waitUntilNs > this.#clock.nowNs()) {
        this.#alarm.wakeBy(waitUntilNs);
        return;
      }
      this.#executor.execute(this.#formBatch(oldest.batchKey));
    }
  }

  /** Requests that may share a batch with the oldest one; the others' rows are null this time. */
  #formBatch(batchKey: string): readonly PendingRequest[] {
    const highest = this.#slots.findLastIndex((sequence) => sequence !== undefined);
    const batch = this.#slots.slice(0, highest + 1).map((sequence) => {
      const fits = sequence?.isReady === true && sequence.waiting.first?.batchKey === batchKey;
      return sequence !== undefined && fits ? this.#startNext(sequence) : undefined;
    });
    const real = batch.filter((pending) => pending !== undefined);
    const [like] = real;
    if (like === undefined || !this.#rows.controls.hasReady) return real;
    return batch.map((pending) => pending ?? this.#rows.nullRow(like));
  }
}

/**
 * Pure: until when a batch waits for more slots to have a request; a time in the past is "run now".
 * The delay means something only together with a slot utilization to reach.
 */
export function directWaitUntilNs(
  strategy: DirectStrategy,
  readySlots: number,
  oldestNs: number,
): number {
  const { slots, slotUtilizationMin, queueDelayNs } = strategy;
  return readySlots / slots >= slotUtilizationMin ? 0 : oldestNs + queueDelayNs;
}

function oldestEntry(
  ready: readonly (Sequence | undefined)[],
): { readonly enqueuedNs: number; readonly batchKey: string } | undefined {
  let oldest: { readonly enqueuedNs: number; readonly batchKey: string } | undefined;
  for (const sequence of ready) {
    const entry = sequence?.waiting.first;
    if (entry !== undefined && (oldest === undefined || entry.enqueuedNs < oldest.enqueuedNs)) {
      oldest = entry;
    }
  }
  return oldest;
}
