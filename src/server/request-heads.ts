import type { RequestHead, TensorMessage } from '../execution/messages.js';
import { haveEqualItems } from '../execution/tensor-transfer.js';
import type { InferenceRequest } from '../inference/infer-request.js';

/** Makes the heads of one execution's requests, and the same one for equal requests in a row. */
export class RequestHeads {
  readonly #outputsFor: (requestedOutputs: readonly string[]) => readonly string[];
  #former: { readonly request: InferenceRequest; readonly head: RequestHead } | undefined;

  /** `outputsFor` gives the outputs that a model has to make where a request asks for some. */
  constructor(outputsFor: (requestedOutputs: readonly string[]) => readonly string[]) {
    this.#outputsFor = outputsFor;
  }

  /** `inputs` are the same object for requests whose inputs differ in nothing but their bytes. */
  of(request: InferenceRequest, inputs: readonly TensorMessage[]): RequestHead {
    const former = this.#former;
    if (former !== undefined && former.head.inputs === inputs && areLike(request, former.request)) {
      return former.head;
    }
    const { sequence, parameters, timeoutUs, priority, prefersJsonText } = request;
    const head: RequestHead = {
      parameters: parameters.size === 0 ? [] : [...parameters],
      correlationId: sequence?.correlationId ?? 0n,
      flags: (sequence?.start ? 1 : 0) | (sequence?.end ? 2 : 0),
      timeoutUs,
      priority,
      requestedOutputs: this.#outputsFor(request.requestedOutputs),
      prefersJsonText,
      inputs,
    };
    this.#former = { request, head };
    return head;
  }
}

/** False also where finding out would cost more than a head of one's own. */
function areLike(request: InferenceRequest, former: InferenceRequest): boolean {
  return (
    request.parameters.size === 0 &&
    former.parameters.size === 0 &&
    request.sequence === undefined &&
    former.sequence === undefined &&
    request.timeoutUs === former.timeoutUs &&
    request.priority === former.priority &&
    request.prefersJsonText === former.prefersJsonText &&
    haveEqualItems(request.requestedOutputs, former.requestedOutputs)
  );
}
