import type { Tensor } from '../inference/tensor.js';
import type { PendingRequest } from './pending-request.js';
import { RequestList } from './request-list.js';
import type { SequenceStateValues } from './sequence-state.js';

/** Where a sequence's requests run: one instance, or all instances of a model that keeps no state. */
export interface SequenceLane {
  /** Number of the free slot that the next sequence would get; undefined where all are taken. */
  readonly firstFreeSlot: number | undefined;
  /** Handed over to the lane and not yet executing. */
  readonly queuedRequests: number;
  /** Gives `sequence` a slot; only while there is a free one. */
  admit(sequence: Sequence): void;
  /** Says that `sequence` may have a request to run. */
  notice(sequence: Sequence): void;
  /** Takes the slot back. */
  release(sequence: Sequence): void;
  /** Fails what it holds and has not started; stops all timers. */
  destroy(): void;
}

/**
 * ```
 *   (START) ──▶ backlog ──slot free──▶ in a slot ──closed, nothing left to run──▶ finished
 *                  └──────timeout, cancel─────────────────────────────────────────┘
 *   closed: takes no more requests, because it got END, was idle for too long or was cancelled
 * ```
 */
export class Sequence {
  readonly correlationId: bigint | string;
  readonly correlationIdTensors: readonly Tensor[];
  /** Its requests that have not been handed to the lane's executor, in order. */
  readonly waiting = new RequestList();
  /** The sequence of the same id before this one, while this one has no slot. */
  predecessor: Sequence | undefined;
  lane: SequenceLane | undefined = undefined;
  /** The one request under way: the next starts when it has ended. */
  inFlight: PendingRequest | undefined = undefined;
  state: SequenceStateValues;
  hasStarted = false;
  isClosed = false;
  isFinished = false;
  /** Its reader is slow: what was rescheduled waits until it reads on. */
  isHeld = false;
  lastArrivalNs = 0;
  /** When the first timeout of its requests is due, while it is in the backlog. */
  deadlineNs = Number.POSITIVE_INFINITY;

  constructor(
    correlationId: bigint | string,
    correlationIdTensors: readonly Tensor[],
    state: SequenceStateValues,
    predecessor: Sequence | undefined,
  ) {
    this.correlationId = correlationId;
    this.correlationIdTensors = correlationIdTensors;
    this.state = state;
    this.predecessor = predecessor;
  }

  /** Whether a request could be handed over now. */
  get isReady(): boolean {
    return this.inFlight === undefined && !this.isHeld && this.waiting.first !== undefined;
  }

  /** The nearest older sequence of the same id that still has something to run. */
  get unfinishedElder(): Sequence | undefined {
    let elder = this.predecessor;
    while (elder?.isFinished === true) elder = elder.predecessor;
    return elder;
  }
}
