import { describe, expect, it } from 'vitest';
import type { Datatype } from '../../src/inference/datatype.js';
import { formatTensorData } from '../../src/observability/tensor-text.js';

function format(datatype: Datatype, bytes: Uint8Array, encoding: 'raw' | 'json' = 'raw'): string {
  return formatTensorData({ name: 'x', datatype, shape: [], encoding, bytes });
}

describe('formatTensorData', () => {
  it.each([
    ['BOOL', Uint8Array.of(0, 1), '0,1'],
    ['UINT8', Uint8Array.of(255), '255'],
    ['UINT16', Uint16Array.of(65535), '65535'],
    ['UINT32', Uint32Array.of(2 ** 32 - 1), '4294967295'],
    ['UINT64', BigUint64Array.of(2n ** 64n - 1n), '18446744073709551615'],
    ['INT8', Int8Array.of(-128), '-128'],
    ['INT16', Int16Array.of(-32768, 5), '-32768,5'],
    ['INT32', Int32Array.of(-(2 ** 31)), '-2147483648'],
    ['INT64', BigInt64Array.of(-(2n ** 63n)), '-9223372036854775808'],
    ['FP16', Uint16Array.of(0x3c00, 0xc000), '1,-2'],
    ['BF16', Uint16Array.of(0x3f80), '1'],
    ['FP32', Float32Array.of(0.5, Number.NaN), '0.5,NaN'],
    ['FP64', Float64Array.of(0.1, Number.POSITIVE_INFINITY), '0.1,Infinity'],
  ] as const)('writes %s', (datatype, values, expected) => {
    expect(format(datatype, new Uint8Array(values.buffer))).toBe(expected);
  });

  it('keeps apart what strings hold', () => {
    expect(format('BYTES', Uint8Array.of(2, 0, 0, 0, 44, 34, 0, 0, 0, 0))).toBe('",\\"",""');
  });

  it('flattens a tensor that is still JSON', () => {
    expect(format('FP32', Buffer.from('[ [1, 2.5],\n[3] ]'), 'json')).toBe('1,2.5,3');
  });

  it('reads a view into a larger buffer from its own start', () => {
    const buffer = Int32Array.of(7, 8, 9).buffer;
    expect(format('INT32', new Uint8Array(buffer, 4, 4))).toBe('8');
  });
});
