import { type ErrorCode, InferenceServerError, internal } from '../../src/errors.js';
import type { InferenceRequest, Parameters } from '../../src/inference/infer-request.js';
import type { InferenceHandle, ResponseHandler } from '../../src/inference/infer-response.js';
import type { Tensor } from '../../src/inference/tensor.js';

/** One request that an ensemble sent to a member, to be answered by the test. */
export class MemberCall {
  readonly request: InferenceRequest;
  readonly #handler: ResponseHandler;
  isCancelled = false;
  isPaused = false;

  constructor(request: InferenceRequest, handler: ResponseHandler) {
    this.request = request;
    this.#handler = handler;
  }

  respond(outputs: readonly Tensor[], parameters: Parameters = new Map()): void {
    const { modelName, id } = this.request;
    this.#handler.respond({ modelName, modelVersion: '1', id, parameters, outputs });
  }

  complete(): void {
    this.#handler.complete();
  }

  /** The one response of a model that is not decoupled. */
  answer(outputs: readonly Tensor[], parameters: Parameters = new Map()): void {
    this.respond(outputs, parameters);
    this.complete();
  }

  fail(code: ErrorCode, message: string): void {
    this.#handler.fail(new InferenceServerError(code, message));
  }
}

/** Members that wait for the test's answers, or answer at once by `automatic`. */
export class FakeMembers {
  readonly calls: MemberCall[] = [];
  /** Answers calls from within `infer`, as a cache hit or a refusal does; false leaves it open. */
  automatic: (call: MemberCall) => boolean = () => false;

  readonly infer = (request: InferenceRequest, handler: ResponseHandler): InferenceHandle => {
    const call = new MemberCall(request, handler);
    this.calls.push(call);
    this.automatic(call);
    return {
      cancel: () => {
        call.isCancelled = true;
      },
      pause: () => {
        call.isPaused = true;
      },
      resume: () => {
        call.isPaused = false;
      },
    };
  };

  /** The calls' models, in order. */
  get models(): readonly string[] {
    return this.calls.map(({ request }) => request.modelName);
  }

  call(index: number): MemberCall {
    const call = this.calls[index];
    if (call === undefined) throw internal(`no call ${index}`);
    return call;
  }
}
