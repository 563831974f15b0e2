import { type InferenceServerError, invalidArg } from '../errors.js';
import type {
  InferenceHandle,
  InferenceResponse,
  ResponseHandler,
} from '../inference/infer-response.js';
import type { Logger } from '../observability/logger.js';
import { errorBody } from '../protocol/error-status.js';
import {
  generateEvent,
  generateResponseBody,
  notOneResponse,
  parseGenerateRequest,
} from '../protocol/generate-json.js';
import type { InferLimits } from '../protocol/infer-request-json.js';
import type { InferenceServer, ServedModel } from '../server/inference-server.js';
import { parseContentEncoding } from './content-encoding.js';
import { errorHead, replyError, replyJson, replyRefusal } from './replies.js';
import { eventStreamHeads, jsonHeads } from './reply-head.js';
import { chunksMax } from './request-body.js';
import type { RouteTarget } from './route-target.js';
import type { BodyReceiver, BodyRefusal, Exchange, ExchangeWatcher } from './transport.js';

interface GenerateDeps {
  readonly server: InferenceServer;
  readonly logger: Logger;
  readonly limits: InferLimits;
}

/** POST `.../generate` and `.../generate_stream`. */
export class GenerateHandler {
  readonly #deps: GenerateDeps;

  constructor(deps: GenerateDeps) {
    this.#deps = deps;
  }

  generate(exchange: Exchange, target: RouteTarget): void {
    this.#start(exchange, target, new WholeAnswer(exchange));
  }

  generateStream(exchange: Exchange, target: RouteTarget): void {
    this.#start(exchange, target, new StreamAnswer(exchange));
  }

  #start(exchange: Exchange, target: RouteTarget, answer: Answer): void {
    const model = this.#deps.server.servedModel(target.modelName, target.modelVersion);
    if (parseContentEncoding(exchange.header('content-encoding')) !== 'identity') {
      throw invalidArg('Unsupported compression type');
    }
    const bytesMax = this.#deps.limits.inputBytesMax;
    const call = new GenerateCall(this.#deps, exchange, target, model, answer);
    exchange.collectBody({ bytesMax, chunksMax }, 0, call);
  }
}

/** What becomes of a model's responses. */
interface Answer {
  /** False where the client cannot take more for now. */
  add(body: Uint8Array): boolean;
  end(): void;
  /** Errors of the model: 400 with every code, as upstream. */
  fail(body: Uint8Array): void;
}

/** One JSON object. */
class WholeAnswer implements Answer {
  readonly #exchange: Exchange;
  #body: Uint8Array | undefined = undefined;
  #count = 0;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  add(body: Uint8Array): boolean {
    this.#body ??= body;
    this.#count += 1;
    return true;
  }

  end(): void {
    const isOne = this.#body !== undefined && this.#count === 1;
    replyJson(this.#exchange, isOne && this.#body ? this.#body : errorBody(notOneResponse));
  }

  fail(body: Uint8Array): void {
    this.#exchange.reply(jsonHeads(400), body);
  }
}

/** Server-sent events, one a response. */
class StreamAnswer implements Answer {
  readonly #exchange: Exchange;
  #isStarted = false;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  add(body: Uint8Array): boolean {
    this.#start(200);
    return this.#exchange.writeChunk(generateEvent(body));
  }

  end(): void {
    this.#start(200);
    this.#exchange.endChunks();
  }

  fail(body: Uint8Array): void {
    this.#start(400);
    this.#exchange.writeChunk(generateEvent(body));
    this.#exchange.endChunks();
  }

  #start(status: number): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.#exchange.startChunks(eventStreamHeads(status));
  }
}

/** One generate request from its headers to its last response. */
class GenerateCall implements BodyReceiver, ExchangeWatcher, ResponseHandler {
  readonly #deps: GenerateDeps;
  readonly #exchange: Exchange;
  readonly #target: RouteTarget;
  readonly #model: ServedModel;
  readonly #answer: Answer;
  #handle: InferenceHandle | undefined = undefined;
  #isQueued = false;
  #isPaused = false;
  #isAborted = false;

  constructor(
    deps: GenerateDeps,
    exchange: Exchange,
    target: RouteTarget,
    model: ServedModel,
    answer: Answer,
  ) {
    this.#deps = deps;
    this.#exchange = exchange;
    this.#target = target;
    this.#model = model;
    this.#answer = answer;
  }

  receiveBody(body: Uint8Array): void {
    // A request cannot be read before its model's inputs are known.
    const loading = this.#deps.server.whenServed(this.#target.modelName);
    if (loading === undefined) {
      this.#infer(body);
      return;
    }
    loading.then(
      () => this.#infer(body),
      (error: unknown) => replyError(this.#exchange, jsonHeads, error, this.#deps.logger),
    );
  }

  #infer(body: Uint8Array): void {
    if (this.#exchange.isAborted) return;
    const { server, limits, logger } = this.#deps;
    try {
      const request = parseGenerateRequest(this.#target, body, this.#model.config, limits);
      this.#exchange.watch(this);
      const handle = server.infer(request, this);
      this.#isQueued = true;
      this.#handle = handle;
      // The model may have answered, and the client have gone, while `infer` ran.
      if (this.#isAborted) handle.cancel();
      else if (this.#isPaused) handle.pause();
    } catch (thrown) {
      replyError(this.#exchange, jsonHeads, thrown, logger);
    }
  }

  refuseBody(refusal: BodyRefusal): void {
    replyRefusal(this.#exchange, refusal);
  }

  abortBody(): void {
    // Nothing was started yet.
  }

  onAbort(): void {
    this.#isAborted = true;
    this.#handle?.cancel();
  }

  onDrain(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#handle?.resume();
  }

  respond(response: InferenceResponse): void {
    if (this.#isAborted) return;
    if (this.#answer.add(generateResponseBody(response)) || this.#isPaused) return;
    this.#isPaused = true;
    this.#handle?.pause();
  }

  complete(): void {
    this.#handle = undefined;
    this.#answer.end();
  }

  fail(error: InferenceServerError): void {
    this.#handle = undefined;
    if (this.#isQueued) this.#answer.fail(errorBody(error));
    else this.#exchange.reply(errorHead(jsonHeads, error), errorBody(error));
  }
}
