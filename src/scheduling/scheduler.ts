import type { PendingRequest } from './pending-request.js';

/**
 * Decides when, and together with what, a request runs. It owns a request from `enqueue` until it
 * hands it to its executor or fails it, and never drops one.
 */
export interface Scheduler {
  /**
   * Takes ownership. Throws `InferenceServerError` where the request is refused at the door
   * (queue full, sequence rules, stopping): then the caller still owns it.
   */
  enqueue(pending: PendingRequest): void;
  /** Accepted and not yet executing. */
  readonly queuedRequests: number;
  /** Accepted and not yet settled. */
  readonly inFlightRequests: number;
  /**
   * Refuses what comes from now on and resolves when everything accepted has settled.
   * Sequences under way may go on until then.
   */
  drain(): Promise<void>;
  /** Fails everything still queued with UNAVAILABLE and stops all timers. */
  destroy(): void;
}

/**
 * Runs batches; implemented over an instance pool, faked in tests. The scheduler keeps the queue:
 * an executor never queues.
 */
export interface BatchExecutor {
  /** Instances that could take a batch now. */
  readonly idleInstances: number;
  /**
   * Rows from which a batch is worth handing to an instance that is busy, to follow what it runs
   * without a pause; Infinity where none takes one. A batch that is handed over can't grow, expire
   * or be cancelled any more, so this is given only where the wait is a few milliseconds.
   */
  readonly aheadRowsMin: number;
  /**
   * How many requests that are executed one by one an instance takes at once: 1 where it gains
   * nothing by it, or where the last of them would wait too long for their answers.
   */
  readonly bundleSizeMax: number;
  /**
   * Runs `batch` on an instance, taking ownership of its requests: each is completed or failed by
   * the executor. Call only while `idleInstances > 0`, or with at least `aheadRowsMin` rows.
   */
  execute(batch: readonly PendingRequest[]): void;
  /** `listener` is called when an instance has become idle. One listener; set once. */
  onIdle(listener: () => void): void;
  /**
   * `listener` gets requests of a batch back that was handed over and did not run: its instance was
   * lost while it waited there, or had no time for all of a bundle. One listener; set once by
   * whoever hands over what may come back, by `aheadRowsMin` or `bundleSizeMax`.
   */
  onReturned(listener: (requests: readonly PendingRequest[]) => void): void;
}
