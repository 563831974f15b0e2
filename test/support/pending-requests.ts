import type { InferenceServerError } from '../../src/errors.js';
import { type InferenceRequest, noParameters } from '../../src/inference/infer-request.js';
import type { InferenceResponse } from '../../src/inference/infer-response.js';
import type { Outcome } from '../../src/inference/outcome.js';
import { startTiming } from '../../src/inference/request-timing.js';
import type { Tensor } from '../../src/inference/tensor.js';
import { PendingRequest } from '../../src/scheduling/pending-request.js';

/** A request with nothing special about it; `fields` replace what a test cares for. */
export function inferenceRequest(fields: Partial<InferenceRequest>): InferenceRequest {
  return {
    modelName: 'm',
    modelVersion: '',
    id: '',
    parameters: noParameters,
    priority: 0,
    timeoutUs: 0,
    sequence: undefined,
    inputs: [],
    requestedOutputs: [],
    prefersJsonText: false,
    ...fields,
  };
}

/** What a client saw of its request, in order. */
export interface ObservedRequest {
  readonly pending: PendingRequest;
  readonly responses: InferenceResponse[];
  /** Undefined while under way. */
  end:
    | {
        readonly error: InferenceServerError | undefined;
        readonly outcome: Outcome;
      }
    | undefined;
}

/** A pending request whose client writes down what happens; `onEnd` hears of the end. */
export function observedRequest(
  fields: Partial<InferenceRequest>,
  rows = 1,
  onEnd: (observed: ObservedRequest) => void = () => {},
): ObservedRequest {
  const request = inferenceRequest(fields);
  let outcome: Outcome = 'OTHER';
  const responses: InferenceResponse[] = [];
  const end = (error: InferenceServerError | undefined): void => {
    observed.end = { error, outcome };
    onEnd(observed);
  };
  const pending = new PendingRequest(
    request,
    rows,
    request.inputs,
    startTiming(0),
    {
      respond: (response) => responses.push(response),
      complete: () => end(undefined),
      fail: (error) => end(error),
    },
    (_, settledAs) => {
      outcome = settledAs;
    },
  );
  const observed: ObservedRequest = { pending, responses, end: undefined };
  return observed;
}

/** A tensor with `values` as 32-bit integers. */
export function int32Tensor(
  name: string,
  shape: readonly number[],
  values: readonly number[],
): Tensor {
  const bytes = new Uint8Array(Int32Array.from(values).buffer);
  return { name, datatype: 'INT32', shape, encoding: 'raw', bytes };
}
