import type { ErrorCode, InferenceServerError } from '../errors.js';
import { appendJsonString, encodeText } from './json-text.js';

/** HTTP status of each error code (protocol.md 1.0, the reference server's table). */
export const httpStatusOf: Readonly<Record<ErrorCode, number>> = {
  INTERNAL: 500,
  NOT_FOUND: 404,
  UNAVAILABLE: 503,
  UNSUPPORTED: 501,
  INVALID_ARG: 400,
  ALREADY_EXISTS: 400,
  CANCELLED: 400,
  UNKNOWN: 400,
};

/** `{"error":"..."}`. Bytes of a client's text that are not UTF-8 pass through. */
export function errorBody(error: Pick<InferenceServerError, 'message'>): Uint8Array {
  return encodeText(`{"error":${appendJsonString('', error.message)}}`);
}
