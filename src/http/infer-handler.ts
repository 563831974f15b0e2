import { InferenceServerError, internal, invalidArg, unsupported } from '../errors.js';
import type { InferenceRequest, ParameterValue } from '../inference/infer-request.js';
import type {
  InferenceHandle,
  InferenceResponse,
  ResponseHandler,
} from '../inference/infer-response.js';
import type { Logger } from '../observability/logger.js';
import { EnvelopeCache } from '../protocol/envelope-cache.js';
import { errorBody } from '../protocol/error-status.js';
import type { ForwardedHeaders } from '../protocol/forwarded-headers.js';
import { type InferLimits, parseInferRequest } from '../protocol/infer-request-json.js';
import { encodeInferResponse } from '../protocol/infer-response-json.js';
import { parseRawRequest } from '../protocol/raw-request.js';
import type { ResponseForm } from '../protocol/response-form.js';
import type { InferenceServer, ServedModel } from '../server/inference-server.js';
import type { HeldRegions, SharedMemoryRegistry } from '../server/shared-memory.js';
import {
  type ContentEncoding,
  chooseEncoding,
  compressBody,
  inflateBody,
  parseContentEncoding,
} from './content-encoding.js';
import { emptyBody, replyError, replyRefusal } from './replies.js';
import { BinaryHeads, jsonHeads, makeReplyHead, type ReplyHead, textHeads } from './reply-head.js';
import { chunksMax } from './request-body.js';
import type { RouteTarget } from './route-target.js';
import type {
  BodyLimits,
  BodyReceiver,
  BodyRefusal,
  Exchange,
  ExchangeWatcher,
} from './transport.js';

export interface InferHandlerDeps {
  readonly server: InferenceServer;
  readonly regions: SharedMemoryRegistry;
  readonly forwardedHeaders: ForwardedHeaders;
  readonly logger: Logger;
}

/** A binary section may be this many times as long as what `--http-max-input-size` allows JSON. */
const binaryFactor = 4;

const unsupportedEncodingHead = makeReplyHead(501, 'text/plain', [
  ['Accept-Encoding', 'gzip, deflate'],
]);
const unsupportedEncodingBody = errorBody({ message: 'Unsupported compression type' });

/** POST `.../infer`. */
export class InferHandler {
  readonly deps: InferHandlerDeps;
  readonly limits: InferLimits;
  readonly envelopes = new EnvelopeCache();
  readonly binaryHeads = new BinaryHeads();
  readonly #jsonBodyLimits: BodyLimits;
  readonly #binaryBodyLimits: BodyLimits;

  constructor(deps: InferHandlerDeps, inputBytesMax: number) {
    this.deps = deps;
    this.limits = { inputBytesMax };
    this.#jsonBodyLimits = { bytesMax: inputBytesMax, chunksMax };
    this.#binaryBodyLimits = { bytesMax: inputBytesMax * (1 + binaryFactor), chunksMax };
  }

  /** Throws what is wrong before the body is looked at; answers the rest itself. */
  handle(exchange: Exchange, target: RouteTarget): void {
    const model = this.deps.server.servedModel(target.modelName, target.modelVersion);
    if (model.isDecoupled) {
      throw unsupported("HTTP end point doesn't support models with decoupled transaction policy");
    }
    const contentEncoding = parseContentEncoding(exchange.header('content-encoding'));
    if (contentEncoding === undefined) {
      exchange.reply(unsupportedEncodingHead, unsupportedEncodingBody);
      return;
    }
    const headerLength = exchange.header('inference-header-content-length');
    const jsonByteLength =
      headerLength === '' ? lengthOfEmptyHeader(exchange) : parseHeaderLength(headerLength);
    const call = new InferCall(this, exchange, target, model, {
      contentEncoding,
      acceptEncoding: chooseEncoding(exchange.header('accept-encoding')),
      headerLength,
      jsonByteLength,
      forwarded: this.deps.forwardedHeaders.select(exchange),
    });
    const limits = (jsonByteLength ?? 0) > 0 ? this.#binaryBodyLimits : this.#jsonBodyLimits;
    exchange.collectBody(limits, jsonByteLength ?? 0, call);
  }
}

