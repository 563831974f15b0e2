import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ExecutionRequest, ExecutionResponse } from '../src/backends/backend.js';
import { internal } from '../src/errors.js';
import type { ErrorMessage, RequestMessage, ResponseMessage } from '../src/execution/messages.js';
import type { Parameters } from '../src/inference/infer-request.js';
import { noParameters } from '../src/inference/infer-request.js';
import type { Tensor } from '../src/inference/tensor.js';

/** Where a request's streamed answers go. */
export interface ResponseSink {
  /** Packs and sends one notice of the request. */
  sendResponse(
    request: HostedRequest,
    response: ExecutionResponse | undefined,
    error: ErrorMessage | undefined,
    isFinal: boolean,
  ): void;
  /** Resolves when the main thread has kept up and the next one may be sent. */
  untilRoom(): Promise<void>;
}

/** A request as an instance sees it, and the thread's side of its stream. */
export class HostedRequest implements ExecutionRequest {
  readonly id: string;
  readonly head: object;
  readonly parameters: Parameters;
  readonly timeoutUs: number;
  readonly priority: number;
  readonly requestedOutputs: readonly string[];
  readonly correlationId: bigint | string;
  readonly isSequenceStart: boolean;
  readonly isSequenceEnd: boolean;
  readonly inputs: readonly Tensor[];
  readonly prefersJsonText: boolean;
  readonly executionId: number;
  readonly requestIndex: number;
  hasEnded = false;
  #hasFailed = false;
  readonly #sink: ResponseSink;
  /** Made when somebody asks for it: most models never do. */
  #abort: AbortController | undefined;
  #isCancelled = false;
  #isPaused = false;
  #onResume: (() => void)[] = [];

  constructor(
    { head, id }: RequestMessage,
    inputs: readonly Tensor[],
    executionId: number,
    requestIndex: number,
    sink: ResponseSink,
  ) {
    this.id = id;
    // Text was decoded for each by itself.
    this.head = head.inputs.some(({ encoding }) => encoding === 'json') ? this : head;
    this.parameters = head.parameters.length === 0 ? noParameters : new Map(head.parameters);
    this.timeoutUs = head.timeoutUs;
    this.priority = head.priority;
    this.requestedOutputs = head.requestedOutputs;
    this.correlationId = head.correlationId;
    this.isSequenceStart = (head.flags & 1) !== 0;
    this.isSequenceEnd = (head.flags & 2) !== 0;
    this.prefersJsonText = head.prefersJsonText;
    this.inputs = inputs;
    this.executionId = executionId;
    this.requestIndex = requestIndex;
    this.#sink = sink;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#isCancelled) this.#abort.abort();
    }
    return this.#abort.signal;
  }

  async send(response: ExecutionResponse): Promise<void> {
    // The caller has its error, which ends every answer; what the model adds has no reader.
    if (this.#hasFailed) return;
    this.#refuseAfterEnd();
    this.#sink.sendResponse(this, response, undefined, false);
    // A model that sends in a loop must let the port be heard: a pause or a cancellation.
    await nextTurn();
    await this.#sink.untilRoom();
    while (this.#isPaused && !this.#isCancelled) {
      await new Promise<void>((resolve) => this.#onResume.push(resolve));
    }
  }

  sendError(error: ErrorMessage): void {
    if (this.#hasFailed) return;
    this.#refuseAfterEnd();
    this.hasEnded = true;
    this.#hasFailed = true;
    this.#sink.sendResponse(this, undefined, error, true);
  }

  end(): void {
    // An error has ended the request already; saying so again is no fault.
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.#sink.sendResponse(this, undefined, undefined, true);
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#abort?.abort();
    this.#wake();
  }

  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused;
    if (!isPaused) this.#wake();
  }

  #wake(): void {
    const waiting = this.#onResume;
    this.#onResume = [];
    for (const resolve of waiting) resolve();
  }

  #refuseAfterEnd(): void {
    if (this.hasEnded) throw internal(`a response was sent after the request's last one`);
  }
}

/** `response` with its outputs replaced by their place in a message's buffer. */
export function toResponseMessage(
  response: ExecutionResponse,
  outputs: ResponseMessage['outputs'],
): ResponseMessage {
  return { outputs, parameters: response.parameters.size === 0 ? [] : [...response.parameters] };
}
