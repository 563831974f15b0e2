import type { Clock } from '../clock.js';
import {
  cancelled,
  type InferenceServerError,
  internal,
  invalidArg,
  unavailable,
} from '../errors.js';
import type { SequenceFlags } from '../inference/infer-request.js';
import { Alarm } from './alarm.js';
import { type BatchKeyOf, batchKeyOf } from './batch-key.js';
import { DirectLane } from './direct-lane.js';
import type { LookPolicy } from './dynamic-batcher.js';
import { InFlightRequests } from './in-flight-requests.js';
import { OldestLane } from './oldest-lane.js';
import type { PendingRequest } from './pending-request.js';
import { type FailureOutcome, relayRequest } from './relayed-request.js';
import { QueuedRequest } from './request-list.js';
import { requestIdPrefix } from './request-queue.js';
import type { BatchExecutor, Scheduler } from './scheduler.js';
import { Sequence, type SequenceLane } from './sequence.js';
import type { SequenceOptions } from './sequence-options.js';
import { SequenceRows } from './sequence-rows.js';
import { ImplicitState } from './sequence-state.js';

/*
 *   request of id X \ X is | unknown or finished    | closed, not finished   | open
 *   -----------------------+------------------------+------------------------+-----------------------
 *   with START             | new sequence: a free   | new sequence behind    | joins: its state starts
 *                          | slot, or the backlog   | the old one            | anew with this request
 *   without START          | refused                | refused                | joins
 *   with END (too)         | … and is closed        | … and is closed        | … and is closed
 *   new, while draining    | refused                | refused                | as above
 *
 *   event                  | what happens
 *   -----------------------+--------------------------------------------------------------------------
 *   request ended          | the next of its sequence may start; a closed sequence with nothing left
 *                          | finishes
 *   sequence finished      | its slot goes to the first of the backlog whose elders are
 *                        | finished
 *   idle time over since   | the sequence is closed (not while it is in the backlog)
 *   the last arrival       |
 *   timeout of a request   | the whole backlog sequence is rejected
 *   in the backlog         |
 *   one request cancelled  | the whole sequence is cancelled
 *   model reschedules      | the request is the first of its sequence again, without START; it waits
 *                          | while its reader is slow, and fails if it was cancelled meanwhile
 */

/** Gives each sequence a slot of an instance and runs its requests one after the other. */
export class SequenceBatcher implements Scheduler {
  readonly #options: SequenceOptions;
  readonly #clock: Clock;
  readonly #batchKeyOf: BatchKeyOf;
  readonly #implicitState: ImplicitState;
  readonly #rows: SequenceRows;
  readonly #lanes: readonly SequenceLane[];
  readonly #inFlight = new InFlightRequests();
  /** The newest sequence of each id; a `Map` keeps 1n and '1' apart, as the protocol does. */
  readonly #byId = new Map<bigint | string, Sequence>();
  /** All that are not finished. */
  readonly #sequences = new Set<Sequence>();
  readonly #backlog = new Set<Sequence>();
  /** Those that may become idle, the longest silent first. */
  readonly #bySilence = new Set<Sequence>();
  readonly #alarm: Alarm;
  #state: 'open' | 'draining' | 'destroyed' = 'open';
  #waiting = 0;
  #lastGeneratedId = 0n;

  /**
   * `executors`: one for each instance, so that a sequence stays with its instance; a single one
   * over all instances will do for a model that keeps no state of its own. `initialStateFiles`:
   * contents of the files that `initialStateFiles(options)` names.
   */
  constructor(
    options: SequenceOptions,
    executors: readonly BatchExecutor[],
    clock: Clock,
    lookPolicy: LookPolicy,
    initialStateFiles: ReadonlyMap<string, Uint8Array>,
  ) {
    this.#options = options;
    this.#clock = clock;
    this.#batchKeyOf = batchKeyOf(options);
    this.#implicitState = new ImplicitState(options, initialStateFiles);
    this.#rows = new SequenceRows(options, this.#implicitState);
    this.#alarm = new Alarm(clock, () => this.#onAlarm());
    const startNext = (sequence: Sequence): PendingRequest => this.#startNext(sequence);
    const { strategy } = options;
    this.#lanes = executors.map((executor) =>
      strategy.kind === 'direct'
        ? new DirectLane(strategy, executor, clock, lookPolicy, this.#rows, startNext)
        : new OldestLane(options, strategy, executor, clock, lookPolicy, startNext),
    );
  }

