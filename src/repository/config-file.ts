import { type InferenceServerError, invalidArg } from '../errors.js';

/** A longer `config.pbtxt` is a mistake, and would block the event loop while it is parsed. */
export const configBytesMax = 4 * 1024 * 1024;

export function configTooLong(
  model: string,
  fileName: string,
  bytes: number,
): InferenceServerError {
  return invalidArg(
    `model '${model}': ${fileName} has ${bytes} bytes, allowed are ${configBytesMax}`,
  );
}
