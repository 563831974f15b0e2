import { unavailable } from '../errors.js';
import type { Load } from './load.js';
import { LatencySummary, type LoadWindow, mergeWindows } from './load-window.js';
import { type CountsByModel, type ServerSplit, splitBetween } from './server-counts.js';

/** How one line of a sweep is measured. */
export interface MeasurementSettings {
  /** Length of a window. */
  readonly intervalMs: number;
  /** How far the last windows may lie from their mean, in percent. */
  readonly stabilityPercentage: number;
  /** Windows after which the last ones count although they are not stable. */
  readonly trialsMax: number;
  /** The latency that must be stable, and that a threshold is compared with; 0 is the average. */
  readonly percentile: number;
  /** Answers that are waited for before the first window. */
  readonly warmupRequests: number;
  /** Rows of a request. */
  readonly batchSize: number;
}

export interface Measurement {
  readonly requestsPerSec: number;
  /** Requests times their rows. */
  readonly inferencesPerSec: number;
  readonly latency: LatencySummary;
  /** The one that {@link MeasurementSettings.percentile} names. */
  readonly judgedLatencyNs: number;
  readonly failures: ReadonlyMap<string, number>;
  readonly delayedCount: number;
  /** The model first, then the models that it is made of; empty where the server tells nothing. */
  readonly server: readonly ServerSplit[];
  readonly windows: number;
  readonly isStable: boolean;
}

/** The windows that must agree, as in the reference server's client. */
const stableWindows = 3;

/** What a measurement needs from outside. */
export interface MeasurementSource {
  readonly load: Load;
  readCounts(): Promise<CountsByModel>;
  wait(ms: number): Promise<void>;
}

/**
 * Measures windows until the last three agree in throughput and latency, and returns these three as
 * one. The load is started, and stopped whatever happens. UNAVAILABLE where not one request was
 * answered in a window.
 */
export async function measureLoad(
  { load, readCounts, wait }: MeasurementSource,
  settings: MeasurementSettings,
): Promise<Measurement> {
  load.start();
  try {
    await warmUp(load, wait, settings.warmupRequests);
    const windows: LoadWindow[] = [];
    load.take();
    const counts: CountsByModel[] = [await readCounts()];
    while (windows.length < settings.trialsMax) {
      await wait(settings.intervalMs);
      const window = load.take();
      counts.push(await readCounts());
      windows.push(window);
      if (window.latenciesNs.length === 0) throw unavailable(nothingAnswered(window));
      if (isStable(windows, settings)) break;
    }
    const before = counts[Math.max(0, windows.length - stableWindows)] ?? new Map();
    const server = splitBetween(before, counts.at(-1) ?? new Map());
    return summarize(windows, server, settings);
  } finally {
    await load.stop();
  }
}

/** How often is looked whether the warm-up is over, and after how long it is over anyway. */
const warmupPollMs = 10;
const warmupMsMax = 60_000;

async function warmUp(
  load: Load,
  wait: MeasurementSource['wait'],
  requests: number,
): Promise<void> {
  let left = requests;
  for (let elapsedMs = 0; left > 0 && elapsedMs < warmupMsMax; elapsedMs += warmupPollMs) {
    await wait(warmupPollMs);
    left -= load.take().latenciesNs.length;
  }
}

function summarize(
  windows: readonly LoadWindow[],
  server: readonly ServerSplit[],
  settings: MeasurementSettings,
): Measurement {
  const merged = mergeWindows(windows.slice(-stableWindows));
  const latency = new LatencySummary(merged.latenciesNs);
  const requestsPerSec = latency.count / (merged.durationNs / 1e9);
  return {
    requestsPerSec,
    inferencesPerSec: requestsPerSec * settings.batchSize,
    latency,
    judgedLatencyNs: judgedLatencyNs(latency, settings.percentile),
    failures: mergeWindows(windows).failures,
    delayedCount: merged.delayedCount,
    server,
    windows: windows.length,
    isStable: isStable(windows, settings),
  };
}

/** True where each of the last windows lies near their mean, in throughput and in latency. */
function isStable(
  windows: readonly LoadWindow[],
  { stabilityPercentage, percentile }: MeasurementSettings,
): boolean {
  if (windows.length < stableWindows) return false;
  const last = windows.slice(-stableWindows);
  const rates = last.map(({ latenciesNs, durationNs }) => latenciesNs.length / durationNs);
  const latencies = last.map(({ latenciesNs }) =>
    judgedLatencyNs(new LatencySummary(latenciesNs), percentile),
  );
  return [rates, latencies].every((values) => agree(values, stabilityPercentage / 100));
}

function agree(values: readonly number[], tolerance: number): boolean {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.every((value) => Math.abs(value - mean) <= tolerance * mean);
}

function judgedLatencyNs(latency: LatencySummary, percentile: number): number {
  return percentile === 0 ? latency.averageNs : latency.percentileNs(percentile);
}

function nothingAnswered({ failures }: LoadWindow): string {
  if (failures.size === 0) return 'no request was answered; is --measurement-interval too short?';
  const reasons = [...failures].map(([reason, times]) => `${times} x ${reason}`);
  return `no request was answered: ${reasons.join('; ')}`;
}
