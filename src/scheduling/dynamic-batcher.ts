import type { Clock } from '../clock.js';
import { cancelled, type InferenceServerError, unavailable } from '../errors.js';
import { AdaptiveBatching } from './adaptive-batching.js';
import { Alarm } from './alarm.js';
import { AnswerOrder } from './answer-order.js';
import { formBatch } from './batch-formation.js';
import { type BatchKeyOf, batchKeyOf } from './batch-key.js';
import { InFlightRequests } from './in-flight-requests.js';
import type { PendingRequest } from './pending-request.js';
import { RequestQueue, requestIdPrefix } from './request-queue.js';
import { ReturnedBatches } from './returned-batches.js';
import type { BatchExecutor, Scheduler } from './scheduler.js';
import type { BatchSizeOptions, DynamicBatchingOptions } from './scheduling-options.js';

/*
 *   event \ state   | open                          | draining                  | destroyed
 *   ----------------+-------------------------------+---------------------------+-----------
 *   enqueue         | queue, look after arrivals    | refuse                    | refuse
 *   instance idle   | look                          | look, no delay            | -
 *   alarm           | expire timeouts, look         | expire timeouts, look     | -
 *   cancel (queued) | fail with CANCELLED, look     | the same                  | -
 *   drain           | → draining, look              | -                         | -
 *   destroy         | fail all queued, → destroyed  | the same                  | -
 *
 *   look: while an instance is idle, form a batch and hand it over, or while a busy one takes a batch
 *   of what waits; then set the alarm to the sooner of the end of the delay (only while an instance
 *   is idle) and the next timeout.
 */

/**
 * When a scheduler looks at its queue after an arrival. Looking at once starts a request without
 * any delay; looking when the event loop has handed over all that arrived together lets those
 * share a batch even where no queue delay is configured.
 */
export type LookPolicy = (look: () => void) => void;

export const lookAtOnce: LookPolicy = (look) => look();

/** `setImmediate` runs after the poll phase: all sockets that were readable have been read. */
export const lookAfterArrivals: LookPolicy = (look) => {
  setImmediate(look);
};

/** Gathers requests of one model into batches, by {@link formBatch}'s rules. */
export class DynamicBatcher implements Scheduler {
  readonly #options: DynamicBatchingOptions;
  readonly #executor: BatchExecutor;
  readonly #clock: Clock;
  readonly #lookPolicy: LookPolicy;
  readonly #queue: RequestQueue;
  readonly #returned = new ReturnedBatches();
  readonly #batchKeyOf: BatchKeyOf;
  readonly #inFlight: InFlightRequests;
  readonly #adaptive: AdaptiveBatching | undefined;
  /** First request of each running batch → rows of the batch, where the controller wants to know. */
  readonly #batchRows = new Map<PendingRequest, number>();
  readonly #answerOrder: AnswerOrder | undefined;
  readonly #alarm: Alarm;
  #batchOptions: BatchSizeOptions;
  #state: 'open' | 'draining' | 'destroyed' = 'open';
  #isLookDue = false;

