import type { InferenceServerError } from '../errors.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import type { InferenceResponse } from '../inference/infer-response.js';
import type { Outcome } from '../inference/outcome.js';
import type { Tensor } from '../inference/tensor.js';
import { PendingRequest } from './pending-request.js';

/** How a request may end that does not complete. */
export type FailureOutcome = Exclude<Outcome, 'CACHE_HIT'>;

/** Hears what a relayed request does; settles the request that it runs in the place of. */
export interface RelayListener {
  respond(response: InferenceResponse): void;
  complete(): void;
  fail(error: InferenceServerError, outcome: FailureOutcome): void;
}

/**
 * A request that runs in the place of `origin`, so that a scheduler can see, hold or change the
 * answers before `origin` gets them. The two share their stamps; cancelling and pausing reach the
 * relayed one through `origin`.
 */
export function relayRequest(
  origin: PendingRequest,
  request: InferenceRequest,
  modelInputs: readonly Tensor[],
  listener: RelayListener,
): PendingRequest {
  let outcome: FailureOutcome = 'OTHER';
  const relayed = new PendingRequest(
    request,
    origin.rows,
    modelInputs,
    origin.timing,
    {
      respond: (response) => listener.respond(response),
      complete: () => listener.complete(),
      fail: (error) => listener.fail(error, outcome),
    },
    (_, settledAs) => {
      if (settledAs !== 'CACHE_HIT') outcome = settledAs;
    },
  );
  relayed.isCancelled = origin.isCancelled;
  relayed.isPaused = origin.isPaused;
  origin.onCancel = () => relayed.cancel();
  origin.onFlow = () => {
    if (origin.isPaused) relayed.pause();
    else relayed.resume();
  };
  return relayed;
}
