import type { Logger } from '../observability/logger.js';
import { JsonText } from '../protocol/json-scanner.js';
import { replyError, replyRefusal } from './replies.js';
import type { ReplyHeads } from './reply-head.js';
import type { BodyLimits, BodyReceiver, BodyRefusal, Exchange } from './transport.js';

/**
 * Non-empty chunks of one chunked body. The reference server takes as many; each costs a call, and
 * once cost its stack (CVE-2025-23310).
 */
export const chunksMax = 65_536;

/** Reads a whole body for a handler whose work begins with it. What `use` throws is answered. */
export class BodyReader implements BodyReceiver {
  readonly #exchange: Exchange;
  readonly #heads: ReplyHeads;
  readonly #logger: Logger;
  readonly #use: (body: Uint8Array) => void | Promise<void>;

  constructor(
    exchange: Exchange,
    heads: ReplyHeads,
    logger: Logger,
    use: (body: Uint8Array) => void | Promise<void>,
  ) {
    this.#exchange = exchange;
    this.#heads = heads;
    this.#logger = logger;
    this.#use = use;
  }

  start(limits: BodyLimits): void {
    this.#exchange.collectBody(limits, 0, this);
  }

  receiveBody(body: Uint8Array): void {
    try {
      this.#use(body)?.catch((thrown: unknown) => this.#fail(thrown));
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  refuseBody(refusal: BodyRefusal): void {
    replyRefusal(this.#exchange, refusal);
  }

  abortBody(): void {
    // Nothing was started yet.
  }

  #fail(thrown: unknown): void {
    replyError(this.#exchange, this.#heads, thrown, this.#logger);
  }
}

/** The body as checked JSON; undefined where it is empty. Throws INVALID_ARG. */
export function parseOptionalJson(body: Uint8Array): JsonText | undefined {
  return body.byteLength === 0 ? undefined : new JsonText(body, body.byteLength);
}

/** Offset of a member of the document, negative where it is not there or no object holds it. */
export function findMember(json: JsonText, name: string): number {
  return json.kind(json.root) === 'object' ? json.find(json.root, name) : -1;
}
