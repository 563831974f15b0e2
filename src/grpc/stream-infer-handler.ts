import { type InferenceServerError, internal, unavailable } from '../errors.js';
import type {
  InferenceHandle,
  InferenceResponse,
  ResponseHandler,
} from '../inference/infer-response.js';
import type { Logger } from '../observability/logger.js';
import type { HeaderSource } from '../protocol/forwarded-headers.js';
import { type InferMessage, readInferMessage } from '../protocol/infer-message-proto.js';
import {
  encodeEmptyFinalResponse,
  encodeStreamError,
  encodeStreamResponse,
} from '../protocol/infer-response-proto.js';
import type { StreamCall, StreamHandler } from './calls.js';
import { type InferDeps, type PreparedInfer, prepareInfer } from './infer-handler.js';
import { toCallError } from './status.js';

/**
 * Bytes of responses that a stream keeps for a client that does not read them. From then on models
 * wait and no more requests are read, until half of them have gone.
 */
const unsentBytesMax = 1_048_576;

/** What a message takes of that beside its bytes: many small ones are slow to get rid of, too. */
const messageBytes = 1024;

/** Requests of one stream under way; more are not read until some have ended. */
const outstandingMax = 1024;

/** `ModelStreamInfer`. */
export class StreamInferHandler {
  readonly #deps: InferDeps;
  readonly #logger: Logger;

  constructor(deps: InferDeps, logger: Logger) {
    this.#deps = deps;
    this.#logger = logger;
  }

  /** `refusal` is why the client may not infer: each of its requests is answered with it. */
  open(call: StreamCall, refusal: InferenceServerError | undefined): StreamHandler {
    return new InferStream(call, refusal, this.#deps, this.#logger);
  }
}

/** What an {@link InferStream} is to its requests. */
interface StreamOutput {
  readonly isPaused: boolean;
  send(message: Uint8Array): void;
  /** The request has said its last; in the order of the requests it may not be its turn yet. */
  settle(request: StreamRequest): void;
  /** Gives the answer to a failed request: a message, unless the client wants the call to end. */
  describeFailure(thrown: unknown, id: string): Uint8Array;
}

/**
 * One client's stream of requests to any models. Responses of decoupled models leave as they come;
 * all other answers, failures included, leave in the order of their requests.
 */
class InferStream implements StreamHandler, StreamOutput {
  isPaused = false;
  readonly #call: StreamCall;
  readonly #refusal: InferenceServerError | undefined;
  readonly #deps: InferDeps;
  readonly #logger: Logger;
  /** Ends the call with the first failure, instead of telling it in a message. */
  readonly #endsWithFailure: boolean;
  readonly #outstanding = new Set<StreamRequest>();
  /** Those whose answer has a place in the order. */
  readonly #ordered: StreamRequest[] = [];
  #unsentBytes = 0;
  #isReadingPaused = false;
  #hasHalfClosed = false;
  #hasEnded = false;
  #isDraining = false;

  constructor(
    call: StreamCall,
    refusal: InferenceServerError | undefined,
    deps: InferDeps,
    logger: Logger,
  ) {
    this.#call = call;
    this.#refusal = refusal;
    this.#deps = deps;
    this.#logger = logger;
    this.#endsWithFailure = asksForStatus(call.headers);
  }

