import { describe, expect, it } from 'vitest';
import { formatGoals, type GoalResult, isMet } from '../../../bench/goals/goal.js';

function result(bound: 'at least' | 'at most', limit: number, median: number): GoalResult {
  return {
    goal: { work: 'w', bound, limit, unit: 'x' },
    value: { median, min: 0, max: 1000 },
    detail: 'd',
  };
}

describe('isMet', () => {
  it.each([
    ['at least', 2, 2, true],
    ['at least', 2, 1.99, false],
    ['at most', 2, 2, true],
    ['at most', 2, 2.01, false],
  ] as const)('%s %d with a median of %d is %s', (bound, limit, median, expected) => {
    expect(isMet(result(bound, limit, median))).toBe(expected);
  });
});

describe('formatGoals', () => {
  it('shows what was missed beside what was met', () => {
    const rows = formatGoals([result('at least', 2, 12.345), result('at most', 2, 120)]).split(
      '\n',
    );
    expect(rows.slice(2)).toEqual([
      '| w | at least 2 x | 12.3 (0.00-1000) x | met | d |',
      '| w | at most 2 x | 120 (0.00-1000) x | **missed** | d |',
    ]);
  });
});
