import type { Clock } from '../clock.js';
import { cancelled, type InferenceServerError, unavailable } from '../errors.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import type { InferenceHandle, ResponseHandler } from '../inference/infer-response.js';

/**
 * A request whose model is being loaded. It ends by itself when its timeout passes or its client
 * gives up; else whoever loads the model starts or fails it.
 */
export class WaitingRequest implements InferenceHandle {
  readonly #request: InferenceRequest;
  readonly #handler: ResponseHandler;
  readonly #stopTimer: () => void;
  #hasEnded = false;
  #isPaused = false;
  #running: InferenceHandle | undefined = undefined;

  constructor(request: InferenceRequest, handler: ResponseHandler, clock: Clock) {
    this.#request = request;
    this.#handler = handler;
    const { timeoutUs, modelName } = request;
    this.#stopTimer =
      timeoutUs === 0
        ? () => {}
        : clock.setTimer(timeoutUs * 1000, () =>
            this.fail(
              unavailable(`Request timeout expired while model '${modelName}' was loading`),
            ),
          );
  }

  /** `infer` runs the request, unless it has ended. */
  start(infer: (request: InferenceRequest, handler: ResponseHandler) => InferenceHandle): void {
    if (this.#hasEnded) return;
    this.#stopTimer();
    this.#hasEnded = true;
    const running = infer(this.#request, this.#handler);
    this.#running = running;
    if (this.#isPaused) running.pause();
  }

  fail(error: InferenceServerError): void {
    if (this.#hasEnded) return;
    this.#stopTimer();
    this.#hasEnded = true;
    this.#handler.fail(error);
  }

  cancel(): void {
    if (this.#running !== undefined) this.#running.cancel();
    else this.fail(cancelled('request was cancelled while its model was loading'));
  }

  pause(): void {
    this.#isPaused = true;
    this.#running?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#running?.resume();
  }
}
