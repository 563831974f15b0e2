import type { Clock } from '../clock.js';
import { cancelled, unavailable } from '../errors.js';
import { InFlightRequests } from './in-flight-requests.js';
import type { PendingRequest } from './pending-request.js';
import { QueuedRequest, RequestList } from './request-list.js';
import { requestIdPrefix } from './request-queue.js';
import type { BatchExecutor, Scheduler } from './scheduler.js';

/*
 *   event \ state   | open                      | draining                  | destroyed
 *   ----------------+---------------------------+---------------------------+-----------
 *   enqueue         | queue, run while idle     | refuse                    | refuse
 *   instance idle   | run while idle            | run while idle            | -
 *   cancel (queued) | fail with CANCELLED       | the same                  | -
 *   destroy         | fail all, → destroyed     | the same                  | -
 */

/**
 * For models without batching: each request runs alone, first come, first served, on whichever
 * instance is free. Priorities and timeouts of requests mean nothing here, as in the reference
 * server; they belong to `dynamic_batching`.
 */
export class DirectScheduler implements Scheduler {
  readonly #modelName: string;
  readonly #executor: BatchExecutor;
  readonly #clock: Clock;
  readonly #waiting = new RequestList();
  readonly #inFlight = new InFlightRequests();
  #state: 'open' | 'draining' | 'destroyed' = 'open';

  constructor(modelName: string, executor: BatchExecutor, clock: Clock) {
    this.#modelName = modelName;
    this.#executor = executor;
    this.#clock = clock;
    executor.onIdle(() => this.#runWhileIdle());
  }

  get queuedRequests(): number {
    return this.#waiting.size;
  }

  get inFlightRequests(): number {
    return this.#inFlight.count;
  }

  enqueue(pending: PendingRequest): void {
    if (this.#state !== 'open') {
      throw unavailable(
        `${requestIdPrefix(pending)}model '${this.#modelName}' is stopping and takes no new requests`,
      );
    }
    const nowNs = this.#clock.nowNs();
    pending.timing.queueStartNs = nowNs;
    this.#inFlight.accept(pending);
    if (pending.isCancelled) {
      pending.fail(cancelled('request was cancelled'), 'CANCELED');
      return;
    }
    if (this.#waiting.size === 0 && this.#executor.idleInstances > 0) {
      this.#run(pending);
      return;
    }
    const entry = new QueuedRequest(pending, '', 0, nowNs, Number.POSITIVE_INFINITY, 0);
    this.#waiting.push(entry);
    pending.onCancel = () => {
      this.#waiting.remove(entry);
      pending.fail(cancelled('request was cancelled'), 'CANCELED');
    };
  }

  drain(): Promise<void> {
    if (this.#state === 'open') this.#state = 'draining';
    return this.#inFlight.whenEmpty();
  }

  destroy(): void {
    this.#state = 'destroyed';
    for (let entry = this.#waiting.first; entry !== undefined; entry = this.#waiting.first) {
      this.#waiting.remove(entry);
      entry.pending.fail(
        unavailable(`model '${this.#modelName}' was stopped before the request ran`),
        'OTHER',
      );
    }
  }

  #runWhileIdle(): void {
    while (this.#executor.idleInstances > 0) {
      const entry = this.#waiting.first;
      if (entry === undefined) return;
      this.#waiting.remove(entry);
      entry.pending.onCancel = undefined;
      this.#run(entry.pending);
    }
  }

  #run(pending: PendingRequest): void {
    pending.state = 'executing';
    this.#executor.execute([pending]);
  }
}
