import { type InferenceServerError, toInferenceServerError } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import { grpcStatusOf } from '../protocol/error-status.js';

/** How a call ends that did not end well. */
export interface CallStatus {
  readonly code: number;
  readonly details: string;
}

/** Codes of statuses that no error of ours has. */
export const statusCode = {
  ok: 0,
  deadlineExceeded: 4,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
} as const;

/**
 * Bytes of details after percent-encoding. They travel in a header, and clients refuse headers
 * from 8 KiB on: an answer that long would reach nobody, whatever its status.
 */
export const detailsBytesMax = 6144;

/** What the client gets of something thrown. What is not ours goes to the log whole. */
export function toCallError(thrown: unknown, path: string, logger: Logger): InferenceServerError {
  const error = toInferenceServerError(thrown, 'internal error');
  if (error !== thrown) {
    const detail = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
    logger.error(`${path}: ${detail}`);
  }
  return error;
}

export function toCallStatus(error: InferenceServerError): CallStatus {
  return { code: grpcStatusOf[error.code], details: headerText(error.message) };
}

/** `text` as a status can carry it: without lone surrogates, which cannot be encoded, and short. */
function headerText(text: string): string {
  const details = wellFormed(text);
  if (encodeURI(details).length <= detailsBytesMax) return details;
  const fits = (length: number): boolean =>
    encodeURI(beginning(details, length)).length <= detailsBytesMax;
  // The longest beginning that fits, found by bisection.
  let length = 0;
  for (let step = detailsBytesMax; step >= 1; step = Math.floor(step / 2)) {
    while (length + step < details.length && fits(length + step)) length += step;
  }
  return beginning(details, length);
}

function beginning(text: string, length: number): string {
  return `${wellFormed(text.slice(0, length))}...`;
}

function wellFormed(text: string): string {
  return Buffer.from(text, 'utf8').toString('utf8');
}