/** What the headers of an infer request say. */
interface InferHeaders {
  readonly contentEncoding: ContentEncoding;
  readonly acceptEncoding: ContentEncoding;
  readonly headerLength: string;
  /** Undefined where the header is absent: all is JSON. */
  readonly jsonByteLength: number | undefined;
  readonly forwarded: ReadonlyMap<string, string> | undefined;
}

/** One infer request from its headers to its answer. */
class InferCall implements BodyReceiver, ExchangeWatcher, ResponseHandler {
  readonly #handler: InferHandler;
  readonly #exchange: Exchange;
  readonly #target: RouteTarget;
  readonly #model: ServedModel;
  readonly #headers: InferHeaders;
  #form: ResponseForm | undefined = undefined;
  #body: Uint8Array = emptyBody;
  /** Of the outputs that go to shared memory. */
  #regions: HeldRegions | undefined = undefined;
  #handle: InferenceHandle | undefined = undefined;
  #response: InferenceResponse | undefined = undefined;
  #responseCount = 0;
  /** Errors until the request is queued are answered as JSON, later ones as text, as upstream. */
  #isQueued = false;

  constructor(
    handler: InferHandler,
    exchange: Exchange,
    target: RouteTarget,
    model: ServedModel,
    headers: InferHeaders,
  ) {
    this.#handler = handler;
    this.#exchange = exchange;
    this.#target = target;
    this.#model = model;
    this.#headers = headers;
  }

  receiveBody(body: Uint8Array): void {
    // A raw request cannot be read before its model's inputs are known.
    const loading =
      this.#headers.jsonByteLength === 0
        ? this.#handler.deps.server.whenServed(this.#target.modelName)
        : undefined;
    if (loading === undefined) this.#receive(body);
    else
      loading.then(
        () => this.#receive(body),
        (error: unknown) => this.#fail(error),
      );
  }

  #receive(body: Uint8Array): void {
    if (this.#exchange.isAborted) return;
    const { contentEncoding } = this.#headers;
    if (contentEncoding === 'identity') {
      this.#infer(body);
      return;
    }
    inflateBody(body, contentEncoding, this.#handler.limits.inputBytesMax, (inflated) => {
      if (this.#exchange.isAborted) return;
      if (inflated instanceof InferenceServerError) this.#fail(inflated);
      else if (inflated !== undefined) this.#infer(inflated);
      else if (this.#model.config.input.length === 1) {
        this.#fail(invalidArg(`the request body is not ${contentEncoding} data`));
      } else {
        // The reference server goes on with an empty body, whose error names the model's inputs.
        this.#infer(emptyBody);
      }
    });
  }

