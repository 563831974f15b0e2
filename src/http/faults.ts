import { toInferenceServerError } from '../errors.js';
import { errorBody } from '../protocol/error-status.js';
import { textHeads } from './reply-head.js';
import type { Exchange } from './transport.js';

/**
 * Runs a piece of a handler. Handlers answer their own errors; what leaves one is a fault of ours,
 * and an exception that reached the carrier would end the process.
 */
export function answerFaults(exchange: Exchange, run: () => void): void {
  try {
    run();
  } catch (thrown) {
    exchange.reply(textHeads(500), errorBody(toInferenceServerError(thrown, 'internal error')));
  }
}
