import { type InferenceServerError, toInferenceServerError } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import { errorBody, httpStatusOf } from '../protocol/error-status.js';
import { jsonHeads, type ReplyHead, type ReplyHeads, withField } from './reply-head.js';
import type { BodyRefusal, Exchange } from './transport.js';

export const emptyBody = new Uint8Array(0);
export const notFoundBody = errorBody({ message: 'Not Found' });
export const methodNotAllowedBody = errorBody({ message: 'Method Not Allowed' });

/** Answers with what was thrown. What is not ours reaches the log whole and the client not at all. */
export function replyError(
  exchange: Exchange,
  heads: ReplyHeads,
  thrown: unknown,
  logger: Logger,
): void {
  const error = toInferenceServerError(thrown, 'internal error');
  if (error !== thrown) {
    const detail = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
    logger.error(`${exchange.method} ${exchange.path}: ${detail}`);
  }
  exchange.reply(errorHead(heads, error), errorBody(error));
}

/** Status and headers that tell of `error`. */
export function errorHead(heads: ReplyHeads, error: InferenceServerError): ReplyHead {
  const head = heads(httpStatusOf[error.code]);
  const { retryAfterSecs } = error;
  return retryAfterSecs === undefined ? head : withField(head, 'Retry-After', `${retryAfterSecs}`);
}

export function replyJson(exchange: Exchange, body: Uint8Array): void {
  exchange.reply(jsonHeads(200), body);
}

const howToRaise = 'Use --http-max-input-size to increase the limit.';

/** Answers a body that is not read to its end, and closes the connection with it. */
export function replyRefusal(exchange: Exchange, refusal: BodyRefusal): void {
  const head =
    refusal.reason === 'no-memory-for-uploads'
      ? withField(jsonHeads(503), 'Retry-After', '1')
      : jsonHeads(400);
  exchange.replyAndClose(head, errorBody({ message: refusalText(refusal) }));
}

function refusalText(refusal: BodyRefusal): string {
  switch (refusal.reason) {
    case 'too-many-bytes':
      return `request JSON size of ${refusal.bytes} bytes exceeds the maximum allowed input size of ${refusal.bytesMax} bytes. ${howToRaise}`;
    case 'too-many-chunks':
      return `Chunked request body exceeds maximum of ${refusal.chunksMax} non-empty chunks. Send fewer and larger chunks, or a Content-Length.`;
    case 'no-memory-for-uploads':
      return 'too many bytes are being uploaded at once, try again later';
  }
}
