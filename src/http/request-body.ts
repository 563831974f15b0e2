import type { Logger } from '../observability/logger.js';
import { replyError, replyRefusal } from './replies.js';
import { jsonHeads } from './reply-head.js';
import type { BodyLimits, BodyReceiver, BodyRefusal, Exchange } from './transport.js';

/**
 * Non-empty chunks of one chunked body. The reference server takes as many; each costs a call, and
 * once cost its stack (CVE-2025-23310).
 */
export const chunksMax = 65_536;

/** Reads a whole body for a handler whose work begins with it. What `use` throws is answered. */
export function readBody(
  exchange: Exchange,
  limits: BodyLimits,
  logger: Logger,
  use: (body: Uint8Array) => void | Promise<void>,
): void {
  exchange.collectBody(limits, 0, new BodyReader(exchange, logger, use));
}

class BodyReader implements BodyReceiver {
  readonly #exchange: Exchange;
  readonly #logger: Logger;
  readonly #use: (body: Uint8Array) => void | Promise<void>;

  constructor(exchange: Exchange, logger: Logger, use: (body: Uint8Array) => void | Promise<void>) {
    this.#exchange = exchange;
    this.#logger = logger;
    this.#use = use;
  }

  receiveBody(body: Uint8Array): void {
    const fail = (thrown: unknown): void => {
      replyError(this.#exchange, jsonHeads, thrown, this.#logger);
    };
    try {
      this.#use(body)?.catch(fail);
    } catch (thrown) {
      fail(thrown);
    }
  }

  refuseBody(refusal: BodyRefusal): void {
    replyRefusal(this.#exchange, refusal);
  }

  abortBody(): void {
    // Nothing was started yet.
  }
}
