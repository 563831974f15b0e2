import { describe, expect, it } from 'vitest';
import { ArrivalSchedule } from '../../src/bench-client/arrival-schedule.js';
import type { Load } from '../../src/bench-client/load.js';
import {
  LatencySummary,
  LoadRecorder,
  type LoadWindow,
  mergeWindows,
} from '../../src/bench-client/load-window.js';
import { type MeasurementSettings, measureLoad } from '../../src/bench-client/measurement.js';
import { createRandom } from '../../src/bench-client/random.js';
import type { CountsByModel } from '../../src/bench-client/server-counts.js';
import { sweep } from '../../src/bench-client/sweep.js';

/** A window of a second with `count` answers of `latencyMs` each. */
function windowOf(count: number, latencyMs: number): LoadWindow {
  return {
    durationNs: 1e9,
    latenciesNs: new Float64Array(count).fill(latencyMs * 1e6),
    failures: new Map(),
    delayedCount: 0,
  };
}

/** Ends the given windows one after the other; the last one repeats. */
class FakeLoad implements Load {
  readonly events: string[] = [];
  readonly #windows: readonly LoadWindow[];
  #next = -1;

  constructor(windows: readonly LoadWindow[]) {
    this.#windows = windows;
  }

  start(): void {
    this.events.push('start');
  }

  /** The first call throws away what came before the first window. */
  take(): LoadWindow {
    const window = this.#windows[Math.min(Math.max(0, this.#next), this.#windows.length - 1)];
    this.#next += 1;
    return window ?? windowOf(0, 0);
  }

  async stop(): Promise<void> {
    this.events.push('stop');
  }
}

const settings: MeasurementSettings = {
  intervalMs: 1000,
  stabilityPercentage: 10,
  trialsMax: 10,
  percentile: 0,
  warmupRequests: 0,
  batchSize: 4,
};

function measure(windows: readonly LoadWindow[], changed: Partial<MeasurementSettings> = {}) {
  const load = new FakeLoad(windows);
  const measured = measureLoad(
    { load, readCounts: async () => new Map(), wait: async () => undefined },
    { ...settings, ...changed },
  );
  return { load, measured };
}

describe('measureLoad', () => {
  it('ends with the third window that agrees, and joins these three', async () => {
    const { measured } = measure([
      windowOf(50, 1),
      windowOf(100, 1),
      windowOf(105, 1.05),
      windowOf(95, 0.95),
    ]);
    const { windows, isStable, requestsPerSec, inferencesPerSec, latency } = await measured;
    expect([windows, isStable, requestsPerSec, inferencesPerSec]).toEqual([4, true, 100, 400]);
    expect(latency.count).toBe(300);
  });

  it.each([
    [
      'throughput within the percentage',
      [windowOf(100, 1), windowOf(109, 1), windowOf(91, 1)],
      true,
    ],
    ['throughput beyond it', [windowOf(100, 1), windowOf(111, 1), windowOf(89, 1)], false],
    ['latency within it', [windowOf(100, 1), windowOf(100, 1.09), windowOf(100, 0.91)], true],
    ['latency beyond it', [windowOf(100, 1), windowOf(100, 1.12), windowOf(100, 0.88)], false],
  ])('says whether windows agree: %s', async (_, windows, isStable) => {
    expect(await measure(windows, { trialsMax: 3 }).measured).toMatchObject({
      isStable,
      windows: 3,
    });
  });

  it('judges by the percentile that is named', async () => {
    const latenciesNs = Float64Array.from({ length: 100 }, (_, index) => (index + 1) * 1e6);
    const window = { ...windowOf(0, 0), latenciesNs };
    expect((await measure([window], { percentile: 95 }).measured).judgedLatencyNs).toBe(95e6);
    expect((await measure([window]).measured).judgedLatencyNs).toBe(50.5e6);
  });

  it('fails where nothing is answered, saying why, and stops the load', async () => {
    const failures = new Map([['connect ECONNREFUSED', 7]]);
    const { load, measured } = measure([{ ...windowOf(0, 0), failures }]);
    await expect(measured).rejects.toThrow('7 x connect ECONNREFUSED');
    expect(load.events).toEqual(['start', 'stop']);
  });

  it('counts failures of all windows', async () => {
    const failures = new Map([['500: no', 1]]);
    const bad = { ...windowOf(10, 1), failures };
    const good = windowOf(100, 1);
    const measurement = await measure([bad, good, good, good]).measured;
    expect([...measurement.failures]).toEqual([['500: no', 1]]);
  });

  it('takes the server’s share from the counters around the windows that count', async () => {
    const counts = (queueMs: number, requests: number): CountsByModel => {
      const none = { count: 0, ns: 0 };
      const durations = {
        success: { count: requests, ns: 0 },
        fail: none,
        queue: { count: requests, ns: queueMs * 1e6 },
        compute_input: none,
        compute_infer: none,
        compute_output: none,
        cache_hit: none,
      };
      const batches = new Map([[2, requests / 2]]);
      return new Map([
        ['m', { inferences: requests, executions: requests / 2, durations, batches }],
      ]);
    };
    const readings = [counts(0, 0), counts(5000, 10), counts(5010, 20), counts(5020, 30)];
    readings.push(counts(5030, 40));
    const windows = [windowOf(1, 1), windowOf(100, 1), windowOf(100, 1), windowOf(100, 1)];
    const measurement = await measureLoad(
      {
        load: new FakeLoad(windows),
        readCounts: async () => readings.shift() ?? new Map(),
        wait: async () => undefined,
      },
      settings,
    );
    expect(measurement.server).toMatchObject([
      { model: 'm', requests: 30, queueUs: 1000, averageBatchSize: 2 },
    ]);
    expect(measurement.server[0]?.batches).toEqual([{ batchSize: 2, executions: 15 }]);
  });
});

