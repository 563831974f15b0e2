import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InferenceServerError } from '../../src/errors.js';
import { encodeBytesElements } from '../../src/inference/bytes-elements.js';
import { type Datatype, elementBytes } from '../../src/inference/datatype.js';
import { NumberReader } from '../../src/protocol/number-reader.js';
import { decodeTensorJson } from '../../src/protocol/tensor-json.js';
import { doubleText, encodeTensorJson, tensorText } from '../../src/protocol/tensor-text.js';

function decode(datatype: Datatype, count: number, text: string): Uint8Array {
  return decodeTensorJson(datatype, [count], Buffer.from(text));
}

function bytesOf(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

const countMismatch = "Unable to parse 'data': Shape does not match true shape of 'data' field";

describe('decodeTensorJson', () => {
  it.each<[Datatype, string, ArrayBufferView]>([
    ['BOOL', '[true,false, [true]]', Uint8Array.of(1, 0, 1)],
    ['INT8', '[-128,0,127]', Int8Array.of(-128, 0, 127)],
    ['INT16', '[-32768,-0,32767]', Int16Array.of(-32768, 0, 32767)],
    ['INT32', '[-2147483648,2147483647]', Int32Array.of(-2147483648, 2147483647)],
    ['UINT8', '[[0],[255]]', Uint8Array.of(0, 255)],
    ['UINT16', '[0,\n65535]', Uint16Array.of(0, 65535)],
    ['UINT32', '[4294967295]', Uint32Array.of(4294967295)],
    [
      'INT64',
      '[-9223372036854775808,9223372036854775807,-1,-9007199254740993]',
      BigInt64Array.of(-9223372036854775808n, 9223372036854775807n, -1n, -9007199254740993n),
    ],
    [
      'UINT64',
      '[18446744073709551615,9007199254740993,0]',
      BigUint64Array.of(18446744073709551615n, 9007199254740993n, 0n),
    ],
    [
      'FP32',
      '[0.1,1e-7,-1.5,NaN,-Inf,3e38]',
      Float32Array.of(0.1, 1e-7, -1.5, NaN, -Infinity, 3e38),
    ],
    [
      'FP64',
      '[-0.0,-0,1E+2,5e-324,0.30000000000000004]',
      Float64Array.of(-0, 0, 100, 5e-324, 0.1 + 0.2),
    ],
  ])('reads %s from %s', (datatype, text, expected) => {
    const count = expected.byteLength / elementBytes[datatype];
    expect(decode(datatype, count, text)).toEqual(bytesOf(expected));
  });

  it('reads strings with escapes, NULs and bytes that are not UTF-8', () => {
    const text = Buffer.from('["a\\u0000b", ["\\uD83D\\uDE00\\uDE00", ""], "\xff"]', 'latin1');
    expect(decodeTensorJson('BYTES', [4], text)).toEqual(
      encodeBytesElements([
        Buffer.from('a\0b'),
        Buffer.from([0xf0, 0x9f, 0x98, 0x80, 0xed, 0xb8, 0x80]),
        new Uint8Array(0),
        Buffer.from([0xff]),
      ]),
    );
  });

  it.each<[Datatype, number, string, string]>([
    ['FP32', 2, '[1]', countMismatch],
    ['FP32', 2, '[1,2,3]', countMismatch],
    ['FP32', 2, '[]', countMismatch],
    ['FP32', 2 ** 40, '[1,2]', countMismatch],
    ['BYTES', 1, '["a","b"]', countMismatch],
    ['BYTES', 2, '["a"]', countMismatch],
    ['BOOL', 1, '[1]', "Unable to parse 'data': attempt to access JSON non-boolean as boolean"],
    ['FP32', 1, '["1"]', "Unable to parse 'data': attempt to access JSON non-number as double"],
    ['FP64', 1, '[null]', "Unable to parse 'data': attempt to access JSON non-number as double"],
    ['FP64', 1, '[{}]', "Unable to parse 'data': attempt to access JSON non-number as double"],
    [
      'INT32',
      1,
      '[1.0]',
      "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer",
    ],
    [
      'INT64',
      1,
      '[9223372036854775808]',
      "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer",
    ],
    [
      'UINT8',
      1,
      '[-1]',
      "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer",
    ],
    [
      'UINT64',
      1,
      '[18446744073709551616]',
      "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer",
    ],
    ['INT8', 1, '[128]', "Unable to parse 'data': 128 is out of the range of INT8"],
    ['INT8', 1, '[-129]', "Unable to parse 'data': -129 is out of the range of INT8"],
    ['UINT16', 1, '[65536]', "Unable to parse 'data': 65536 is out of the range of UINT16"],
    [
      'UINT32',
      1,
      '[18446744073709551615]',
      "Unable to parse 'data': 18446744073709552000 is out of the range of UINT32",
    ],
    [
      'BYTES',
      1,
      '[1]',
      'Unable to parse JSON bytes array: attempt to access JSON non-string as string',
    ],
    ['FP32', 2, '[1,,2]', 'failed to parse the request JSON buffer: Invalid value. at 3'],
    [
      'FP32',
      2,
      '[1 2]',
      "failed to parse the request JSON buffer: Missing a comma or ']' after an array element. at 3",
    ],
    [
      'FP32',
      1,
      '[1',
      "failed to parse the request JSON buffer: Missing a comma or ']' after an array element. at 2",
    ],
    [
      'FP32',
      1,
      '[1],[2]',
      "failed to parse the request JSON buffer: Missing a comma or '}' after an object member. at 3",
    ],
    [
      'FP32',
      1,
      '[01]',
      "failed to parse the request JSON buffer: Missing a comma or ']' after an array element. at 2",
    ],
    [
      'FP32',
      1,
      '[1e999]',
      'failed to parse the request JSON buffer: Number too big to be stored in double. at 1',
    ],
    [
      'BYTES',
      1,
      '["a',
      'failed to parse the request JSON buffer: Missing a closing quotation mark in string. at 1',
    ],
  ])('refuses as %s [%d] %s', (datatype, count, text, message) => {
    expect(() => decode(datatype, count, text)).toThrow(
      new InferenceServerError('INVALID_ARG', message),
    );
  });

  it('accepts arrays within arrays up to 1000 deep', () => {
    const nested = (depth: number): string => `${'['.repeat(depth)}1${']'.repeat(depth)}`;
    expect(decode('UINT8', 1, nested(1000))).toEqual(Uint8Array.of(1));
    expect(() => decode('UINT8', 1, nested(1001))).toThrow(
      'JSON nesting depth exceeds maximum allowed limit (1000)',
    );
    expect(() => decode('UINT8', 1, nested(250_000))).toThrow('JSON nesting depth');
  });

  it('fails with nothing but INVALID_ARG whatever the text', () => {
    const piece = fc.constantFrom(
      '[',
      ']',
      ',',
      ' ',
      '1',
      '-',
      '.',
      'e',
      'NaN',
      'true',
      '"a"',
      '\\',
      '{',
    );
    const datatype = fc.constantFrom<Datatype>('BOOL', 'INT8', 'UINT64', 'FP32', 'FP64', 'BYTES');
    fc.assert(
      fc.property(datatype, fc.nat(4), fc.array(piece, { maxLength: 12 }), (type, count, parts) => {
        try {
          decode(type, count, parts.join(''));
        } catch (error) {
          expect(error).toBeInstanceOf(InferenceServerError);
        }
      }),
      { numRuns: 1000 },
    );
  });
});

describe('tensors as JSON', () => {
  const numeric: readonly Datatype[] = [
    'BOOL',
    'UINT8',
    'UINT16',
    'UINT32',
    'UINT64',
    'INT8',
    'INT16',
    'INT32',
    'INT64',
    'FP32',
    'FP64',
  ];

  it.each(numeric)('come back as they were written, as %s', (datatype) => {
    const element = elementBytes[datatype];
    const raw = fc.uint8Array({ maxLength: 64 }).map((bytes) => {
      const whole = bytes.slice(0, bytes.length - (bytes.length % element));
      return datatype === 'BOOL' ? whole.map((byte) => byte & 1) : canonicalNaN(datatype, whole);
    });
    fc.assert(
      fc.property(raw, (bytes) => {
        const text = encodeTensorJson(datatype, bytes);
        expect(Buffer.from(text).toString()).toBe(tensorText(datatype, bytes));
        const shape = [bytes.byteLength / element];
        expect(decodeTensorJson(datatype, shape, text)).toEqual(bytes);
      }),
    );
  });

  it('come back as they were written, as BYTES of any kind', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 12 }), { maxLength: 6 }), (elements) => {
        const bytes = encodeBytesElements(elements);
        const text = encodeTensorJson('BYTES', bytes);
        expect(decodeTensorJson('BYTES', [elements.length], text)).toEqual(bytes);
      }),
    );
  });

  it('are read from an offset that no typed array could start at', () => {
    const raw = bytesOf(Float64Array.of(1.5, -2));
    const shifted = new Uint8Array(17);
    shifted.set(raw, 1);
    expect(tensorText('FP64', shifted.subarray(1))).toBe('[1.5,-2.0]');
  });

  it('print in pieces as in one', () => {
    const values = Float32Array.from({ length: 70_000 }, (_, index) => index / 4);
    const text = Buffer.from(encodeTensorJson('FP32', bytesOf(values))).toString();
    expect(text).toBe(tensorText('FP32', bytesOf(values)));
  });

  it('have no JSON form as FP16 and BF16', () => {
    expect(() => tensorText('FP16', new Uint8Array(2))).toThrow(
      'sending FP16 data via JSON is not supported. Please use the binary data format for output',
    );
    expect(() => decode('BF16', 1, '[1]')).toThrow(
      'receiving BF16 data via JSON is not supported.',
    );
  });
});

