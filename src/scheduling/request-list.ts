import type { PendingRequest } from './pending-request.js';

/** A request's place in a queue. Owned by the list it is linked into. */
export class QueuedRequest {
  readonly pending: PendingRequest;
  /** Requests of one batch have equal keys. */
  readonly batchKey: string;
  /** Index of the priority level, 0 for the highest. */
  readonly level: number;
  readonly enqueuedNs: number;
  /** When the queue policy's timeout acts; Infinity where it never does. */
  deadlineNs: number;
  /** Place among requests of the same deadline. */
  readonly order: number;
  list: RequestList | undefined = undefined;
  previous: QueuedRequest | undefined = undefined;
  next: QueuedRequest | undefined = undefined;

  constructor(
    pending: PendingRequest,
    batchKey: string,
    level: number,
    enqueuedNs: number,
    deadlineNs: number,
    order: number,
  ) {
    this.pending = pending;
    this.batchKey = batchKey;
    this.level = level;
    this.enqueuedNs = enqueuedNs;
    this.deadlineNs = deadlineNs;
    this.order = order;
  }
}

/**
 * ```
 *   first ⇄ … ⇄ last        every member: list === this
 * ```
 * A doubly linked list, because requests leave a queue from its middle too: a client hangs up, a
 * timeout acts. Adding, removing and stepping are O(1) and leave no holes to step over.
 */
export class RequestList {
  first: QueuedRequest | undefined = undefined;
  #last: QueuedRequest | undefined = undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(entry: QueuedRequest): void {
    entry.list = this;
    entry.previous = this.#last;
    entry.next = undefined;
    if (this.#last === undefined) this.first = entry;
    else this.#last.next = entry;
    this.#last = entry;
    this.#size += 1;
  }

  /** Puts an entry that had left back in front of all others. */
  unshift(entry: QueuedRequest): void {
    entry.list = this;
    entry.previous = undefined;
    entry.next = this.first;
    if (this.first === undefined) this.#last = entry;
    else this.first.previous = entry;
    this.first = entry;
    this.#size += 1;
  }

  /** `entry` must be in this list. */
  remove(entry: QueuedRequest): void {
    const { previous, next } = entry;
    if (previous === undefined) this.first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    entry.list = undefined;
    entry.previous = undefined;
    entry.next = undefined;
    this.#size -= 1;
  }
}
