import { internal } from '../errors.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import type {
  InferenceHandle,
  InferenceResponse,
  ResponseHandler,
} from '../inference/infer-response.js';
import type { CallingInstance, ModelCall } from '../inference/model-call.js';
import { toErrorMessage } from './error-transfer.js';
import type { ErrorMessage, InstanceCommand, InstanceNotice, RequestHead } from './messages.js';
import type { HostServices } from './model-instances.js';
import { packTensors, unpackTensors } from './tensor-transfer.js';

export type PostCommand = (command: InstanceCommand, transfer: readonly ArrayBuffer[]) => void;

type InferNotice = Extract<InstanceNotice, { readonly type: 'infer' }>;
type ControlNotice = Extract<InstanceNotice, { readonly type: 'control' }>;

const sequenceStartFlag = 1;
const sequenceEndFlag = 2;

const noCalls: readonly ModelCall[] = [];

/** What an instance is at. */
export class InstanceWork implements CallingInstance {
  name = '';
  isExecuting = false;
  answering: readonly ModelCall[] = noCalls;

  begin(answering: readonly ModelCall[]): void {
    this.isExecuting = true;
    this.answering = answering;
  }

  end(): void {
    this.isExecuting = false;
    this.answering = noCalls;
  }
}

/** The calls that one instance's model has under way to other models (business logic scripting). */
export class ModelCalls {
  readonly #services: HostServices;
  readonly #post: PostCommand;
  readonly #caller: CallingInstance;
  readonly #running = new Map<number, InferenceHandle>();

  constructor(services: HostServices, post: PostCommand, caller: CallingInstance) {
    this.#services = services;
    this.#post = post;
    this.#caller = caller;
  }

  infer(notice: InferNotice): void {
    const reply = new CallReply(notice, this.#post, () => this.#running.delete(notice.callId));
    const handle = this.#services.callModel(toRequest(notice), reply, this.#caller);
    if (!reply.hasEnded) this.#running.set(notice.callId, handle);
  }

  cancel(callId: number): void {
    this.#running.get(callId)?.cancel();
  }

  /** The calling thread has ended: nobody waits for its calls any more. */
  cancelAll(): void {
    for (const handle of [...this.#running.values()]) handle.cancel();
    this.#running.clear();
  }

  async control(notice: ControlNotice): Promise<void> {
    let isReady = true;
    let error: ErrorMessage | undefined;
    try {
      isReady = await this.#controlled(notice);
    } catch (thrown) {
      error = toErrorMessage(thrown);
    }
    this.#post({ type: 'control-result', callId: notice.callId, isReady, error }, []);
  }

  async #controlled(notice: ControlNotice): Promise<boolean> {
    const { action, modelName, modelVersion } = notice;
    switch (action) {
      case 'load':
        await this.#services.loadModel(modelName, notice.config, notice.files);
        return true;
      case 'unload':
        await this.#services.unloadModel(modelName);
        return true;
      case 'is-ready':
        return this.#services.isModelReady(modelName, modelVersion);
    }
  }
}

/** Carries the answers of a called model back to the thread that called it. */
class CallReply implements ResponseHandler {
  hasEnded = false;
  readonly #call: InferNotice;
  readonly #post: PostCommand;
  readonly #onEnd: () => void;
  /** The only response of a call that expects one; sent together with the end. */
  #held: InferenceResponse | undefined;
  #responses = 0;

  constructor(call: InferNotice, post: PostCommand, onEnd: () => void) {
    this.#call = call;
    this.#post = post;
    this.#onEnd = onEnd;
  }

  respond(response: InferenceResponse): void {
    this.#responses += 1;
    if (this.#call.isDecoupled) this.#send(response, undefined, false);
    else this.#held = response;
  }

  complete(): void {
    if (this.#call.isDecoupled) this.#end(undefined, undefined);
    else if (this.#responses === 1) this.#end(this.#held, undefined);
    else this.fail(internal(`expected a single response, got ${this.#responses}`));
  }

  fail(error: Error): void {
    this.#end(undefined, toErrorMessage(error));
  }

  #end(response: InferenceResponse | undefined, error: ErrorMessage | undefined): void {
    this.hasEnded = true;
    this.#send(response, error, true);
    this.#onEnd();
  }

  #send(
    response: InferenceResponse | undefined,
    error: ErrorMessage | undefined,
    isFinal: boolean,
  ): void {
    const { buffer, tensors } = packTensors(response?.outputs ?? []);
    this.#post(
      {
        type: 'infer-result',
        callId: this.#call.callId,
        buffer,
        response: response && {
          outputs: tensors,
          parameters: [...response.parameters],
        },
        modelName: response?.modelName ?? this.#call.modelName,
        modelVersion: response?.modelVersion ?? this.#call.modelVersion,
        error,
        isFinal,
      },
      [buffer],
    );
  }
}

function toRequest(notice: InferNotice): InferenceRequest {
  const { request, buffer } = notice;
  return {
    modelName: notice.modelName,
    modelVersion: notice.modelVersion,
    id: notice.id,
    parameters: new Map(request.parameters),
    priority: request.priority,
    timeoutUs: request.timeoutUs,
    sequence: sequenceOf(request),
    inputs: unpackTensors(request.inputs, buffer),
    requestedOutputs: request.requestedOutputs,
    prefersJsonText: false,
  };
}

function sequenceOf(request: RequestHead): InferenceRequest['sequence'] {
  const { correlationId, flags } = request;
  const start = (flags & sequenceStartFlag) !== 0;
  const end = (flags & sequenceEndFlag) !== 0;
  const hasId = correlationId !== 0n && correlationId !== '';
  return hasId || start || end ? { correlationId, start, end } : undefined;
}
