import type { Clock } from '../clock.js';
import { cancelled, type InferenceServerError, unavailable } from '../errors.js';
import type { LookPolicy } from './dynamic-batcher.js';
import { InFlightRequests } from './in-flight-requests.js';
import type { PendingRequest } from './pending-request.js';
import { QueuedRequest, RequestList } from './request-list.js';
import { requestIdPrefix } from './request-queue.js';
import { ReturnedBatches } from './returned-batches.js';
import type { BatchExecutor, Scheduler } from './scheduler.js';

/*
 *   event \ state   | open                      | draining                  | destroyed
 *   ----------------+---------------------------+---------------------------+-----------
 *   enqueue         | queue, look               | refuse                    | refuse
 *   look            | run while idle            | run while idle            | -
 *   instance idle   | look                      | look                      | -
 *   given back      | look                      | look                      | fail
 *   cancel (queued) | fail with CANCELLED       | the same                  | -
 *   destroy         | fail all, → destroyed     | the same                  | -
 */

/** Inputs of the requests that are handed over together: copying more takes milliseconds. */
const bundleBytesMax = 4 * 1024 * 1024;

/**
 * For models without batching: each request runs alone, first come, first served, on whichever
 * instance is free; what waits may be handed over together, to run one after another. Priorities and timeouts of requests mean nothing here, as in the reference
 * server; they belong to `dynamic_batching`.
 */
export class DirectScheduler implements Scheduler {
  readonly #modelName: string;
  readonly #executor: BatchExecutor;
  readonly #clock: Clock;
  readonly #waiting = new RequestList();
  readonly #returned = new ReturnedBatches();
  readonly #inFlight = new InFlightRequests();
  readonly #lookPolicy: LookPolicy;
  #state: 'open' | 'draining' | 'destroyed' = 'open';
  #isLookDue = false;

  constructor(modelName: string, executor: BatchExecutor, clock: Clock, lookPolicy: LookPolicy) {
    this.#modelName = modelName;
    this.#executor = executor;
    this.#clock = clock;
    this.#lookPolicy = lookPolicy;
    executor.onIdle(() => this.#runWhileIdle());
    executor.onReturned((requests) => {
      this.#returned.give(requests);
      if (this.#state === 'destroyed') this.#returned.failAll(this.#stopped());
      else this.#runWhileIdle();
    });
  }

  get queuedRequests(): number {
    return this.#waiting.size + this.#returned.requests;
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
    const hasIdle = this.#executor.idleInstances > 0;
    if (hasIdle && this.#waiting.size === 0 && this.#executor.bundleSizeMax === 1) {
      this.#run([pending]);
      return;
    }
    const entry = new QueuedRequest(pending, '', 0, nowNs, Number.POSITIVE_INFINITY, 0);
    this.#waiting.push(entry);
    pending.onCancel = () => {
      this.#waiting.remove(entry);
      pending.fail(cancelled('request was cancelled'), 'CANCELED');
    };
    if (hasIdle) this.#lookLater();
  }

  drain(): Promise<void> {
    if (this.#state === 'open') this.#state = 'draining';
    return this.#inFlight.whenEmpty();
  }

  destroy(): void {
    this.#state = 'destroyed';
    this.#returned.failAll(this.#stopped());
    for (let entry = this.#waiting.first; entry !== undefined; entry = this.#waiting.first) {
      this.#waiting.remove(entry);
      entry.pending.fail(this.#stopped(), 'OTHER');
    }
  }

  #stopped(): InferenceServerError {
    return unavailable(`model '${this.#modelName}' was stopped before the request ran`);
  }

  #lookLater(): void {
    if (this.#isLookDue) return;
    this.#isLookDue = true;
    this.#lookPolicy(() => {
      this.#isLookDue = false;
      this.#runWhileIdle();
    });
  }

  #runWhileIdle(): void {
    for (;;) {
      const { idleInstances, bundleSizeMax } = this.#executor;
      if (idleInstances === 0) return;
      const returned = this.#returned.take();
      if (returned !== undefined) {
        this.#run(returned);
        continue;
      }
      if (this.#waiting.size === 0) return;
      // An instance must not take what another one could run at the same time.
      const share = Math.ceil(this.#waiting.size / idleInstances);
      this.#run(this.#take(Math.min(share, bundleSizeMax)));
    }
  }

  /** The first `countMax` requests, or fewer where their inputs are large, but at least one. */
  #take(countMax: number): PendingRequest[] {
    const taken: PendingRequest[] = [];
    let byteLength = 0;
    for (let entry = this.#waiting.first; entry !== undefined; entry = this.#waiting.first) {
      for (const input of entry.pending.modelInputs) byteLength += input.bytes.byteLength;
      if (taken.length > 0 && byteLength > bundleBytesMax) break;
      this.#waiting.remove(entry);
      entry.pending.onCancel = undefined;
      taken.push(entry.pending);
      if (taken.length >= countMax) break;
    }
    return taken;
  }

  #run(requests: readonly PendingRequest[]): void {
    for (const pending of requests) pending.state = 'executing';
    this.#executor.execute(requests);
  }
}
