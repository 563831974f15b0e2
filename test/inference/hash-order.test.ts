import { describe, expect, it } from 'vitest';
import { inHashOrder } from '../../src/inference/hash-order.js';

describe('inHashOrder', () => {
  // Seen in messages of the reference server.
  it.each([
    [[], []],
    [
      ['INPUT0', 'INPUT1'],
      ['INPUT1', 'INPUT0'],
    ],
    [
      ['INPUT', 'START'],
      ['START', 'INPUT'],
    ],
    [
      ['A', 'B', 'C'],
      ['B', 'C', 'A'],
    ],
  ])('orders %j', (names, expected) => {
    expect(inHashOrder(names)).toEqual(expected);
  });

  it('keeps all names when the table grows', () => {
    const names = Array.from({ length: 100 }, (_, index) => `input_with_a_long_name_${index}`);
    expect(inHashOrder(names).sort()).toEqual([...names].sort());
  });
});
