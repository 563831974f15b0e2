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

/** A fault of the server or a model; `message` reaches the client, `cause` only the log. */
export function internal(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('INTERNAL', message, cause);
}

/** What the request names is not here. */
export function notFound(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('NOT_FOUND', message, cause);
}

/** The request, configuration or option is wrong as it is. */
export function invalidArg(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('INVALID_ARG', message, cause);
}

/** Not now: a queue is full, a model is unloading, the server ends. */
export function unavailable(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('UNAVAILABLE', message, cause);
}

/** UNAVAILABLE for now: the client should try again after `retryAfterSecs`. */
export function overloaded(message: string, retryAfterSecs: number): InferenceServerError {
  return new InferenceServerError('UNAVAILABLE', message, undefined, retryAfterSecs);
}

/** Understood, and not something this server does. */
export function unsupported(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('UNSUPPORTED', message, cause);
}

/** What the request wants to make is there already. */
export function alreadyExists(message: string, cause?: unknown): InferenceServerError {
  return new InferenceServerError('ALREADY_EXISTS', message, cause);
}

/** The caller has gone, or withdrew the request. */
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

/**
 * " (did you mean 'http-port'?)" where one of `allowed` is nearly `given` or continues it, else ''.
 * For names that people type, at start and at load: it compares with every one.
 */
export function suggestion(given: string, allowed: Iterable<string>): string {
  if (given.length < 3) return '';
  const editsMax = Math.max(1, given.length / 4);
  const [nearest] = [...allowed]
    .map((name) => ({ name, edits: name.startsWith(given) ? 1 : editDistance(given, name) }))
    .filter(({ edits }) => edits <= editsMax)
    .sort((a, b) => a.edits - b.edits);
  return nearest === undefined ? '' : ` (did you mean '${nearest.name}'?)`;
}

/** Letters to insert, remove, replace or swap with their neighbour to make `b` of `a` (Damerau). */
function editDistance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number): number => rows[row]?.[column] ?? 0;
  for (let row = 1; row <= a.length; row++) {
    const edits = [row];
    rows.push(edits);
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1];
      const isSwapped = row > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      edits[column] = Math.min(
        at(row - 1, column) + 1,
        at(row, column - 1) + 1,
        at(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwapped ? at(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY,
      );
    }
  }
  return at(a.length, b.length);
}
