import type { QueuedRequest } from './request-list.js';

/** Below this many entries dead ones are not worth a sweep. */
const sweepSizeMin = 64;

/**
 * Queued requests by deadline, earliest first, then by arrival: a binary heap. A request that leaves its queue stays
 * here as a dead entry (`list` undefined) until it surfaces or a sweep drops it; sweeps happen when
 * more than half of the entries are dead, so that they cost O(1) a request and a heap never keeps
 * more than twice the tensors that wait.
 */
export class DeadlineHeap {
  #entries: QueuedRequest[] = [];
  #dead = 0;

  /** `entry` must be queued and have a deadline. */
  push(entry: QueuedRequest): void {
    this.#entries.push(entry);
    this.#siftUp(this.#entries.length - 1);
  }

  /** Says that an entry with a deadline has left its queue. */
  noteRemoval(): void {
    this.#dead += 1;
    if (this.#entries.length >= sweepSizeMin && this.#dead * 2 > this.#entries.length) {
      this.#sweep();
    }
  }

  /** The queued request whose deadline comes first. */
  peek(): QueuedRequest | undefined {
    let top = this.#entries[0];
    while (top !== undefined && top.list === undefined) {
      this.#dead -= 1;
      this.#removeTop();
      top = this.#entries[0];
    }
    return top;
  }

  /** Takes out what {@link peek} returned, while it is still queued. */
  pop(): void {
    this.#removeTop();
  }

  #removeTop(): void {
    const last = this.#entries.pop();
    if (last === undefined || this.#entries.length === 0) return;
    this.#entries[0] = last;
    this.#siftDown(0);
  }

  #sweep(): void {
    this.#entries = this.#entries.filter((entry) => entry.list !== undefined);
    this.#dead = 0;
    for (let index = (this.#entries.length >> 1) - 1; index >= 0; index -= 1) {
      this.#siftDown(index);
    }
  }

  #siftUp(start: number): void {
    const entries = this.#entries;
    let index = start;
    const entry = entries[index];
    if (entry === undefined) return;
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = entries[parentIndex];
      if (parent === undefined || !isBefore(entry, parent)) break;
      entries[index] = parent;
      index = parentIndex;
    }
    entries[index] = entry;
  }

  #siftDown(start: number): void {
    const entries = this.#entries;
    let index = start;
    const entry = entries[index];
    if (entry === undefined) return;
    for (;;) {
      let childIndex = 2 * index + 1;
      let child = entries[childIndex];
      if (child === undefined) break;
      const right = entries[childIndex + 1];
      if (right !== undefined && isBefore(right, child)) {
        childIndex += 1;
        child = right;
      }
      if (!isBefore(child, entry)) break;
      entries[index] = child;
      index = childIndex;
    }
    entries[index] = entry;
  }
}

function isBefore(left: QueuedRequest, right: QueuedRequest): boolean {
  if (left.deadlineNs !== right.deadlineNs) return left.deadlineNs < right.deadlineNs;
  return left.order < right.order;
}
