import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InferenceServerError } from '../../src/errors.js';
import { JsonText } from '../../src/protocol/json-scanner.js';

function read(text: string | Uint8Array, searchedBytesMin?: number): JsonText {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  return new JsonText(bytes, bytes.byteLength, searchedBytesMin);
}

/** The value at `at`, built up; the last of two members of one name wins, as in `JSON.parse`. */
function build(json: JsonText, at: number): unknown {
  switch (json.kind(at)) {
    case 'object': {
      const members: [string, unknown][] = [];
      for (let key = json.firstMember(at); key >= 0; ) {
        const value = json.memberValue(key);
        members.push([json.string(key), build(json, value)]);
        key = json.nextMember(value);
      }
      return Object.fromEntries(members);
    }
    case 'array': {
      const items: unknown[] = [];
      for (let item = json.firstItem(at); item >= 0; item = json.nextItem(item)) {
        items.push(build(json, item));
      }
      return items;
    }
    case 'string':
      return json.string(at);
    case 'number':
      return Number(json.number(at));
    case 'boolean':
      return json.boolean(at);
    case 'null':
      return null;
  }
}

describe('JsonText', () => {
  it.each([
    ['', 'The document is empty. at 0'],
    ['  ', 'The document is empty. at 2'],
    ['hello', 'Invalid value. at 0'],
    ['{"inputs": [', 'Invalid value. at 12'],
    ['{', 'Missing a name for object member. at 1'],
    ['{"a":1,}', 'Missing a name for object member. at 7'],
    ['{a:1}', 'Missing a name for object member. at 1'],
    ['{"a" 1}', 'Missing a colon after a name of object member. at 5'],
    ['{"a":1 "b"', "Missing a comma or '}' after an object member. at 7"],
    ['[1 2]', "Missing a comma or ']' after an array element. at 3"],
    ['[1}', "Missing a comma or ']' after an array element. at 2"],
    ['[1,]', 'Invalid value. at 3'],
    ['[]]', 'The document root must not be followed by other values. at 2'],
    ['1 2', 'The document root must not be followed by other values. at 2'],
    ['[01]', "Missing a comma or ']' after an array element. at 2"],
    ['[+1]', 'Invalid value. at 1'],
    ['[.5]', 'Invalid value. at 1'],
    ['[1.]', 'Miss fraction part in number. at 3'],
    ['[1e]', 'Miss exponent in number. at 3'],
    ['[-]', 'Invalid value. at 2'],
    ['[1e999]', 'Number too big to be stored in double. at 1'],
    ['[tru]', 'Invalid value. at 4'],
    ['[Nan]', 'Invalid value. at 3'],
    ['"a', 'Missing a closing quotation mark in string. at 0'],
    ['"\\x41"', 'Invalid escape character in string. at 1'],
    ['"\n"', 'Invalid escape character in string. at 1'],
    ['"\\u00"', 'Incorrect hex digit after \\u escape in string. at 1'],
    ['"\\ud83d"', 'The surrogate pair in string is invalid. at 1'],
    ['"\\ud83d\\u0041"', 'The surrogate pair in string is invalid. at 1'],
  ])('refuses %j', (text, reason) => {
    expect(() => read(text)).toThrow(
      new InferenceServerError('INVALID_ARG', `failed to parse the request JSON buffer: ${reason}`),
    );
  });

  it.each([
    ['\ufeff[1]', [1]],
    [' \t\r\n{ "a" : [ ] } ', { a: [] }],
    [
      '[NaN,-NaN,Inf,-Inf,Infinity,-Infinity]',
      [NaN, NaN, Infinity, -Infinity, Infinity, -Infinity],
    ],
    ['"\\u0041\\/\\b\\f\\n\\r\\t\\"\\\\"', 'A/\b\f\n\r\t"\\'],
    ['"\\uD83D\\uDE00 é"', '😀 é'],
    ['[1]\0trailing', [1]],
  ])('reads %j', (text, value) => {
    const json = read(text);
    expect(build(json, json.root)).toEqual(value);
  });

  it('keeps integers of 64 bits exact and takes larger ones as doubles', () => {
    const text = '[18446744073709551615,-9223372036854775808,18446744073709551616,1.0,1e2]';
    const json = read(text);
    const numbers: unknown[] = [];
    for (let item = json.firstItem(json.root); item >= 0; item = json.nextItem(item)) {
      numbers.push(json.number(item));
    }
    expect(numbers).toEqual([
      18_446_744_073_709_551_615n,
      -9_223_372_036_854_775_808n,
      2 ** 64,
      1,
      100,
    ]);
  });

  it('finds the first of several members of one name', () => {
    const json = read('{"a":1,"b":2,"a":3}');
    expect(json.number(json.find(json.root, 'a'))).toBe(1n);
    expect(json.find(json.root, 'c')).toBe(-1);
  });

  it('reads bytes that are not UTF-8 and members called like parts of a prototype', () => {
    const json = read(Buffer.from('{"__proto__":"\xff\xfe"}', 'latin1'));
    const value = json.find(json.root, '__proto__');
    expect(json.stringBytes(value)).toEqual(Buffer.from([0xff, 0xfe]));
    expect(json.string(value)).toBe('\udcff\udcfe');
  });

  it('reads an array nested 250000 deep without recursion', () => {
    const depth = 250_000;
    const json = read(`{"a":${'['.repeat(depth)}${']'.repeat(depth)},"b":1}`);
    expect(json.number(json.find(json.root, 'b'))).toBe(1n);
    expect(() => read('['.repeat(depth))).toThrow('Invalid value.');
    expect(() => read('{"a":'.repeat(depth))).toThrow('Invalid value.');
  });

  describe('with long data arrays stepped over', () => {
    it.each([
      ['numbers', '[1, 2.5, -3e9, [NaN, Infinity]]'],
      ['nested numbers', '[[[1,2],[3,4]] , [[5,6]]]'],
      ['no numbers', '[[], [[]], []]'],
      ['strings', '["a]", ["\\"]", "\\\\"], "x\\\\\\"y"]'],
      [
        'long strings',
        `["${'a'.repeat(90)}\\"]", "${'\\\\'.repeat(90)}", "${'b'.repeat(63)}\\\\"]`,
      ],
      ['booleans', '[true, [false]]'],
    ])('finds the end of %s', (_what, data) => {
      const text = `{"data" : ${data} , "n": 7}`;
      const json = read(text, 4);
      const at = json.find(json.root, 'data');
      expect(text.slice(at, json.skip(at))).toBe(data);
      expect(json.number(json.find(json.root, 'n'))).toBe(7n);
    });

    it('leaves what is wrong inside to the decoder', () => {
      const json = read('{"data":[1,,2],"n":7}', 4);
      expect(json.number(json.find(json.root, 'n'))).toBe(7n);
      expect(() => read('{"other":[1,,2],"n":7}', 4)).toThrow('Invalid value. at 12');
    });

    it.each(['{"data":[1,2,3', '{"data":["a","b"', '{"data":[1,{"a":2}]', '{"data":[1,2]]]'])(
      'refuses %s',
      (text) => {
        expect(() => read(text, 4)).toThrow(InferenceServerError);
      },
    );

    it('searches a hostile body in linear time', () => {
      const text = `{"a":[${'{"data":[1,2,3]},'.repeat(50_000)}0]}`;
      const start = performance.now();
      read(text, 4);
      expect(performance.now() - start).toBeLessThan(2000);
    });
  });

  it('reads whatever JSON.stringify writes', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(8), (value, searchedBytesMin) => {
        const text = JSON.stringify(value);
        const json = read(text, 1000 * searchedBytesMin);
        const expected: unknown = JSON.parse(text, (_key, part) => (part === 0 ? 0 : part));
        expect(build(json, json.root)).toEqual(expected);
        expect(json.skip(json.root)).toBe(Buffer.byteLength(text));
      }),
    );
  });

  it('agrees with JSON.parse on what is JSON', () => {
    const pieces = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"a"',
      '1',
      '-',
      '0',
      '.',
      'e1',
      ' ',
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 8 }), (parts) => {
        const text = parts.join('');
        // `JSON.parse` makes Infinity of a number that is too large.
        if (/e1\d\d/.test(text)) return;
        expect(isAccepted(() => read(text))).toBe(isAccepted(() => JSON.parse(text)));
      }),
      { numRuns: 2000 },
    );
  });

  it('fails with nothing but INVALID_ARG whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.nat(16), (bytes, searchedBytesMin) => {
        try {
          const json = read(bytes, searchedBytesMin);
          build(json, json.root);
        } catch (error) {
          expect(error).toBeInstanceOf(InferenceServerError);
        }
      }),
    );
  });
});

function isAccepted(parse: () => unknown): boolean {
  try {
    parse();
    return true;
  } catch {
    return false;
  }
}