  constructor(
    options: DynamicBatchingOptions,
    executor: BatchExecutor,
    clock: Clock,
    lookPolicy: LookPolicy,
  ) {
    this.#options = options;
    this.#batchOptions = options.batch;
    this.#executor = executor;
    this.#clock = clock;
    this.#lookPolicy = lookPolicy;
    this.#queue = new RequestQueue(options.queue);
    if (options.latencyTargetNs > 0) {
      this.#adaptive = new AdaptiveBatching(options.latencyTargetNs, options.batch);
      this.#inFlight = new InFlightRequests((pending) => this.#observeEnd(pending));
    } else {
      this.#inFlight = new InFlightRequests();
    }
    this.#batchKeyOf = batchKeyOf(options);
    this.#answerOrder = options.preservesOrdering ? new AnswerOrder() : undefined;
    this.#alarm = new Alarm(clock, () => this.#look());
    executor.onIdle(() => this.#look());
    executor.onReturned((requests) => {
      this.#returned.give(requests);
      if (this.#state === 'destroyed') this.#returned.failAll(this.#stopped());
      else this.#look();
    });
  }

  get queuedRequests(): number {
    return this.#queue.size + this.#returned.requests;
  }

  get inFlightRequests(): number {
    return this.#inFlight.count;
  }

  enqueue(pending: PendingRequest): void {
    if (this.#state !== 'open') {
      throw unavailable(
        `${requestIdPrefix(pending)}model '${this.#options.modelName}' is stopping and takes no new requests`,
      );
    }
    // What has timed out, or could have started already, must not cost a newcomer its place.
    if (this.#queue.isFullFor(pending)) this.#look();
    const nowNs = this.#clock.nowNs();
    const entry = this.#queue.enqueue(pending, this.#batchKeyOf(pending.modelInputs), nowNs);
    this.#inFlight.accept(pending);
    pending.timing.queueStartNs = nowNs;
    this.#adaptive?.observeArrival(pending.rows);
    pending.onCancel = () => {
      this.#queue.remove(entry);
      pending.fail(cancelled('request was cancelled'), 'CANCELED');
      this.#look();
    };
    if (pending.isCancelled) {
      pending.onCancel();
      return;
    }
    if (entry.deadlineNs !== Number.POSITIVE_INFINITY) this.#alarm.wakeBy(entry.deadlineNs);
    if (this.#executor.idleInstances > 0 || this.#mayRunAhead()) this.#lookLater();
  }

  drain(): Promise<void> {
    if (this.#state === 'open') {
      this.#state = 'draining';
      // Nothing more can join: waiting for company is pointless.
      this.#batchOptions = { ...this.#batchOptions, queueDelayNs: 0 };
      this.#look();
    }
    return this.#inFlight.whenEmpty().then(() => this.#alarm.clear());
  }

  destroy(): void {
    this.#state = 'destroyed';
    this.#alarm.clear();
    this.#returned.failAll(this.#stopped());
    for (const pending of this.#queue.take(this.#queue.size))
      pending.fail(this.#stopped(), 'OTHER');
  }

  #stopped(): InferenceServerError {
    return unavailable(`model '${this.#options.modelName}' was stopped before the request ran`);
  }

  #lookLater(): void {
    if (this.#isLookDue) return;
    this.#isLookDue = true;
    this.#lookPolicy(() => {
      this.#isLookDue = false;
      this.#look();
    });
  }

  #look(): void {
    this.#runReturned();
    if (this.#queue.size === 0 || this.#state === 'destroyed') return;
    const nowNs = this.#clock.nowNs();
    if (this.#queue.nextDeadlineNs() <= nowNs) this.#queue.expire(nowNs);
    if (this.#adaptive !== undefined && this.#state === 'open') {
      this.#batchOptions = this.#adaptive.options(nowNs);
    }
    let wakeByNs = Number.POSITIVE_INFINITY;
    while (this.#executor.idleInstances > 0 || this.#mayRunAhead()) {
      const { requests, waitUntilNs } = formBatch(this.#queue, this.#batchOptions, nowNs);
      if (requests === 0) {
        wakeByNs = waitUntilNs;
        break;
      }
      this.#run(this.#queue.take(requests));
    }
    this.#alarm.wakeBy(Math.min(wakeByNs, this.#queue.nextDeadlineNs()));
  }

  /** As they are: they were formed once, and may have their place in the order of answers. */
  #runReturned(): void {
    while (this.#returned.requests > 0 && this.#executor.idleInstances > 0) {
      const batch = this.#returned.take();
      if (batch !== undefined) this.#executor.execute(batch);
    }
  }

  /** So much waits that the next batch need not be kept open for what may still come. */
  #mayRunAhead(): boolean {
    return this.#queue.rows >= this.#executor.aheadRowsMin;
  }

  #run(batch: PendingRequest[]): void {
    for (const pending of batch) pending.state = 'executing';
    if (this.#adaptive !== undefined) this.#noteBatch(batch);
    const order = this.#answerOrder;
    if (order === undefined) {
      this.#executor.execute(batch);
      return;
    }
    const followed = batch.map((pending) => order.follow(pending));
    for (const pending of followed) pending.state = 'executing';
    this.#executor.execute(followed);
  }

  #noteBatch(batch: readonly PendingRequest[]): void {
    const [first] = batch;
    if (first === undefined) return;
    let rows = 0;
    for (const pending of batch) rows += pending.rows;
    this.#batchRows.set(first, rows);
  }

  #observeEnd(pending: PendingRequest): void {
    const rows = this.#batchRows.get(pending);
    this.#batchRows.delete(pending);
    const { queueStartNs, computeStartNs, computeEndNs } = pending.timing;
    // What never ran, or died running, says nothing about executions.
    if (computeEndNs === 0) return;
    if (rows !== undefined) this.#adaptive?.observeExecution(rows, computeEndNs - computeStartNs);
    this.#adaptive?.observeLatency(this.#clock.nowNs() - queueStartNs);
  }
}