  onMessage(bytes: Uint8Array): void {
    if (this.#hasEnded) return;
    let message: InferMessage;
    try {
      message = readInferMessage(bytes);
    } catch (thrown) {
      // Without a message there is no request to answer.
      this.#fail(thrown);
      return;
    }
    const request = new StreamRequest(message, this);
    this.#outstanding.add(request);
    let prepared: PreparedInfer;
    try {
      if (this.#refusal !== undefined) throw this.#refusal;
      if (this.#isDraining) throw shuttingDown();
      prepared = prepareInfer(message, this.#call.headers, this.#deps);
    } catch (thrown) {
      this.#ordered.push(request);
      request.fail(toCallError(thrown, 'ModelStreamInfer', this.#logger));
      return;
    }
    if (!prepared.model.isDecoupled) this.#ordered.push(request);
    request.start(prepared, this.#deps);
    this.#balanceReading();
  }

  onHalfClose(): void {
    this.#hasHalfClosed = true;
    this.#endWhenDone();
  }

  onCancel(): void {
    this.#hasEnded = true;
    this.#cancelAll();
  }

  onDrain(): void {
    this.#isDraining = true;
    this.#endWhenDone();
  }

  send(message: Uint8Array): void {
    if (this.#hasEnded) return;
    const unsentBytes = message.byteLength + messageBytes;
    this.#unsentBytes += unsentBytes;
    this.#call.send(message, () => {
      this.#unsentBytes -= unsentBytes;
      if (this.isPaused && this.#unsentBytes <= unsentBytesMax / 2) this.#setPaused(false);
    });
    if (!this.isPaused && this.#unsentBytes > unsentBytesMax) this.#setPaused(true);
  }

  settle(settled: StreamRequest): void {
    if (!this.#ordered.includes(settled)) this.#outstanding.delete(settled);
    for (let first = this.#ordered[0]; first?.isSettled; first = this.#ordered[0]) {
      this.#ordered.shift();
      this.#outstanding.delete(first);
      if (first.answer !== undefined) this.send(first.answer);
    }
    this.#balanceReading();
    this.#endWhenDone();
  }

  describeFailure(thrown: unknown, id: string): Uint8Array {
    const error = toCallError(thrown, 'ModelStreamInfer', this.#logger);
    if (this.#endsWithFailure) this.#fail(error);
    return encodeStreamError(error.message, id);
  }

  #fail(thrown: unknown): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#call.fail(thrown);
    this.#cancelAll();
  }

  #cancelAll(): void {
    for (const request of [...this.#outstanding]) request.cancel();
  }

  #setPaused(isPaused: boolean): void {
    this.isPaused = isPaused;
    for (const request of this.#outstanding) request.setPaused(isPaused);
    this.#balanceReading();
  }

  #balanceReading(): void {
    const isPaused = this.isPaused || this.#outstanding.size >= outstandingMax;
    if (isPaused === this.#isReadingPaused) return;
    this.#isReadingPaused = isPaused;
    if (isPaused) this.#call.pauseReading();
    else this.#call.resumeReading();
  }

  #endWhenDone(): void {
    if (this.#hasEnded || this.#outstanding.size > 0) return;
    if (this.#hasHalfClosed) {
      this.#hasEnded = true;
      this.#call.end();
    } else if (this.#isDraining) {
      this.#fail(shuttingDown());
    }
  }
}

/** One request of a stream, from its message to its last response. */
class StreamRequest implements ResponseHandler {
  /** True when nothing follows any more. */
  isSettled = false;
  /** What a request whose answer has a place in the order says when it is its turn. */
  answer: Uint8Array | undefined = undefined;
  readonly #message: InferMessage;
  readonly #output: StreamOutput;
  #prepared: PreparedInfer | undefined = undefined;
  #deps: InferDeps | undefined = undefined;
  #handle: InferenceHandle | undefined = undefined;
  #isCancelled = false;

  constructor(message: InferMessage, output: StreamOutput) {
    this.#message = message;
    this.#output = output;
  }

  start(prepared: PreparedInfer, deps: InferDeps): void {
    this.#prepared = prepared;
    this.#deps = deps;
    const handle = deps.server.infer(prepared.request, this);
    this.#handle = handle;
    // The model may have answered, and the client have gone or stalled, while `infer` ran.
    if (this.#isCancelled) handle.cancel();
    else if (this.#output.isPaused) handle.pause();
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#handle?.cancel();
  }

  setPaused(isPaused: boolean): void {
    if (isPaused) this.#handle?.pause();
    else this.#handle?.resume();
  }

  respond(response: InferenceResponse): void {
    const prepared = this.#prepared;
    if (this.#isCancelled || prepared === undefined || this.#deps === undefined) return;
    const { form, model, regions } = prepared;
    const isFinal = !model.isDecoupled;
    let message: Uint8Array;
    try {
      const known = regions ?? this.#deps.regions;
      message = encodeStreamResponse(response, isFinal, form, model, known);
    } catch (thrown) {
      message = this.#output.describeFailure(thrown, this.#message.id);
    }
    if (isFinal) this.answer = message;
    else this.#output.send(message);
  }

  complete(): void {
    const { id, modelName, modelVersion } = this.#message;
    const prepared = this.#prepared;
    if (prepared?.model.isDecoupled === false && this.answer === undefined) {
      this.answer = this.#describe(internal('expected a single response, got 0'));
    } else if (prepared?.model.isDecoupled && prepared.wantsEmptyFinalResponse) {
      this.#output.send(encodeEmptyFinalResponse({ id, modelName, modelVersion }));
    }
    this.#settle();
  }

  fail(error: InferenceServerError): void {
    const answer = this.#describe(error);
    if (this.#prepared?.model.isDecoupled) this.#output.send(answer);
    else this.answer = answer;
    this.#settle();
  }

  #describe(error: InferenceServerError): Uint8Array {
    return this.#output.describeFailure(error, this.#message.id);
  }

  #settle(): void {
    this.#handle = undefined;
    this.#prepared?.regions?.release();
    this.isSettled = true;
    this.#output.settle(this);
  }
}

/** The header by which a client wants failures as the call's status. */
function asksForStatus(headers: HeaderSource): boolean {
  let isAsked = false;
  headers.visitHeaders((name, value) => {
    if (name === 'triton_grpc_error' && value === 'true') isAsked = true;
  });
  return isAsked;
}

function shuttingDown(): InferenceServerError {
  return unavailable('GRPC server is shutting down and has stopped accepting new requests.');
}
