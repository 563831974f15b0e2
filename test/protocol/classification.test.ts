import { describe, expect, it } from 'vitest';
import { invalidArg } from '../../src/errors.js';
import { decodeBytesElements } from '../../src/inference/bytes-elements.js';
import type { Datatype } from '../../src/inference/datatype.js';
import type { Tensor } from '../../src/inference/tensor.js';
import { classify } from '../../src/protocol/classification.js';

function tensor(datatype: Datatype, shape: readonly number[], array: ArrayBufferView): Tensor {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  return { name: 'OUT', datatype, shape, encoding: 'raw', bytes };
}

function texts(
  output: Tensor,
  count: number,
  labels: readonly string[] = [],
  isBatching = false,
): string[] {
  const result = classify(output, count, isBatching, labels);
  return decodeBytesElements(result.bytes).map((element) => Buffer.from(element).toString());
}

describe('classify', () => {
  it.each<[Datatype, ArrayBufferView, string[]]>([
    ['FP32', Float32Array.of(0.1, 0.9), ['0.900000:1', '0.100000:0']],
    ['FP64', Float64Array.of(-1.5, -0), ['-0.000000:1', '-1.500000:0']],
    ['INT8', Int8Array.of(-3, 4), ['4:1', '-3:0']],
    ['UINT16', Uint16Array.of(7, 65535), ['65535:1', '7:0']],
    ['INT32', Int32Array.of(1, -2147483648), ['1:0', '-2147483648:1']],
    ['UINT32', Uint32Array.of(1, 4294967295), ['4294967295:1', '1:0']],
    [
      'INT64',
      BigInt64Array.of(9007199254740992n, 9007199254740993n),
      ['9007199254740993:1', '9007199254740992:0'],
    ],
    ['UINT64', BigUint64Array.of(1n, 18446744073709551615n), ['18446744073709551615:1', '1:0']],
  ])('orders %s exactly', (datatype, values, expected) => {
    expect(texts(tensor(datatype, [2], values), 2)).toEqual(expected);
  });

  it('takes each row of a batch by itself and never more classes than there are', () => {
    const output = tensor('INT32', [2, 1, 3], Int32Array.of(1, 3, 2, 9, 7, 8));
    const result = classify(output, 9, true, ['a', 'b']);
    expect(result.shape).toEqual([2, 3]);
    expect(texts(output, 9, ['a', 'b'], true)).toEqual([
      '3:1:b',
      '2:2',
      '1:0:a',
      '9:0:a',
      '8:2',
      '7:1:b',
    ]);
    expect(classify(output, 1, true, []).shape).toEqual([2, 1]);
  });

  it('takes all elements as one list where the model does not batch', () => {
    const output = tensor('INT32', [2, 3], Int32Array.of(1, 3, 2, 9, 7, 8));
    expect(classify(output, 2, false, []).shape).toEqual([2]);
    expect(texts(output, 2)).toEqual(['9:3', '8:5']);
  });

  it.each([
    ['equal values keep their order', [1, 1, 1, 1], ['1.000000:0', '1.000000:1', '1.000000:2']],
    ['NaN comes first', [1, NaN, Infinity], ['nan:1', 'inf:2', '1.000000:0']],
    ['infinities have names', [-Infinity, Infinity], ['inf:1', '-inf:0']],
    ['ties of the sixth decimal go to the even digit', [123456.7890625], ['123456.789062:0']],
    ['and up where the digit is odd', [0.0234375], ['0.023438:0']],
    ['large values print in full', [1e22], ['10000000000000000000000.000000:0']],
  ])('%s', (_what, values, expected) => {
    expect(texts(tensor('FP64', [values.length], Float64Array.from(values)), 3)).toEqual(expected);
  });

  it('finds a few of many as sorting all would', () => {
    const values = Float64Array.from({ length: 1000 }, (_, index) => (index * 7919) % 997);
    const output = tensor('FP64', [1000], values);
    expect(texts(output, 20)).toEqual(texts(output, 1000).slice(0, 20));
    expect(texts(output, 100)).toEqual(texts(output, 1000).slice(0, 100));
  });

  it('gives no classes of nothing', () => {
    expect(classify(tensor('FP32', [0], new Float32Array(0)), 2, false, []).shape).toEqual([0]);
    expect(classify(tensor('FP32', [0, 4], new Float32Array(0)), 2, true, []).bytes.length).toBe(0);
  });

  it.each<Datatype>(['BOOL', 'FP16', 'BF16', 'BYTES'])('has none for %s', (datatype) => {
    expect(() => classify(tensor(datatype, [1], new Uint8Array(2)), 1, false, [])).toThrow(
      invalidArg(`class result not available for output due to unsupported type '${datatype}'`),
    );
  });

  it('refuses more than a million elements', () => {
    const output = (count: number): Tensor => tensor('UINT8', [count], new Uint8Array(count));
    expect(texts(output(1_000_000), 1)).toEqual(['0:0']);
    expect(() => classify(output(1_000_001), 1, false, [])).toThrow(
      invalidArg('classification output tensor too large'),
    );
  });
});
