import { describe, expect, it } from 'vitest';
import { compareInRounds } from '../../bench/interleaved.js';

describe('compareInRounds', () => {
  it('takes both sides in turns first, and divides what was measured in the same round', async () => {
    const order: string[] = [];
    const ours = [10, 30, 20];
    const others = [10, 10, 40];
    const result = await compareInRounds(
      3,
      async () => {
        order.push('ours');
        return ours.shift() ?? 0;
      },
      async () => {
        order.push('other');
        return others.shift() ?? 0;
      },
    );
    expect(order).toEqual(['ours', 'other', 'other', 'ours', 'ours', 'other']);
    expect(result).toEqual({
      ours: { median: 20, min: 10, max: 30 },
      other: { median: 10, min: 10, max: 40 },
      ratio: { median: 1, min: 0.5, max: 3 },
    });
  });
});
