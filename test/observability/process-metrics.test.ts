import { describe, expect, it } from 'vitest';
import { ProcessorUse } from '../../src/observability/process-metrics.js';
import { FakeClock } from '../support/fake-clock.js';

describe('ProcessorUse', () => {
  it('is the busy share between two measurements, at most one an interval', () => {
    const clock = new FakeClock();
    let times = { idle: 0, total: 0 };
    const use = new ProcessorUse(clock, 2000, () => times);
    times = { idle: 75, total: 100 };
    clock.advanceMs(1999);
    expect(use.utilization()).toBe(0);
    clock.advanceMs(1);
    expect(use.utilization()).toBe(0.25);
    times = { idle: 75, total: 200 };
    expect(use.utilization()).toBe(0.25);
    clock.advanceMs(2000);
    expect(use.utilization()).toBe(1);
  });

  it('keeps its last value while no time has passed for the processors', () => {
    const clock = new FakeClock();
    const use = new ProcessorUse(clock, 1, () => ({ idle: 5, total: 9 }));
    clock.advanceMs(1);
    expect(use.utilization()).toBe(0);
  });
});
