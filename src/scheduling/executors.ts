import { internal } from '../errors.js';
import type { PendingRequest } from './pending-request.js';
import type { InstanceNeeds, RateLimiter, RateTicket } from './rate-limiter.js';
import type { BatchExecutor } from './scheduler.js';

/** Several executors as one, for a scheduler that does not mind which instance runs a batch. */
export class ExecutorGroup implements BatchExecutor {
  readonly #executors: readonly BatchExecutor[];

  constructor(executors: readonly BatchExecutor[]) {
    this.#executors = executors;
  }

  get idleInstances(): number {
    let idle = 0;
    for (const executor of this.#executors) idle += executor.idleInstances;
    return idle;
  }

  /** Each takes what comes when it is idle; this group has lanes, which never run ahead. */
  readonly aheadRowsMin = Number.POSITIVE_INFINITY;

  get bundleSizeMax(): number {
    return Math.min(...this.#executors.map((executor) => executor.bundleSizeMax));
  }

  execute(batch: readonly PendingRequest[]): void {
    const idle = this.#executors.find((executor) => executor.idleInstances > 0);
    if (idle === undefined) throw internal('execute without an idle instance; this is a bug');
    idle.execute(batch);
  }

  onIdle(listener: () => void): void {
    for (const executor of this.#executors) executor.onIdle(listener);
  }

  onReturned(listener: (requests: readonly PendingRequest[]) => void): void {
    for (const executor of this.#executors) executor.onReturned(listener);
  }
}

/** An instance that runs only while the rate limiter has its resources. */
export class RateLimitedExecutor implements BatchExecutor {
  readonly #inner: BatchExecutor;
  readonly #ticket: RateTicket;
  #listener: () => void = () => {};

  /** `inner` is one instance: idle again means that its execution is over. */
  constructor(inner: BatchExecutor, limiter: RateLimiter, needs: InstanceNeeds) {
    this.#inner = inner;
    this.#ticket = limiter.register(needs, () => this.#listener());
    // Told late, the instance may be at its next execution already.
    inner.onIdle(() => {
      if (inner.idleInstances > 0) this.#ticket.end();
    });
  }

  get idleInstances(): number {
    return this.#inner.idleInstances > 0 && this.#ticket.canRun() ? 1 : 0;
  }

  /** An execution that waits in its instance would hold resources for nothing. */
  readonly aheadRowsMin = Number.POSITIVE_INFINITY;

  /** Each execution asks for its resources. */
  readonly bundleSizeMax = 1;

  execute(batch: readonly PendingRequest[]): void {
    this.#ticket.start();
    this.#inner.execute(batch);
  }

  onIdle(listener: () => void): void {
    this.#listener = listener;
  }

  onReturned(listener: (requests: readonly PendingRequest[]) => void): void {
    this.#inner.onReturned(listener);
  }

  /** The instance ends: its resources are free for good. Idempotent. */
  release(): void {
    this.#ticket.remove();
  }
}
