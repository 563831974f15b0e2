import type { InferenceServerError } from '../errors.js';
import type { Parameters } from './infer-request.js';
import type { Tensor } from './tensor.js';

/** One answer of a model. A decoupled model gives zero or more of them for a request. */
export interface InferenceResponse {
  readonly modelName: string;
  /** The version that ran. */
  readonly modelVersion: string;
  /** The request's id, '' when it had none. */
  readonly id: string;
  readonly parameters: Parameters;
  readonly outputs: readonly Tensor[];
  /**
   * To be called once when the outputs are not read any more: their memory then serves others. Who
   * does not know that nobody else reads them leaves it alone.
   */
  readonly release?: () => void;
}

/**
 * Where the answers to one request go. Calls come in this order and nothing follows the end:
 * `respond`* then exactly one of `complete` and `fail`. A request to a model that is not decoupled
 * gets exactly one `respond` before `complete`.
 *
 * Methods are called synchronously, must not throw, and own nothing: outputs may be views into a
 * buffer shared with neighbours of the batch, valid for as long as they are referenced. They are
 * never views of the inputs, whose memory may serve another request after `complete`, except those
 * of an ensemble.
 */
export interface ResponseHandler {
  respond(response: InferenceResponse): void;
  complete(): void;
  fail(error: InferenceServerError): void;
}

/** Hands on everything, and calls `ended` before the end. */
export function tellEnd(handler: ResponseHandler, ended: () => void): ResponseHandler {
  return {
    respond: (response) => handler.respond(response),
    complete() {
      ended();
      handler.complete();
    },
    fail(error) {
      ended();
      handler.fail(error);
    },
  };
}

/** What the caller of `infer` keeps of a request under way. */
export interface InferenceHandle {
  /**
   * The client no longer wants the answer. Queued work is dropped and fails with CANCELLED;
   * running work is told. After the end this does nothing.
   */
  cancel(): void;
  /**
   * A slow reader of a stream holds its producer back: while paused, a decoupled model's next
   * responses wait. Does nothing for other models.
   */
  pause(): void;
  resume(): void;
}

/** Of a request that has ended already. */
export const endedHandle: InferenceHandle = { cancel() {}, pause() {}, resume() {} };
