import { describe, expect, it } from 'vitest';
import {
  bf16ToNumber,
  fp16ToNumber,
  numberToBf16,
  numberToFp16,
} from '../../src/inference/fp16.js';

const patterns = Array.from({ length: 0x10000 }, (_, bits) => bits);

describe('FP16', () => {
  it.each([
    [0x0000, 0],
    [0x8000, -0],
    [0x3c00, 1],
    [0xc000, -2],
    [0x3555, 0.333251953125],
    [0x0001, 2 ** -24],
    [0x03ff, 2 ** -14 - 2 ** -24],
    [0x0400, 2 ** -14],
    [0x7bff, 65504],
    [0x7c00, Infinity],
    [0xfc00, -Infinity],
    [0x7e00, NaN],
  ])('has the pattern 0x%i for %d', (bits, value) => {
    expect(fp16ToNumber(bits)).toBe(value);
    expect(numberToFp16(value)).toBe(bits);
  });

  it.each([
    [65519.99, 0x7bff],
    [65520, 0x7c00],
    [2 ** -25, 0x0000],
    [2 ** -25 * 1.0001, 0x0001],
    [1 + 2 ** -11, 0x3c00],
    [1 + 3 * 2 ** -11, 0x3c02],
    [2 - 2 ** -12, 0x4000],
  ])('rounds %d to nearest, ties to even', (value, bits) => {
    expect(numberToFp16(value)).toBe(bits);
  });

  it('comes back for every pattern', () => {
    const changed = patterns.filter((bits) => {
      const value = fp16ToNumber(bits);
      return !Number.isNaN(value) && numberToFp16(value) !== bits;
    });
    expect(changed).toEqual([]);
  });
});

describe('BF16', () => {
  it('is the upper half of a binary32', () => {
    const single = new DataView(new ArrayBuffer(4));
    const different = patterns.filter((bits) => {
      single.setUint16(0, bits);
      const value = single.getFloat32(0);
      if (Number.isNaN(value)) return !Number.isNaN(bf16ToNumber(bits));
      return !Object.is(bf16ToNumber(bits), value) || numberToBf16(value) !== bits;
    });
    expect(different).toEqual([]);
  });

  it.each([
    [1 + 2 ** -8, 0x3f80],
    [1 + 3 * 2 ** -8, 0x3f82],
    [NaN, 0x7fc0],
    [3.4e38, 0x7f80],
  ])('rounds %d to nearest, ties to even', (value, bits) => {
    expect(numberToBf16(value)).toBe(bits);
  });
});
