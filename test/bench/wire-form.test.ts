import { describe, expect, it } from 'vitest';
import { plainJson, v2Json, withDecimals } from '../../bench/wire-form.js';

const inputs = [
  { name: 'x', shape: [2, 1, 2], data: Float32Array.of(1.5, -2, 3, 0.25) },
  { name: 'y', shape: [1], data: Float32Array.of(7) },
];

describe('plainJson', () => {
  it('nests rows by the shape', () => {
    const { body } = plainJson.encode(inputs);
    expect(JSON.parse(body.toString())).toEqual({ x: [[[1.5, -2]], [[3, 0.25]]], y: [7] });
  });

  it('reads nested outputs in row-major order', () => {
    const outputs = plainJson.decode(new Headers(), Buffer.from('{"z":[[1,2],[3,4]]}'));
    expect(outputs).toEqual(new Map([['z', Float32Array.of(1, 2, 3, 4)]]));
  });
});

describe('withDecimals', () => {
  it('shows numbers in so many decimals, which their FP32 values would not have', () => {
    const { body } = withDecimals(v2Json, 2).encode([
      { name: 'x', shape: [3], data: Float32Array.of(0.1, 1 / 3, 2) },
    ]);
    expect(JSON.parse(body.toString()).inputs[0].data).toEqual([0.1, 0.33, 2]);
  });
});