  get queuedRequests(): number {
    let queued = this.#waiting;
    for (const lane of this.#lanes) queued += lane.queuedRequests;
    return queued;
  }

  get inFlightRequests(): number {
    return this.#inFlight.count;
  }

  enqueue(pending: PendingRequest): void {
    const flags = this.#flagsOf(pending);
    const sequence = this.#sequenceFor(pending, flags);
    const nowNs = this.#clock.nowNs();
    this.#inFlight.accept(pending);
    pending.timing.queueStartNs = nowNs;
    pending.onCancel = () => this.#cancel(sequence, pending);
    const batchKey = this.#batchKeyOf(pending.modelInputs);
    const never = Number.POSITIVE_INFINITY;
    sequence.waiting.push(new QueuedRequest(pending, batchKey, 0, nowNs, never, 0));
    this.#waiting += 1;
    this.#noteArrival(sequence, pending, nowNs);
    if (flags.end) this.#close(sequence);
    if (pending.isCancelled) this.#cancel(sequence, pending);
    else sequence.lane?.notice(sequence);
  }

  drain(): Promise<void> {
    if (this.#state === 'open') this.#state = 'draining';
    return this.#inFlight.whenEmpty().then(() => this.#alarm.clear());
  }

  destroy(): void {
    this.#state = 'destroyed';
    this.#alarm.clear();
    const error = this.#stopped();
    // Before the lanes: what ends there must find nothing more to start.
    for (const sequence of this.#sequences) this.#failWaiting(sequence, error, 'OTHER');
    for (const lane of this.#lanes) lane.destroy();
  }

  #flagsOf(pending: PendingRequest): SequenceFlags {
    const { modelName, isBatching, isIterative } = this.#options;
    const flags = pending.request.sequence;
    const hasId = flags !== undefined && flags.correlationId !== 0n && flags.correlationId !== '';
    if (!hasId && !isIterative) {
      throw invalidArg(
        `inference request to model '${modelName}' must specify a non-zero or non-empty ` +
          'correlation ID',
      );
    }
    if (isBatching && pending.rows !== 1) {
      throw invalidArg(
        `inference request to model '${modelName}' must specify batch-size 1 due to ` +
          'requirements of sequence batcher',
      );
    }
    if (!isIterative && flags !== undefined) return flags;
    // An iterative request is a whole sequence.
    if (!hasId) this.#lastGeneratedId += 1n;
    const correlationId = hasId ? flags.correlationId : this.#lastGeneratedId;
    return { correlationId, start: true, end: true };
  }

  /** The sequence that the request belongs to; a new one has a slot or is in the backlog. */
  #sequenceFor(pending: PendingRequest, flags: SequenceFlags): Sequence {
    const { correlationId } = flags;
    const known = this.#byId.get(correlationId);
    if (this.#state === 'destroyed') throw this.#stopping(pending);
    if (known !== undefined && !known.isClosed) return known;
    if (!flags.start) {
      throw invalidArg(
        `inference request for sequence ${correlationId} to model '${this.#options.modelName}' ` +
          'must specify the START flag on the first request of the sequence',
      );
    }
    if (this.#state !== 'open') throw this.#stopping(pending);
    const sequence = new Sequence(
      correlationId,
      this.#rows.controls.correlationIdTensors(correlationId),
      this.#implicitState.initial,
      known,
    );
    this.#byId.set(correlationId, sequence);
    this.#sequences.add(sequence);
    this.#backlog.add(sequence);
    this.#assignBacklog();
    return sequence;
  }

  #stopped(): InferenceServerError {
    return unavailable(`model '${this.#options.modelName}' was stopped before the request ran`);
  }

  #stopping(pending: PendingRequest): InferenceServerError {
    return unavailable(
      `${requestIdPrefix(pending)}model '${this.#options.modelName}' is stopping and takes no new ` +
        'sequences',
    );
  }

  /** Gives free slots to the backlog: lowest slot first, so that instances fill evenly. */
  #assignBacklog(): void {
    for (const sequence of this.#backlog) {
      const lane = this.#laneWithLowestSlot();
      if (lane === undefined) return;
      if (sequence.unfinishedElder !== undefined) continue;
      sequence.predecessor = undefined;
      this.#backlog.delete(sequence);
      sequence.lane = lane;
      lane.admit(sequence);
      this.#noteActivity(sequence, this.#clock.nowNs());
      lane.notice(sequence);
    }
  }

  #laneWithLowestSlot(): SequenceLane | undefined {
    let best: SequenceLane | undefined;
    let bestSlot = Number.POSITIVE_INFINITY;
    for (const lane of this.#lanes) {
      const slot = lane.firstFreeSlot;
      if (slot !== undefined && slot < bestSlot) {
        best = lane;
        bestSlot = slot;
      }
    }
    return best;
  }

