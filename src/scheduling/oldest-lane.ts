import type { Clock } from '../clock.js';
import { internal } from '../errors.js';
import { DynamicBatcher, type LookPolicy } from './dynamic-batcher.js';
import type { PendingRequest } from './pending-request.js';
import type { BatchExecutor } from './scheduler.js';
import { unlimitedQueue } from './scheduling-options.js';
import type { Sequence, SequenceLane } from './sequence.js';
import type { SequenceOptions, SequenceStrategy } from './sequence-options.js';

export type OldestStrategy = Extract<SequenceStrategy, { kind: 'oldest' }>;

/**
 * Up to a number of candidate sequences each have one request in a dynamic batcher, which sees them
 * in the order in which they became ready.
 */
export class OldestLane implements SequenceLane {
  readonly #strategy: OldestStrategy;
  readonly #startNext: (sequence: Sequence) => PendingRequest;
  readonly #batcher: DynamicBatcher;
  readonly #candidates = new Set<Sequence>();

  constructor(
    options: SequenceOptions,
    strategy: OldestStrategy,
    executor: BatchExecutor,
    clock: Clock,
    lookPolicy: LookPolicy,
    startNext: (sequence: Sequence) => PendingRequest,
  ) {
    this.#strategy = strategy;
    this.#startNext = startNext;
    this.#batcher = new DynamicBatcher(
      {
        modelName: options.modelName,
        batch: strategy.batch,
        queue: unlimitedQueue,
        preservesOrdering: strategy.preservesOrdering,
        shapedInputs: options.shapedInputs,
        optionalInputs: options.optionalInputs,
        latencyTargetNs: 0,
      },
      executor,
      clock,
      lookPolicy,
    );
  }

  get firstFreeSlot(): number | undefined {
    const taken = this.#candidates.size;
    return taken < this.#strategy.candidatesMax ? taken : undefined;
  }

  get queuedRequests(): number {
    return this.#batcher.queuedRequests;
  }

  admit(sequence: Sequence): void {
    if (this.firstFreeSlot === undefined) throw internal('no free candidate; this is a bug');
    this.#candidates.add(sequence);
  }

  notice(sequence: Sequence): void {
    if (!sequence.isReady) return;
    const pending = this.#startNext(sequence);
    // The request has been queued since it arrived, not since its turn came.
    const { queueStartNs } = pending.timing;
    this.#batcher.enqueue(pending);
    pending.timing.queueStartNs = queueStartNs;
  }

  release(sequence: Sequence): void {
    this.#candidates.delete(sequence);
  }

  destroy(): void {
    this.#batcher.destroy();
  }
}
