import { nowNs } from '../clock.js';
import { internal } from '../errors.js';
import { fromErrorMessage } from '../execution/error-transfer.js';
import type { ErrorMessage, ResponseMessage } from '../execution/messages.js';
import type {
  ResponseNotice,
  StreamCommand,
  StreamListener,
} from '../execution/model-instances.js';
import type { PendingRequest } from '../scheduling/pending-request.js';
import type { ExecutionRecorder, ResponseEvent } from './execution-recorder.js';

/** The two ends of a stream of responses: its instance and its requests. */
export interface StreamOptions {
  readonly isDecoupled: boolean;
  send(command: StreamCommand): void;
  /** Hands one response to its request. */
  respond(pending: PendingRequest, message: ResponseMessage, buffer: ArrayBuffer): void;
  readonly recorder: ExecutionRecorder;
}

interface Progress {
  responses: number;
  /** When the former response came, or the execution started. */
  sinceNs: number;
  /** The only response of a model that is not decoupled; passed on at its end. */
  held: ResponseNotice | undefined;
}

/**
 * The requests of one execution whose responses may come one by one. Cancelling and pausing a
 * request reach its instance from here.
 */
export class StreamedBatch implements StreamListener {
  readonly #batch: readonly PendingRequest[];
  readonly #options: StreamOptions;
  readonly #progress: readonly Progress[];
  readonly #startNs = nowNs();

  constructor(executionId: number, batch: readonly PendingRequest[], options: StreamOptions) {
    this.#batch = batch;
    this.#options = options;
    this.#progress = batch.map(() => ({
      responses: 0,
      sinceNs: this.#startNs,
      held: undefined,
    }));
    for (const [requestIndex, pending] of batch.entries()) {
      const send = (type: StreamCommand['type']): void =>
        options.send({ type, executionId, requestIndex });
      pending.onCancel = () => send('cancel');
      pending.onFlow = () => send(pending.isPaused ? 'pause' : 'resume');
      if (pending.isCancelled) queueMicrotask(() => send('cancel'));
      if (pending.isPaused) queueMicrotask(() => send('pause'));
    }
  }

  onResponse(notice: ResponseNotice): void {
    const pending = this.#batch[notice.requestIndex];
    const progress = this.#progress[notice.requestIndex];
    if (pending === undefined || progress === undefined || pending.state === 'settled') return;
    if (this.#options.isDecoupled) this.#pass(pending, progress, notice);
    else this.#collect(pending, progress, notice);
  }

  onLost(error: ErrorMessage): void {
    const failure = fromErrorMessage(error);
    for (const pending of this.#batch) {
      if (pending.state !== 'settled') pending.fail(failure, 'BACKEND');
    }
  }

  /** A decoupled model has answered a request by its execution's reply, once. */
  recordSingle(requestIndex: number, pending: PendingRequest, hasFailed: boolean): void {
    const progress = this.#progress[requestIndex];
    if (progress === undefined || !this.#options.isDecoupled) return;
    this.#record(pending, progress, hasFailed ? 'fail' : 'success');
  }

  #pass(pending: PendingRequest, progress: Progress, notice: ResponseNotice): void {
    if (notice.response !== undefined) {
      this.#options.respond(pending, notice.response, notice.buffer);
      this.#record(pending, progress, 'success');
    }
    if (notice.error !== undefined) {
      this.#record(pending, progress, 'fail');
      this.#stampStart(pending);
      pending.fail(fromErrorMessage(notice.error), 'SUCCESS');
    } else if (notice.isFinal) {
      if (notice.response === undefined) {
        this.#record(pending, progress, pending.isCancelled ? 'cancel' : 'empty_response');
      }
      this.#stampStart(pending);
      pending.complete();
    }
  }

  /** One response is due; none or several are the model's error. */
  #collect(pending: PendingRequest, progress: Progress, notice: ResponseNotice): void {
    if (notice.error !== undefined) {
      pending.fail(fromErrorMessage(notice.error), 'SUCCESS');
      return;
    }
    if (notice.response !== undefined) {
      progress.responses += 1;
      progress.held = notice;
    }
    if (!notice.isFinal) return;
    const { held, responses } = progress;
    if (responses !== 1 || held?.response === undefined) {
      pending.fail(internal(`expected a single response, got ${responses}`), 'BACKEND');
      return;
    }
    this.#options.respond(pending, held.response, held.buffer);
    this.#stampStart(pending);
    pending.complete();
  }

  /** A request may end before its execution's reply brings the stamps. */
  #stampStart(pending: PendingRequest): void {
    const { timing } = pending;
    if (timing.computeStartNs !== 0) return;
    timing.computeStartNs = this.#startNs;
    timing.computeInputEndNs = this.#startNs;
    const endNs = nowNs();
    timing.computeOutputStartNs = endNs;
    timing.computeEndNs = endNs;
  }

  #record(pending: PendingRequest, progress: Progress, kind: ResponseEvent['kind']): void {
    const now = nowNs();
    const { computeStartNs } = pending.timing;
    const sinceNs =
      progress.responses === 0 && computeStartNs !== 0 ? computeStartNs : progress.sinceNs;
    this.#options.recorder.responded({
      index: progress.responses,
      kind,
      computeInferNs: Math.max(0, now - sinceNs),
      computeOutputNs: 0,
    });
    progress.responses += 1;
    progress.sinceNs = now;
  }
}