describe('doubleText', () => {
  it.each([
    [1, '1.0'],
    [0, '0.0'],
    [-0, '-0.0'],
    [100_000_000_000_000_000_000, '100000000000000000000.0'],
    [1e21, '1e21'],
    [-1.5e21, '-1.5e21'],
    [1e-6, '0.000001'],
    [1e-7, '1e-7'],
    [Math.fround(0.1), '0.10000000149011612'],
    [5e-324, '5e-324'],
    [Number.MAX_VALUE, '1.7976931348623157e308'],
    [NaN, 'NaN'],
    [-Infinity, '-Infinity'],
  ])('prints %d as %s', (value, text) => {
    expect(doubleText(value)).toBe(text);
  });
});

describe('NumberReader', () => {
  const decimal = fc
    .tuple(
      fc.boolean(),
      fc.bigInt({ min: 0n, max: 10n ** 22n }),
      fc.nat(24),
      fc.option(fc.integer({ min: -320, max: 290 })),
    )
    .map(([isNegative, digits, point, exponent]) => {
      const text = `${digits}`.padStart(point + 1, '0');
      const whole = text.slice(0, text.length - point).replace(/^0+(?=\d)/, '');
      const fraction = text.slice(text.length - point);
      const power = exponent === null ? '' : `e${exponent}`;
      return `${isNegative ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}${power}`;
    });
  const printed = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
    fc.float({ noNaN: true, noDefaultInfinity: true }).map(String),
    decimal,
  );

  it('rounds as Number does', () => {
    fc.assert(
      fc.property(printed, (text) => {
        const expected = Number(text);
        if (!Number.isFinite(expected)) return;
        const reader = new NumberReader(Buffer.from(text));
        expect(reader.double(0)).toBe(text === '-0' ? 0 : expected);
        expect(reader.next).toBe(text.length);
        expect(Math.fround(reader.float32(0))).toBe(text === '-0' ? 0 : Math.fround(expected));
      }),
      { numRuns: 5000 },
    );
  });

  it.each([
    // Halfway between two doubles, and one digit beside it.
    '9007199254740993',
    '9007199254740993.0000000001',
    '0.50000000000000005551115123125782702118158340454101562',
    '1.00000000000000011102230246251565',
    '8.41421356237309514547e15',
    // Halfway between two floats, and a hair beside it.
    '16777217',
    '16777217.000000001',
    '0.1000000014901161',
    '1.00000005960464477539',
    '1.0000000596046447754',
  ])('rounds %s as Number does', (text) => {
    const reader = new NumberReader(Buffer.from(text));
    expect(reader.double(0)).toBe(Number(text));
    expect(Math.fround(reader.float32(0))).toBe(Math.fround(Number(text)));
  });
});

/** NaN has many patterns and one word. */
function canonicalNaN(datatype: Datatype, bytes: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(bytes);
  if (datatype === 'FP32') {
    const floats = new Float32Array(copy.buffer);
    floats.forEach((value, index) => {
      if (Number.isNaN(value)) floats[index] = Number.NaN;
    });
  } else if (datatype === 'FP64') {
    const doubles = new Float64Array(copy.buffer);
    doubles.forEach((value, index) => {
      if (Number.isNaN(value)) doubles[index] = Number.NaN;
    });
  }
  return copy;
}
