/**
 * The closed set of ways in which an inference server can fail a caller.
 * Names follow TRITONSERVER_Error_Code; `protocol/error-status.ts` maps them to HTTP and gRPC.
 */
export type ErrorCode =
  | 'UNKNOWN'
  | 'INTERNAL'
  | 'NOT_FOUND'
  | 'INVALID_ARG'
  | 'UNAVAILABLE'
  | 'UNSUPPORTED'
  | 'ALREADY_EXISTS'
  | 'CANCELLED';

const errorCodes: ReadonlySet<string> = new Set<ErrorCode>([
  'UNKNOWN',
  'INTERNAL',
  'NOT_FOUND',
  'INVALID_ARG',
  'UNAVAILABLE',
  'UNSUPPORTED',
  'ALREADY_EXISTS',
  'CANCELLED',
]);

/** True where `value` is one of the codes, as a model author or a worker may have set it. */
export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && errorCodes.has(value);
}

/** An expected failure. `message` is written for the client and holds no internals. */
export class InferenceServerError extends Error {
  readonly code: ErrorCode;
  /** When the same request may succeed, where the server knows. */
  readonly retryAfterSecs: number | undefined;

  constructor(code: ErrorCode, message: string, cause?: unknown, retryAfterSecs?: number) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'InferenceServerError';
    this.code = code;
    this.retryAfterSecs = retryAfterSecs;
  }
}

export function internal(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('INTERNAL', message, cause);
}

export function notFound(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('NOT_FOUND', message, cause);
}

export function invalidArg(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('INVALID_ARG', message, cause);
}

export function unavailable(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('UNAVAILABLE', message, cause);
}

/** UNAVAILABLE for now: the client should try again after `retryAfterSecs`. */
export function overloaded(message: string, retryAfterSecs: number): InferenceServerError {
  return new InferenceServerError('UNAVAILABLE', message, undefined, retryAfterSecs);
}

export function unsupported(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('UNSUPPORTED', message, cause);
}

export function alreadyExists(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('ALREADY_EXISTS', message, cause);
}

export function cancelled(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('CANCELLED', message, cause);
}

/**
 * Any thrown value as an `InferenceServerError`. What is not one already becomes INTERNAL with
 * `clientMessage`; the original stays in `cause` for the log and never reaches the client.
 */
export function toInferenceServerError(
  thrown: unknown,
  clientMessage: string,
): InferenceServerError {
  return thrown instanceof InferenceServerError ? thrown : internal(clientMessage, thrown);
}
