import { describe, expect, it } from 'vitest';
import { BundleSize } from '../../src/server/bundle-size.js';

function sizeAfter(...durationsNs: readonly number[]): number {
  const size = new BundleSize();
  for (const durationNs of durationsNs) size.observe(durationNs);
  return size.sizeMax;
}

const fast = (count: number) => Array<number>(count).fill(20_000);

describe('the requests that go to an instance together', () => {
  it.each<[string, readonly number[], number]>([
    ['are one where nothing is known', [], 1],
    ['are one after the first execution, however fast', [1000], 1],
    ['are as many as 2 ms hold', Array<number>(500).fill(100_000), 20],
    ['are at most 32', fast(1000), 32],
    ['are one where an execution takes 2 ms', [...fast(1000), 2e6], 1],
    ['are two where it takes 1 ms', [...fast(1000), 1e6], 2],
    ['stay few for a while after a slow execution', [...fast(1000), 10e6, ...fast(50)], 1],
    ['are many again after many fast executions', [...fast(1000), 10e6, ...fast(500)], 32],
    ['are at most 32 where the clock shows nothing', Array<number>(2000).fill(0), 32],
  ])('%s', (_what, durationsNs, expected) => {
    expect(sizeAfter(...durationsNs)).toBe(expected);
  });
});
