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
 * Takes both numbers once in each round, one right after the other and in turns first, so that
 * whatever else the machine does falls on both.
 */
export async function compareInRounds(
  rounds: number,
  ours: () => Promise<number>,
  other: () => Promise<number>,
): Promise<Comparison> {
  const pairs: { readonly ours: number; readonly other: number }[] = [];
  for (let round = 0; round < rounds; round++) {
    if (round % 2 === 0) {
      const first = await ours();
      pairs.push({ ours: first, other: await other() });
    } else {
      const first = await other();
      pairs.push({ ours: await ours(), other: first });
    }
  }
  return {
    ours: summarize(pairs.map((pair) => pair.ours)),
    other: summarize(pairs.map((pair) => pair.other)),
    ratio: summarize(pairs.map((pair) => pair.ours / pair.other)),
  };
}
