import { type InferenceServerError, internal } from '../errors.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import type {
  InferenceHandle,
  InferenceResponse,
  ResponseHandler,
} from '../inference/infer-response.js';
import type { Outcome } from '../inference/outcome.js';
import type { RequestTiming } from '../inference/request-timing.js';
import type { Tensor } from '../inference/tensor.js';

/**
 * ```
 *            enqueue            dequeue               respond* complete | fail
 *   queued ────────▶ (in queue) ───────▶ executing ──────────────────────────▶ settled
 *      └── fail (timeout, cancel, refused, shutting down) ───────────────────────┘
 * ```
 * `settled` is final. Whoever holds the request calls `complete` or `fail` exactly once; a second
 * call is a bug and throws.
 */
export type PendingState = 'queued' | 'executing' | 'settled';

/** A request between its arrival and its end, as schedulers and executors pass it on. */
export class PendingRequest implements InferenceHandle {
  readonly request: InferenceRequest;
  /** Rows that this request adds to a batch; 1 for a model that does not batch. */
  readonly rows: number;
  readonly timing: RequestTiming;
  /** Inputs as the model sees them: reshaped, completed with control and state tensors. */
  modelInputs: readonly Tensor[];
  state: PendingState = 'queued';
  /** Set by the caller's `cancel`; whoever dequeues it fails it instead of running it. */
  isCancelled = false;
  /** Called once when the client cancels while the request is owned by a scheduler or executor. */
  onCancel: (() => void) | undefined = undefined;
  /** True while a slow reader holds a decoupled model back. */
  isPaused = false;
  /** Called when `isPaused` has changed while the request is executing. */
  onFlow: (() => void) | undefined = undefined;
  /**
   * Set by the scheduler that accepted the request; called once when it settles, before its
   * handler hears of it, so that the scheduler's counts are right when the caller reacts.
   */
  onEnd: ((request: PendingRequest) => void) | undefined = undefined;
  /** Set by a scheduler that runs a request again when its model asks for it. */
  onReschedule: (() => void) | undefined = undefined;

  readonly #handler: ResponseHandler;
  readonly #onSettled: (request: PendingRequest, outcome: Outcome) => void;

  constructor(
    request: InferenceRequest,
    rows: number,
    modelInputs: readonly Tensor[],
    timing: RequestTiming,
    handler: ResponseHandler,
    onSettled: (request: PendingRequest, outcome: Outcome) => void,
  ) {
    this.request = request;
    this.rows = rows;
    this.modelInputs = modelInputs;
    this.timing = timing;
    this.#handler = handler;
    this.#onSettled = onSettled;
  }

  respond(response: InferenceResponse): void {
    if (this.state === 'settled') throw internal('response after the end; this is a bug');
    this.#handler.respond(response);
  }

  complete(outcome: 'SUCCESS' | 'CACHE_HIT' = 'SUCCESS'): void {
    this.#settle(outcome);
    this.#handler.complete();
  }

  /**
   * `SUCCESS` where the execution was sound and the model itself answered this request with an
   * error: the reference server counts it so.
   */
  fail(error: InferenceServerError, outcome: Exclude<Outcome, 'CACHE_HIT'>): void {
    this.#settle(outcome);
    this.#handler.fail(error);
  }

  /**
   * In the place of `complete`: the model wants this request once more (iterative sequences). The
   * holder must not touch it afterwards; the scheduler runs it anew.
   */
  reschedule(): void {
    const { onEnd, onReschedule } = this;
    if (this.state === 'settled' || onReschedule === undefined) {
      throw internal('request cannot be rescheduled; this is a bug');
    }
    this.state = 'settled';
    this.#clearHooks();
    onEnd?.(this);
    onReschedule();
  }

  /** Idempotent; the holder reacts through `onCancel` or at its next look. */
  cancel(): void {
    if (this.state === 'settled' || this.isCancelled) return;
    this.isCancelled = true;
    this.onCancel?.();
  }

  pause(): void {
    this.#setPaused(true);
  }

  resume(): void {
    this.#setPaused(false);
  }

  #setPaused(isPaused: boolean): void {
    if (this.state === 'settled' || this.isPaused === isPaused) return;
    this.isPaused = isPaused;
    this.onFlow?.();
  }

  #settle(outcome: Outcome): void {
    if (this.state === 'settled') throw internal('request settled twice; this is a bug');
    this.state = 'settled';
    const { onEnd } = this;
    this.#clearHooks();
    this.#onSettled(this, outcome);
    onEnd?.(this);
  }

  #clearHooks(): void {
    this.onCancel = undefined;
    this.onFlow = undefined;
    this.onEnd = undefined;
    this.onReschedule = undefined;
  }
}
