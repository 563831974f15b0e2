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
    ['are as many as 2 ms hold', Array<number>(1000).fill(95_000), 21],
    ['are at most 32', fast(1000), 32],
    ['are one where executions take more than 1 ms', Array<number>(1000).fill(1.1e6), 1],
    ['are two where they take less', Array<number>(1000).fill(0.9e6), 2],
    ['stay many after one execution of 2 ms', [...fast(1000), 2e6], 32],
    ['are one after one of 100 ms', [...fast(1000), 100e6], 1],
    ['are many again after many fast executions', [...fast(1000), 100e6, ...fast(300)], 32],
    ['are at most 32 where the clock shows nothing', Array<number>(2000).fill(0), 32],
  ])('%s', (_what, durationsNs, expected) => {
    expect(sizeAfter(...durationsNs)).toBe(expected);
  });
});
