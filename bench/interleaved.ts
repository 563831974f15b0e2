import { median } from './report.js';

/** A number with how far the rounds are apart. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export interface Comparison {
  readonly ours: Spread;
  readonly other: Spread;
  /** Ours over the other's in the same round: noise that lasts for seconds hits both. */
  readonly ratio: Spread;
}

export function summarize(values: readonly number[]): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

/**
 * Takes each number once in each round, one right after the other and beginning with another one
 * each time, so that whatever else the machine does falls on all. Returns the rounds of each.
 */
export async function measureInRounds(
  rounds: number,
  measures: readonly (() => Promise<number>)[],
): Promise<readonly (readonly number[])[]> {
  const taken = measures.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < measures.length; turn++) {
      const index = (round + turn) % measures.length;
      const value = await measures[index]?.();
      if (value !== undefined) taken[index]?.push(value);
    }
  }
  return taken;
}

export async function compareInRounds(
  rounds: number,
  ours: () => Promise<number>,
  other: () => Promise<number>,
): Promise<Comparison> {
  const [left = [], right = []] = await measureInRounds(rounds, [ours, other]);
  return compareRounds(left, right);
}

export function compareRounds(ours: readonly number[], other: readonly number[]): Comparison {
  return {
    ours: summarize(ours),
    other: summarize(other),
    ratio: summarize(ours.map((value, round) => value / (other[round] ?? Number.NaN))),
  };
}
