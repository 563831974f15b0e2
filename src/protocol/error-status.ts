import type { ErrorCode, InferenceServerError } from '../errors.js';
import { appendJsonString, encodeText } from './json-text.js';

/** HTTP status of each error code. */
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

/** gRPC status code of each error code (protocol.md 2.2). */
export const grpcStatusOf: Readonly<Record<ErrorCode, number>> = {
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARG: 3,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  UNSUPPORTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
};

/** `{"error":"..."}`. Bytes of a client's text that are not UTF-8 pass through. */
export function errorBody(error: Pick<InferenceServerError, 'message'>): Uint8Array {
  return encodeText(`{"error":${appendJsonString('', error.message)}}`);
}
