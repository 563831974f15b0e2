import { InferenceServerError, isErrorCode } from '../errors.js';
import type { ErrorMessage } from './messages.js';

/** A failure as it crosses the thread boundary. Anything that is no known error is INTERNAL. */
export function toErrorMessage(thrown: unknown): ErrorMessage {
  if (thrown instanceof InferenceServerError) {
    return { code: thrown.code, message: thrown.message };
  }
  return { code: thrownCode(thrown), message: thrownText(thrown) };
}

/** The failure that {@link toErrorMessage} described, on the other side. */
export function fromErrorMessage(message: ErrorMessage): InferenceServerError {
  return new InferenceServerError(message.code, message.message);
}

/** An `InferenceServerError` of another module graph, or a model author's error with a `code`. */
function thrownCode(thrown: unknown): ErrorMessage['code'] {
  if (typeof thrown === 'object' && thrown !== null && 'code' in thrown) {
    if (isErrorCode(thrown.code)) return thrown.code;
  }
  return 'INTERNAL';
}

/** What was thrown in words, whatever it was; never throws itself. */
export function thrownText(thrown: unknown): string {
  try {
    if (thrown instanceof Error) return thrown.message === '' ? thrown.name : thrown.message;
    if (typeof thrown === 'object' && thrown !== null && 'message' in thrown) {
      return String(thrown.message);
    }
    return String(thrown);
  } catch {
    // An object whose conversion throws still needs a text.
    return 'unprintable error';
  }
}