  #noteArrival(sequence: Sequence, pending: PendingRequest, nowNs: number): void {
    if (sequence.lane !== undefined) {
      this.#noteActivity(sequence, nowNs);
      return;
    }
    const { timeoutUs } = pending.request;
    if (timeoutUs === 0) return;
    sequence.deadlineNs = Math.min(sequence.deadlineNs, nowNs + timeoutUs * 1000);
    this.#alarm.wakeBy(sequence.deadlineNs);
  }

  #noteActivity(sequence: Sequence, nowNs: number): void {
    if (sequence.isClosed) return;
    sequence.lastArrivalNs = nowNs;
    this.#bySilence.delete(sequence);
    this.#bySilence.add(sequence);
    this.#alarm.wakeBy(nowNs + this.#options.idleNs);
  }

  #close(sequence: Sequence): void {
    sequence.isClosed = true;
    this.#bySilence.delete(sequence);
  }

  /** Takes the first waiting request of `sequence` and makes what the instance gets in its place. */
  #startNext(sequence: Sequence): PendingRequest {
    const entry = sequence.waiting.first;
    if (entry === undefined) throw internal('sequence without a request; this is a bug');
    sequence.waiting.remove(entry);
    this.#waiting -= 1;
    const origin = entry.pending;
    const given = origin.request.sequence;
    const { isIterative } = this.#options;
    const start = isIterative ? !sequence.hasStarted : given?.start === true;
    const end = !isIterative && given?.end === true;
    if (start) sequence.state = this.#implicitState.initial;
    sequence.hasStarted = true;
    const request = {
      ...origin.request,
      sequence: { correlationId: sequence.correlationId, start, end },
      // A state must come back as it is, to go in again.
      prefersJsonText: origin.request.prefersJsonText && !this.#implicitState.isUsed,
    };
    const inputs = this.#rows.modelInputs(origin.modelInputs, { start, end }, sequence);
    const relayed = relayRequest(origin, request, inputs, {
      respond: (response) => {
        if (!this.#implicitState.isUsed) {
          origin.respond(response);
          return;
        }
        sequence.state = this.#implicitState.next(sequence.state, response.outputs);
        const { requestedOutputs } = origin.request;
        const outputs = this.#implicitState.visible(response.outputs, requestedOutputs);
        origin.respond({ ...response, outputs });
      },
      complete: () => {
        this.#afterEnd(sequence);
        origin.complete();
      },
      fail: (error, outcome) => {
        this.#afterEnd(sequence);
        origin.fail(error, outcome);
      },
    });
    origin.state = 'executing';
    origin.onCancel = () => this.#cancel(sequence, origin);
    if (isIterative) relayed.onReschedule = () => this.#reschedule(sequence, entry);
    sequence.inFlight = relayed;
    return relayed;
  }

  #reschedule(sequence: Sequence, entry: QueuedRequest): void {
    const origin = entry.pending;
    if (origin.isCancelled || this.#state === 'destroyed') {
      this.#afterEnd(sequence);
      if (origin.isCancelled) origin.fail(cancelled('request was cancelled'), 'CANCELED');
      else origin.fail(this.#stopped(), 'OTHER');
      return;
    }
    origin.state = 'queued';
    sequence.waiting.unshift(entry);
    this.#waiting += 1;
    sequence.isHeld = origin.isPaused;
    origin.onFlow = () => {
      sequence.isHeld = origin.isPaused;
      if (!sequence.isHeld) sequence.lane?.notice(sequence);
    };
    this.#afterEnd(sequence);
  }

  #afterEnd(sequence: Sequence): void {
    sequence.inFlight = undefined;
    if (sequence.isClosed && sequence.waiting.size === 0) this.#finish(sequence);
    else sequence.lane?.notice(sequence);
  }

  #finish(sequence: Sequence): void {
    sequence.isFinished = true;
    this.#close(sequence);
    this.#sequences.delete(sequence);
    this.#backlog.delete(sequence);
    if (this.#byId.get(sequence.correlationId) === sequence) {
      // Cancelled before its turn: the one before it is the newest again.
      const elder = sequence.unfinishedElder;
      if (elder !== undefined) this.#byId.set(sequence.correlationId, elder);
      else this.#byId.delete(sequence.correlationId);
    }
    sequence.lane?.release(sequence);
    this.#assignBacklog();
  }

  #cancel(sequence: Sequence, pending: PendingRequest): void {
    this.#close(sequence);
    const running = sequence.inFlight;
    this.#failWaiting(
      sequence,
      cancelled(`sequence was cancelled with its request '${pending.request.id}'`),
      'CANCELED',
    );
    if (running === undefined) this.#finish(sequence);
    else running.cancel();
  }

  #failWaiting(sequence: Sequence, error: InferenceServerError, outcome: FailureOutcome): void {
    for (let entry = sequence.waiting.first; entry !== undefined; entry = sequence.waiting.first) {
      sequence.waiting.remove(entry);
      this.#waiting -= 1;
      entry.pending.fail(error, outcome);
    }
  }

  #onAlarm(): void {
    const nowNs = this.#clock.nowNs();
    for (const sequence of this.#bySilence) {
      const idleAtNs = sequence.lastArrivalNs + this.#options.idleNs;
      if (idleAtNs > nowNs) {
        this.#alarm.wakeBy(idleAtNs);
        break;
      }
      this.#close(sequence);
      if (sequence.inFlight === undefined && sequence.waiting.size === 0) this.#finish(sequence);
    }
    for (const sequence of this.#backlog) {
      if (sequence.deadlineNs > nowNs) {
        this.#alarm.wakeBy(sequence.deadlineNs);
        continue;
      }
      const error = unavailable('timeout of the corresponding sequence has been expired');
      this.#finish(sequence);
      this.#failWaiting(sequence, error, 'REJECTED');
    }
  }
}