describe('LatencySummary', () => {
  const summary = new LatencySummary(Float64Array.of(40, 10, 30, 20));
  it.each([
    [0, 10],
    [25, 10],
    [26, 20],
    [50, 20],
    [75, 30],
    [99, 40],
    [100, 40],
  ])('finds percentile %d by the nearest rank', (percentile, latencyNs) => {
    expect(summary.percentileNs(percentile)).toBe(latencyNs);
  });

  it('knows average and deviation, and nothing where there are no answers', () => {
    expect(summary.averageNs).toBe(25);
    expect(summary.standardDeviationNs).toBeCloseTo(11.18, 2);
    expect(new LatencySummary(new Float64Array(0)).percentileNs(50)).toBeNaN();
  });
});

describe('LoadRecorder', () => {
  it('hands out each window once, whatever it holds', () => {
    const recorder = new LoadRecorder(100);
    for (let index = 0; index < 3000; index++) recorder.succeed(index);
    recorder.fail('x');
    recorder.delay();
    const first = recorder.take(300);
    expect([first.durationNs, first.latenciesNs.length, first.delayedCount]).toEqual([
      200, 3000, 1,
    ]);
    expect(first.latenciesNs[2999]).toBe(2999);
    const second = recorder.take(350);
    expect([second.durationNs, second.latenciesNs.length, second.failures.size]).toEqual([
      50, 0, 0,
    ]);
    const merged = mergeWindows([first, second]);
    expect([merged.durationNs, merged.latenciesNs.length]).toEqual([250, 3000]);
  });

  it('tells a bounded number of failures apart', () => {
    const recorder = new LoadRecorder(0);
    for (let index = 0; index < 30; index++) recorder.fail(`reason ${index % 25}`);
    const { failures } = recorder.take(1);
    expect(failures.size).toBe(21);
    expect(failures.get('other failures')).toBe(5);
    expect(failures.get('reason 0')).toBe(2);
  });
});

describe('ArrivalSchedule', () => {
  it('keeps constant gaps', () => {
    const schedule = new ArrivalSchedule(1000, 4, 'constant', createRandom(1));
    expect([schedule.take(), schedule.take(), schedule.nextNs]).toEqual([
      1000, 250001000, 500001000,
    ]);
  });

  it('makes Poisson arrivals of the same mean, whose gaps vary as much as they are long', () => {
    const schedule = new ArrivalSchedule(0, 1000, 'poisson', createRandom(1));
    const times = Array.from({ length: 20_001 }, () => schedule.take());
    const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0));
    const { averageNs, standardDeviationNs } = new LatencySummary(Float64Array.from(gaps));
    expect(averageNs / 1e6).toBeCloseTo(1, 1);
    expect(standardDeviationNs / 1e6).toBeCloseTo(1, 1);
  });
});

describe('sweep', () => {
  const levelsOf = async (
    [start, end, step]: readonly [number, number, number],
    isBinarySearch: boolean,
    latencyThresholdNs: number,
  ) => {
    const asked: number[] = [];
    const steps = await sweep(
      { range: { start, end, step }, isBinarySearch, latencyThresholdNs },
      async (level) => {
        asked.push(level);
        return { judgedLatencyNs: level * 10 };
      },
    );
    expect(steps.map(({ level }) => level)).toEqual([...asked].sort((a, b) => a - b));
    return asked;
  };
  const none = Number.POSITIVE_INFINITY;

  it.each([
    ['one level', [4, 4, 1], false, none, [4]],
    ['all levels', [1, 9, 4], false, none, [1, 5, 9]],
    ['no level beyond the end', [1, 8, 4], false, none, [1, 5]],
    ['fractions of a rate', [0.5, 1, 0.25], false, none, [0.5, 0.75, 1]],
    ['the first level over the threshold, and no more', [1, 9, 1], false, 30, [1, 2, 3, 4]],
    ['a level at the threshold', [3, 3, 1], false, 30, [3]],
    ['halves on the way to the highest level within', [1, 7, 1], true, 50, [4, 6, 5]],
    ['the lowest level where none is within', [1, 7, 1], true, 5, [4, 2, 1]],
  ] as const)('measures %s', async (_, range, isBinarySearch, thresholdNs, levels) => {
    expect(await levelsOf(range, isBinarySearch, thresholdNs)).toEqual(levels);
  });
});
