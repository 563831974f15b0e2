import { expect, it } from 'vitest';
import { InferenceServerError, invalidArg } from '../../src/errors.js';
import {
  fromErrorMessage,
  thrownText,
  toErrorMessage,
} from '../../src/execution/error-transfer.js';

const unprintable = {
  toString() {
    throw new Error('no text');
  },
};

it.each<[string, unknown, string, string]>([
  ['an error of the server', invalidArg('wrong'), 'INVALID_ARG', 'wrong'],
  ['any other error', new TypeError('oops'), 'INTERNAL', 'oops'],
  ['an error without words', new RangeError(), 'INTERNAL', 'RangeError'],
  [
    'an error with a code of the server',
    Object.assign(new Error('gone'), { code: 'NOT_FOUND' }),
    'NOT_FOUND',
    'gone',
  ],
  [
    'an error with a code of somebody else',
    Object.assign(new Error('gone'), { code: 'ENOENT' }),
    'INTERNAL',
    'gone',
  ],
  ['an object with a message', { message: 'hm', code: 'CANCELLED' }, 'CANCELLED', 'hm'],
  ['a text', 'just a text', 'INTERNAL', 'just a text'],
  ['nothing', undefined, 'INTERNAL', 'undefined'],
  ['what can not be printed', unprintable, 'INTERNAL', 'unprintable error'],
])('%s crosses as code and message', (_, thrown, code, message) => {
  expect(toErrorMessage(thrown)).toEqual({ code, message });
  const arrived = fromErrorMessage(structuredClone(toErrorMessage(thrown)));
  expect(arrived).toBeInstanceOf(InferenceServerError);
  expect(arrived).toMatchObject({ code, message });
  expect(thrownText(thrown)).toBe(message);
});
