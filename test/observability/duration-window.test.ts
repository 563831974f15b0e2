import { describe, expect, it } from 'vitest';
import { DurationWindow } from '../../src/observability/duration-window.js';

function createWindow(values: Iterable<number>): DurationWindow {
  const window = new DurationWindow();
  for (const value of values) window.record(value);
  return window;
}

function countTo(end: number): number[] {
  return Array.from({ length: end }, (_, index) => index + 1);
}

describe('DurationWindow', () => {
  it('has no quantiles while it is empty', () => {
    expect(new DurationWindow().quantiles([0.5])).toEqual([Number.NaN]);
  });

  it('gives quantiles by rank', () => {
    expect(createWindow(countTo(100).reverse()).quantiles([0, 0.5, 0.9, 0.99, 1])).toEqual([
      1, 50, 90, 99, 100,
    ]);
    expect(createWindow([42]).quantiles([0, 0.5, 1])).toEqual([42, 42, 42]);
  });

  it('forgets what is older than its size', () => {
    const window = createWindow([1e9, ...countTo(2048)]);
    expect(window.quantiles([1])).toEqual([2048]);
  });
});
