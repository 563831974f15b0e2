import type { ErrorMessage } from '../../execution/messages.js';
import type { ExecutionRequest, ExecutionResponse } from '../backend.js';

/** Responses after which the model is told that they left: a quarter of what it may send ahead. */
const creditStep = 8;

interface OpenStream {
  readonly request: ExecutionRequest;
  /** Responses that left since the model was told. */
  departed: number;
}

/** Requests of decoupled models that have not ended, by execution and index. */
export class OpenStreams {
  readonly #streams = new Map<string, OpenStream>();
  readonly #sendCredit: (executionId: number, requestIndex: number, count: number) => void;

  constructor(sendCredit: (executionId: number, requestIndex: number, count: number) => void) {
    this.#sendCredit = sendCredit;
  }

  open(executionId: number, requests: readonly ExecutionRequest[]): void {
    for (const [index, request] of requests.entries()) {
      this.#streams.set(keyOf(executionId, index), { request, departed: 0 });
    }
  }

  /** Does nothing for a stream that has ended. */
  respond(executionId: number, requestIndex: number, response: ExecutionResponse): void {
    const stream = this.#streams.get(keyOf(executionId, requestIndex));
    if (stream === undefined) return;
    stream.request.send(response).then(
      () => {
        stream.departed += 1;
        if (stream.departed < creditStep) return;
        this.#sendCredit(executionId, requestIndex, stream.departed);
        stream.departed = 0;
      },
      (error: unknown) => {
        // An output of the wrong size, for one: it ends this stream and no other.
        const message = error instanceof Error ? error.message : String(error);
        this.fail(executionId, requestIndex, { code: 'INTERNAL', message });
      },
    );
  }

  end(executionId: number, requestIndex: number): void {
    const key = keyOf(executionId, requestIndex);
    this.#streams.get(key)?.request.end();
    this.#streams.delete(key);
  }

  fail(executionId: number, requestIndex: number, error: ErrorMessage): void {
    const key = keyOf(executionId, requestIndex);
    const stream = this.#streams.get(key);
    if (stream === undefined) return;
    this.#streams.delete(key);
    stream.request.sendError(error);
    stream.request.end();
  }

  /** Forgets a stream whose request goes on in another execution. */
  release(executionId: number, requestIndex: number): void {
    this.#streams.delete(keyOf(executionId, requestIndex));
  }

  /** Ends those of one execution with an error. */
  failExecution(executionId: number, requestCount: number, error: ErrorMessage): void {
    for (let index = 0; index < requestCount; index += 1) this.fail(executionId, index, error);
  }

  failAll(error: ErrorMessage): void {
    for (const { request } of this.#streams.values()) {
      request.sendError(error);
      request.end();
    }
    this.#streams.clear();
  }

  /** Undefined for a stream that has ended. */
  signal(executionId: number, requestIndex: number): AbortSignal | undefined {
    return this.#streams.get(keyOf(executionId, requestIndex))?.request.signal;
  }
}

function keyOf(executionId: number, requestIndex: number): string {
  return `${executionId}:${requestIndex}`;
}
