import { describe, expect, it } from 'vitest';
import { simulateDay, targetMs } from '../../bench/micro/scheduling/adaptive-batching.bench.js';
import { AdaptiveBatching } from '../../src/scheduling/adaptive-batching.js';
import { ExecutionTimeModel } from '../../src/scheduling/execution-time-model.js';
import { batchSizeOptions } from '../../src/scheduling/scheduling-options.js';

describe('ExecutionTimeModel', () => {
  it('knows nothing at first', () => {
    const model = new ExecutionTimeModel();
    expect(model.isKnown).toBe(false);
    expect(model.durationNs(8)).toBe(0);
  });

  it('separates the fixed part from the share of a row', () => {
    const model = new ExecutionTimeModel();
    for (let index = 0; index < 50; index += 1) {
      const rows = 1 + (index % 7);
      model.observe(rows, 4000 + 250 * rows);
    }
    expect(model.durationNs(0)).toBeCloseTo(4000);
    expect(model.durationNs(64)).toBeCloseTo(4000 + 250 * 64);
    expect(model.rowsWithin(5000)).toBeCloseTo(4);
    expect(model.rowsWithin(3999)).toBe(0);
  });

  it('takes all as fixed while batches are of one size', () => {
    const model = new ExecutionTimeModel();
    for (let index = 0; index < 9; index += 1) model.observe(4, 1000);
    expect(model.durationNs(64)).toBeCloseTo(1000);
    expect(model.rowsWithin(1001)).toBe(Number.POSITIVE_INFINITY);
  });

  it('never expects more rows to take less time', () => {
    const model = new ExecutionTimeModel();
    for (let index = 0; index < 50; index += 1) {
      const rows = 1 + (index % 7);
      model.observe(rows, 4000 - 250 * rows);
    }
    expect(model.durationNs(64)).toBeGreaterThanOrEqual(model.durationNs(1));
  });

  it('follows a model that has become slower', () => {
    const model = new ExecutionTimeModel();
    for (let index = 0; index < 300; index += 1) model.observe(1 + (index % 4), 1000);
    for (let index = 0; index < 300; index += 1) model.observe(1 + (index % 4), 9000);
    expect(model.durationNs(2)).toBeGreaterThan(8900);
  });
});

describe('AdaptiveBatching', () => {
  const configured = batchSizeOptions(64, [16], 3000);
  const secondNs = 1e9;

  /** A controller that has seen `seconds` of steady load, and the time at which they are over. */
  function afterLoad(rowsPerSecond: number, latencyNs: number, seconds: number) {
    const adaptive = new AdaptiveBatching(25e6, configured);
    return adaptive.options(live(adaptive, secondNs, rowsPerSecond, latencyNs, seconds));
  }

  function live(
    adaptive: AdaptiveBatching,
    startNs: number,
    rowsPerSecond: number,
    latencyNs: number,
    seconds: number,
  ): number {
    let nowNs = startNs;
    adaptive.options(nowNs);
    const periods = seconds * 10;
    for (let period = 0; period < periods; period += 1) {
      for (let row = 0; row < rowsPerSecond / 10; row += 1) adaptive.observeArrival(1);
      for (let index = 0; index < 100; index += 1) {
        const rows = 1 + (index % 8);
        adaptive.observeExecution(rows, 4e6 + 0.25e6 * rows);
        adaptive.observeLatency(latencyNs);
      }
      nowNs += secondNs / 10;
      adaptive.options(nowNs);
    }
    return nowNs;
  }

  it('uses the configuration until it knows anything', () => {
    const adaptive = new AdaptiveBatching(25e6, configured);
    expect(adaptive.options(secondNs)).toBe(configured);
    expect(adaptive.options(10 * secondNs)).toBe(configured);
  });

  it('waits for no company that will not come', () => {
    expect(afterLoad(10, 5e6, 5).queueDelayNs).toBe(0);
  });

  it('uses most of the target where requests arrive now and then', () => {
    const { queueDelayNs } = afterLoad(200, 22.5e6, 5);
    expect(queueDelayNs).toBeGreaterThan(8e6);
    expect(queueDelayNs).toBeLessThan(20e6);
  });

  it('cuts the delay while measured latencies miss the target', () => {
    const kept = afterLoad(200, 22.5e6, 5).queueDelayNs;
    const cut = afterLoad(200, 40e6, 5).queueDelayNs;
    expect(cut).toBeLessThan(kept / 4);
  });

  it('lengthens the delay while they are far below', () => {
    expect(afterLoad(200, 5e6, 5).queueDelayNs).toBeGreaterThan(
      afterLoad(200, 22.5e6, 5).queueDelayNs,
    );
  });

  it('never waits so long that an execution of its own would be late', () => {
    expect(afterLoad(200, 1e6, 30).queueDelayNs).toBeLessThanOrEqual(0.95 * 25e6 - 4.25e6);
  });

  it('learns nothing about the delay while batches fill up before it is over', () => {
    const small = batchSizeOptions(4, [], 3000);
    const quiet = (adaptive: AdaptiveBatching, startNs: number) =>
      adaptive.options(live(adaptive, startNs, 80, 22.5e6, 2)).queueDelayNs;
    const adaptive = new AdaptiveBatching(25e6, small);
    // 4 of 600 a second are there after 5 ms, long before a delay would be over.
    const afterBusy = quiet(adaptive, live(adaptive, secondNs, 600, 8e6, 10));
    const fresh = quiet(new AdaptiveBatching(25e6, small), secondNs);
    expect(afterBusy).toBeLessThan(1.05 * fresh);
  });

  it('caps a batch at what fits into the target beside another one', () => {
    const { batchSizeMax, preferredBatchSizes } = afterLoad(200, 22.5e6, 5);
    // 0.45 of 25 ms are 4 ms and 29 rows of 0.25 ms.
    expect(batchSizeMax).toBe(29);
    expect(preferredBatchSizes).toEqual([29]);
  });

  it('grows batches beyond that where arrivals need it, and never beyond the configuration', () => {
    expect(afterLoad(2600, 22.5e6, 5).batchSizeMax).toBeGreaterThan(40);
    expect(afterLoad(9000, 22.5e6, 5).batchSizeMax).toBe(64);
  });
});

describe('DynamicBatcher with a latency target', () => {
  it('keeps it through a simulated day with less instance time than any fixed delay that does', () => {
    const adaptive = simulateDay(12, undefined);
    expect(adaptive.worstP95Ms).toBeLessThan(targetMs);
    for (const delayMs of [0, 4, 8, 10, 12]) {
      const fixed = simulateDay(12, delayMs);
      expect(fixed.requests).toBe(adaptive.requests);
      expect(adaptive.busy).toBeLessThan(fixed.busy);
    }
    // Longer ones do fewer executions, and miss the target.
    for (const delayMs of [15, 20]) {
      expect(simulateDay(12, delayMs).worstP95Ms).toBeGreaterThan(targetMs);
    }
  });
});
