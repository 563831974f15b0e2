import { describe, expect, it } from 'vitest';
import {
  DurationHistogram,
  durationBoundsSecs,
} from '../../src/observability/duration-histogram.js';

describe('DurationHistogram', () => {
  it('puts a duration into the first bucket whose bound is not below it', () => {
    const upToUs = [0, 0.001, 1, 1.001, 2, 2.5, 3, 4, 5, 8, 9, 1000, 1024, 1025, 67_108_864];
    for (const micros of upToUs) {
      const histogram = new DurationHistogram();
      histogram.record(micros * 1000);
      const expected = durationBoundsSecs.findIndex((bound) => micros / 1e6 <= bound);
      expect([micros, histogram.counts.indexOf(1)]).toEqual([micros, expected]);
    }
  });

  it.each([67_108_865, 2 ** 31, 2 ** 40])('counts %i µs above all bounds', (micros) => {
    const histogram = new DurationHistogram();
    histogram.record(micros * 1000);
    expect(histogram.counts.indexOf(1)).toBe(durationBoundsSecs.length);
  });

  it('keeps count and sum', () => {
    const histogram = new DurationHistogram();
    histogram.record(1500);
    histogram.record(2500);
    expect([histogram.count, histogram.sumNs]).toEqual([2, 4000]);
  });
});
