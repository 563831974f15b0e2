import { describe, expect, it } from 'vitest';
import {
  fromModelParameters,
  toModelParameters,
} from '../../../src/backends/javascript/model-parameters.js';

describe('the parameters of a JavaScript model', () => {
  it('are numbers where a number holds the integer, and bigints elsewhere', () => {
    const given = new Map([
      ['small', 7n],
      ['large', 2n ** 53n],
    ]);
    expect({ ...toModelParameters(given) }).toEqual({ small: 7, large: 2n ** 53n });
  });

  it.each(['__proto__', 'constructor', 'toString'])('may be called %s', (name) => {
    const parameters = toModelParameters(new Map([[name, 'p']]));
    expect(Object.entries(parameters)).toEqual([[name, 'p']]);
    expect(fromModelParameters(parameters, 'm')).toEqual(new Map([[name, 'p']]));
  });

  it.each([[null], [1], ['x'], [{ a: null }], [{ a: {} }]])('are refused as %j', (given) => {
    expect(() => fromModelParameters(given, "model 'm'")).toThrow(/^model 'm': parameter/);
  });
});
