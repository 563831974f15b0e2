/** A stream of numbers that a seed decides. */
export interface Random {
  /** In [0, 1). */
  next(): number;
  /** An integer in [0, bound). */
  below(bound: number): number;
}

/** Mulberry32, by Tommy Ettinger: 32 bits of state, enough for inputs and arrival times. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return { next, below: (bound) => Math.floor(next() * bound) };
}
