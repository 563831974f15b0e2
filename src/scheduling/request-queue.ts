import { unavailable } from '../errors.js';
import type { QueueView } from './batch-formation.js';
import { DeadlineHeap } from './deadline-heap.js';
import type { PendingRequest } from './pending-request.js';
import { QueuedRequest, RequestList } from './request-list.js';
import type { QueueOptions, QueuePolicy } from './scheduling-options.js';

/*
 *   level 1 (highest):  waiting … | delayed …     served left to right, top to bottom
 *   level 2:            waiting … | delayed …
 *
 *   event     | waiting                                | delayed
 *   ----------+----------------------------------------+------------------------
 *   enqueue   | joins the end; refused where the level | -
 *             | holds queueSizeMax requests (both      |
 *             | parts count)                           |
 *   timeout   | REJECT: fails with UNAVAILABLE         | has no timeout any more
 *             | DELAY: moves to the end of delayed     |
 *   take      | leaves, oldest first                   | leaves when its level has nothing waiting
 *   remove    | leaves (cancelled)                     | leaves (cancelled)
 */

interface Level {
  readonly policy: QueuePolicy;
  readonly waiting: RequestList;
  readonly delayed: RequestList;
}

/** Waiting requests of one model: bounded, by priority, with timeouts. */
export class RequestQueue implements QueueView {
  readonly #levels: readonly Level[];
  readonly #defaultLevel: number;
  readonly #deadlines = new DeadlineHeap();
  #size = 0;
  #rows = 0;
  #accepted = 0;

  constructor(options: QueueOptions) {
    this.#levels = options.levels.map((policy) => ({
      policy,
      waiting: new RequestList(),
      delayed: new RequestList(),
    }));
    this.#defaultLevel = options.defaultLevel;
  }

  get size(): number {
    return this.#size;
  }

  /** Rows of all waiting requests. */
  get rows(): number {
    return this.#rows;
  }

  /** Whether a request of this priority would be refused. */
  isFullFor(pending: PendingRequest): boolean {
    const level = this.#levels[this.#levelOf(pending)];
    if (level === undefined) return true;
    const { queueSizeMax } = level.policy;
    return queueSizeMax > 0 && level.waiting.size + level.delayed.size >= queueSizeMax;
  }

  /** Throws UNAVAILABLE where the request's level is full. */
  enqueue(pending: PendingRequest, batchKey: string, nowNs: number): QueuedRequest {
    const levelIndex = this.#levelOf(pending);
    const level = this.#levels[levelIndex];
    if (level === undefined || this.isFullFor(pending)) {
      throw unavailable(`${requestIdPrefix(pending)}Exceeds maximum queue size`);
    }
    const deadlineNs = deadlineOf(pending, level.policy, nowNs);
    const entry = new QueuedRequest(
      pending,
      batchKey,
      levelIndex,
      nowNs,
      deadlineNs,
      this.#accepted,
    );
    this.#accepted += 1;
    level.waiting.push(entry);
    this.#size += 1;
    this.#rows += pending.rows;
    if (deadlineNs !== Number.POSITIVE_INFINITY) this.#deadlines.push(entry);
    return entry;
  }

  first(): QueuedRequest | undefined {
    return this.#firstFrom(0);
  }

  after(entry: QueuedRequest): QueuedRequest | undefined {
    if (entry.next !== undefined) return entry.next;
    const level = this.#levels[entry.level];
    if (level !== undefined && entry.list === level.waiting && level.delayed.first !== undefined) {
      return level.delayed.first;
    }
    return this.#firstFrom(entry.level + 1);
  }

  /** Takes the first `count` requests out; they are the caller's from now on. */
  take(count: number): PendingRequest[] {
    const taken: PendingRequest[] = [];
    while (taken.length < count) {
      const entry = this.first();
      if (entry === undefined) break;
      this.remove(entry);
      taken.push(entry.pending);
    }
    return taken;
  }

  /** Takes one request out, from wherever it waits; does nothing where it has left already. */
  remove(entry: QueuedRequest): void {
    if (entry.list === undefined) return;
    entry.list.remove(entry);
    entry.pending.onCancel = undefined;
    this.#size -= 1;
    this.#rows -= entry.pending.rows;
    if (entry.deadlineNs !== Number.POSITIVE_INFINITY) this.#deadlines.noteRemoval();
  }

  /** When the next timeout is due; Infinity where none is. */
  nextDeadlineNs(): number {
    return this.#deadlines.peek()?.deadlineNs ?? Number.POSITIVE_INFINITY;
  }

  /** Acts on every timeout that is due at `nowNs`. */
  expire(nowNs: number): void {
    for (;;) {
      const entry = this.#deadlines.peek();
      if (entry === undefined || entry.deadlineNs > nowNs) return;
      this.#deadlines.pop();
      entry.deadlineNs = Number.POSITIVE_INFINITY;
      const level = this.#levels[entry.level];
      if (level?.policy.timeoutAction === 'DELAY') {
        level.waiting.remove(entry);
        level.delayed.push(entry);
      } else {
        this.remove(entry);
        entry.pending.fail(unavailable('Request timeout expired'), 'REJECTED');
      }
    }
  }

  #firstFrom(levelIndex: number): QueuedRequest | undefined {
    for (let index = levelIndex; index < this.#levels.length; index += 1) {
      const level = this.#levels[index];
      const entry = level?.waiting.first ?? level?.delayed.first;
      if (entry !== undefined) return entry;
    }
    return undefined;
  }

  #levelOf(pending: PendingRequest): number {
    const { priority } = pending.request;
    return priority >= 1 && priority <= this.#levels.length ? priority - 1 : this.#defaultLevel;
  }
}

/** `[request id: ID] `, as the reference server begins messages about a request at its door. */
export function requestIdPrefix(pending: PendingRequest): string {
  const { id } = pending.request;
  return `[request id: ${id === '' ? '<id_unknown>' : id}] `;
}

/**
 * A request's own timeout may shorten the level's. Where the level has none it applies as it is;
 * the reference server ignores it then.
 */
function deadlineOf(pending: PendingRequest, policy: QueuePolicy, nowNs: number): number {
  let timeoutUs = policy.defaultTimeoutUs;
  const ownUs = pending.request.timeoutUs;
  if (policy.allowsTimeoutOverride && ownUs > 0 && (timeoutUs === 0 || ownUs < timeoutUs)) {
    timeoutUs = ownUs;
  }
  return timeoutUs > 0 ? nowNs + timeoutUs * 1000 : Number.POSITIVE_INFINITY;
}
