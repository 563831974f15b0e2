import { type ErrorCode, InferenceServerError } from '../errors.js';

/**
 * Why a store did not do what it was asked for:
 *
 * - `unreachable`: no answer, an overloaded or broken store. Nothing may be concluded.
 * - `refused`: it does not accept who asks, or how.
 * - `missing`: there is no such bucket or object.
 * - `changed`: the object is not the one that was listed.
 */
export type StoreFailure = 'unreachable' | 'refused' | 'missing' | 'changed';

const codes: Readonly<Record<StoreFailure, ErrorCode>> = {
  unreachable: 'UNAVAILABLE',
  refused: 'INTERNAL',
  missing: 'NOT_FOUND',
  changed: 'UNAVAILABLE',
};

/** `failure` as an error for callers. The message names everything but credentials. */
export function storeError(
  failure: StoreFailure,
  message: string,
  cause?: unknown,
): InferenceServerError {
  const error = new InferenceServerError(codes[failure], message, cause);
  failures.set(error, failure);
  return error;
}

/** The failure that {@link storeError} was given; undefined for errors of other origin. */
export function storeFailure(error: unknown): StoreFailure | undefined {
  return error instanceof InferenceServerError ? failures.get(error) : undefined;
}

/** Beside the errors, because a class of their own would be one more kind of error to know. */
const failures = new WeakMap<InferenceServerError, StoreFailure>();