  refuseBody(refusal: BodyRefusal): void {
    replyRefusal(this.#exchange, refusal);
  }

  abortBody(): void {
    // Nothing was started yet.
  }

  onAbort(): void {
    this.#handle?.cancel();
  }

  onDrain(): void {
    // The answer is handed over whole; the carrier keeps what is left.
  }

  respond(response: InferenceResponse): void {
    this.#responseCount += 1;
    this.#response = response;
  }

  complete(): void {
    const response = this.#response;
    this.#response = undefined;
    this.#handle = undefined;
    try {
      if (response === undefined || this.#responseCount !== 1) {
        throw internal(`expected a single response, got ${this.#responseCount}`);
      }
      this.#reply(response);
    } catch (thrown) {
      this.#isQueued = true;
      this.#fail(thrown);
    }
    this.#regions?.release();
    this.#recycleBody();
  }

  fail(error: InferenceServerError): void {
    this.#response = undefined;
    this.#handle = undefined;
    this.#regions?.release();
    this.#fail(error);
  }

  #infer(body: Uint8Array): void {
    this.#body = body;
    try {
      const request = this.#parse(body);
      this.#exchange.watch(this);
      const handle = this.#handler.deps.server.infer(request, this);
      this.#isQueued = true;
      this.#handle = handle;
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  #parse(body: Uint8Array): InferenceRequest {
    const { jsonByteLength, headerLength, forwarded } = this.#headers;
    const { limits, deps, envelopes } = this.#handler;
    const length = jsonByteLength ?? body.length;
    if (length < 0 || length > body.length) {
      // Answered before the body is read as JSON, hence as text.
      this.#isQueued = true;
      throw invalidArg(
        `inference header size should be in range (0, ${body.byteLength}), got: ${headerLength.trim()}`,
      );
    }
    const parsed =
      length === 0
        ? parseRawRequest(this.#target, body, this.#model.config, limits)
        : parseInferRequest(this.#target, body, length, limits, deps.regions, envelopes);
    this.#form = parsed.responseForm;
    this.#regions = holdOutputRegions(parsed.responseForm, deps.regions);
    return forwarded === undefined ? parsed.request : withParameters(parsed.request, forwarded);
  }

  #reply(response: InferenceResponse): void {
    const form = this.#form;
    if (form === undefined) throw internal('a response before its request; this is a bug');
    const { deps, binaryHeads } = this.#handler;
    const exchange = this.#exchange;
    const { jsonByteLength, parts, byteLength } = encodeInferResponse(
      response,
      form,
      this.#model,
      this.#regions ?? deps.regions,
    );
    const head = jsonByteLength === undefined ? jsonHeads(200) : binaryHeads.get(jsonByteLength);
    const encoding = this.#headers.acceptEncoding;
    if (encoding === 'identity') {
      exchange.replyParts(head, parts, byteLength, response.release);
      return;
    }
    compressBody(parts, byteLength, encoding, (compressed) => {
      if (compressed === undefined) exchange.replyParts(head, parts, byteLength, response.release);
      else exchange.reply(withContentEncoding(head, encoding), compressed);
    });
  }

  /**
   * An execution copies what it takes of a body, and has taken all when it has ended well. Steps of
   * an ensemble may go on after that, and an inflated body is not the exchange's.
   */
  #recycleBody(): void {
    const body = this.#body;
    this.#body = emptyBody;
    const { contentEncoding } = this.#headers;
    if (contentEncoding !== 'identity' || this.#model.config.ensemble_scheduling) return;
    this.#exchange.recycleBody(body);
  }

  #fail(thrown: unknown): void {
    const heads = this.#isQueued ? textHeads : jsonHeads;
    replyError(this.#exchange, heads, thrown, this.#handler.deps.logger);
  }
}

/** As C's strtol reads the header: leading digits count, anything else is 0 (a raw request). */
function parseHeaderLength(text: string): number {
  let value = 0;
  for (let index = 0; index < text.length; index += 1) {
    const digit = text.charCodeAt(index) - 0x30;
    // Plain digits are all that clients send; the rest is left to the slow way.
    if (digit < 0 || digit > 9) return parseOddLength(text);
    value = value * 10 + digit;
  }
  return value;
}

function parseOddLength(text: string): number {
  const digits = /^\s*[+-]?\d+/.exec(text);
  return digits === null ? 0 : Number(digits[0]);
}

/**
 * 0 where the header is there and empty, undefined where it is absent. Telling them apart takes a
 * walk over all headers, which only binary clients can need.
 */
function lengthOfEmptyHeader(exchange: Exchange): number | undefined {
  if (exchange.header('content-type') !== 'application/octet-stream') return undefined;
  let length: number | undefined;
  exchange.visitHeaders((name) => {
    if (name === 'inference-header-content-length') length = 0;
  });
  return length;
}

function holdOutputRegions(
  form: ResponseForm,
  regions: SharedMemoryRegistry,
): HeldRegions | undefined {
  if (form.outputs.size === 0) return undefined;
  const names: string[] = [];
  for (const { sharedMemory } of form.outputs.values()) {
    if (sharedMemory !== undefined) names.push(sharedMemory.region);
  }
  return names.length === 0 ? undefined : regions.hold(names);
}

function withParameters(
  request: InferenceRequest,
  more: ReadonlyMap<string, string>,
): InferenceRequest {
  const parameters = new Map<string, ParameterValue>([...request.parameters, ...more]);
  return { ...request, parameters };
}

function withContentEncoding(head: ReplyHead, encoding: string): ReplyHead {
  const [[, contentType] = ['', ''], ...others] = head.fields;
  return makeReplyHead(200, contentType, [...others, ['Content-Encoding', encoding]]);
}
