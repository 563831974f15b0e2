import { describe, expect, it } from 'vitest';
import { EventLoopLag } from '../../src/observability/event-loop-lag.js';

describe('EventLoopLag', () => {
  it('reads as three finite, non-negative gauges, also while nothing has been measured', () => {
    const lag = new EventLoopLag();
    try {
      const samples = lag.families().flatMap((family) => [...family.samples()]);
      expect(samples.map(({ labels }) => labels['quantile'])).toEqual(['0.5', '0.99', '1']);
      for (const { value } of samples) expect(value).toBeGreaterThanOrEqual(0);
      for (const { value } of samples) expect(value).toBeLessThan(10);
    } finally {
      lag.close();
      lag.close();
    }
  });
});
