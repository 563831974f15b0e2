import type { ResponseHandler } from '../inference/infer-response.js';
import type { Outcome } from '../inference/outcome.js';
import type { Tensor } from '../inference/tensor.js';
import { PendingRequest } from './pending-request.js';

/**
 * A request that runs in the place of `origin`, so that a scheduler can see, hold or change the
 * answers before `origin` gets them: `handler` hears them instead and must settle `origin`. The two
 * share their stamps; cancelling and pausing reach the relayed one through `origin`.
 */
export function relayRequest(
  origin: PendingRequest,
  modelInputs: readonly Tensor[],
  handler: ResponseHandler,
  onSettled: (request: PendingRequest, outcome: Outcome) => void,
): PendingRequest {
  const relayed = new PendingRequest(
    origin.request,
    origin.rows,
    modelInputs,
    origin.timing,
    handler,
    onSettled,
  );
  relayed.isCancelled = origin.isCancelled;
  relayed.isPaused = origin.isPaused;
  origin.onCancel = () => relayed.cancel();
  origin.onFlow = () => {
    relayed.isPaused = origin.isPaused;
    relayed.onFlow?.();
  };
  return relayed;
}
