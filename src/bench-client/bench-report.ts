import type { Measurement } from './measurement.js';
import type { ServerSplit } from './server-counts.js';
import type { SweepStep } from './sweep.js';
import { formatTable } from './text-table.js';

export type BenchStep = SweepStep<Measurement>;

/** What the levels of a sweep are. */
export type LevelKind = 'concurrency' | 'request-rate';

const percentiles = [50, 90, 95, 99] as const;

/** One line of the terminal's table, in which numbers of a sweep can be compared. */
export function formatSteps(kind: LevelKind, steps: readonly BenchStep[]): string {
  const head = [
    kind === 'concurrency' ? 'concurrency' : 'rate/s',
    'infer/s',
    'avg ms',
    ...percentiles.map((percentile) => `p${percentile} ms`),
    'failed',
    'queue ms',
    'compute ms',
    'batch',
    '',
  ];
  return formatTable([head, ...steps.map((step) => formatStep(kind, step))]);
}

function formatStep(kind: LevelKind, { level, measurement }: BenchStep): readonly string[] {
  const { latency, server } = measurement;
  const [model] = server;
  return [
    kind === 'concurrency' ? String(level) : formatNumber(level),
    formatNumber(measurement.inferencesPerSec),
    formatMs(latency.averageNs),
    ...percentiles.map((percentile) => formatMs(latency.percentileNs(percentile))),
    String(failureCount(measurement)),
    ...(model === undefined
      ? ['', '', '']
      : [
          formatMs(model.queueUs * 1000),
          formatMs(computeUs(model) * 1000),
          Number.isFinite(model.averageBatchSize) ? model.averageBatchSize.toFixed(1) : '',
        ]),
    remarks(measurement),
  ];
}

function remarks({ isStable, delayedCount, windows }: Measurement): string {
  const late = delayedCount > 0 ? [`${delayedCount} sent late`] : [];
  return [...(isStable ? [] : [`not stable in ${windows} windows`]), ...late].join(', ');
}

/** Models of an ensemble, each in a line; '' for models of one piece. */
export function formatEnsemble(steps: readonly BenchStep[]): string {
  const rows = steps.flatMap(({ level, measurement }) =>
    measurement.server
      .slice(1)
      .map((split) => [
        String(level),
        split.model,
        String(split.executions),
        formatMs(split.queueUs * 1000),
        formatMs(computeUs(split) * 1000),
        Number.isFinite(split.averageBatchSize) ? split.averageBatchSize.toFixed(1) : '',
      ]),
  );
  if (rows.length === 0) return '';
  return formatTable([['level', 'step', 'executions', 'queue ms', 'compute ms', 'batch'], ...rows]);
}

/** What failed at each level, and how often; '' where nothing did. */
export function formatFailures(steps: readonly BenchStep[]): string {
  return steps
    .flatMap(({ level, measurement }) =>
      [...measurement.failures].map(
        ([reason, times]) => `FAILED at ${formatNumber(level)}: ${times} x ${reason}\n`,
      ),
    )
    .join('');
}

/** With the column names of the reference server's client, in microseconds. */
export function formatCsv(kind: LevelKind, steps: readonly BenchStep[]): string {
  const head = [
    kind === 'concurrency' ? 'Concurrency' : 'Request Rate',
    'Inferences/Second',
    'Network+Server Send/Recv',
    'Server Queue',
    'Server Compute Input',
    'Server Compute Infer',
    'Server Compute Output',
    ...percentiles.map((percentile) => `p${percentile} latency`),
    'Avg latency',
    'Failed Requests',
    'Delayed Requests',
    'Average Batch Size',
  ];
  const rows = steps.map(({ level, measurement }) => csvRow(level, measurement).join(','));
  return `${[head.join(','), ...rows].join('\n')}\n`;
}

function csvRow(level: number, measurement: Measurement): readonly (string | number)[] {
  const { latency, server } = measurement;
  const [model] = server;
  const averageUs = latency.averageNs / 1000;
  const isKnown = model !== undefined;
  return [
    level,
    measurement.inferencesPerSec.toFixed(2),
    isKnown ? whole(averageUs - model.queueUs - computeUs(model)) : '',
    isKnown ? whole(model.queueUs) : '',
    isKnown ? whole(model.computeInputUs) : '',
    isKnown ? whole(model.computeInferUs) : '',
    isKnown ? whole(model.computeOutputUs) : '',
    ...percentiles.map((percentile) => whole(latency.percentileNs(percentile) / 1000)),
    whole(averageUs),
    failureCount(measurement),
    measurement.delayedCount,
    isKnown && Number.isFinite(model.averageBatchSize) ? model.averageBatchSize.toFixed(2) : '',
  ];
}

/** What the JSON file says of one level. */
export function jsonStep({ level, measurement }: BenchStep): Record<string, unknown> {
  const { latency, failures, server, windows, isStable, delayedCount } = measurement;
  return {
    level,
    requests_per_sec: measurement.requestsPerSec,
    inferences_per_sec: measurement.inferencesPerSec,
    requests: latency.count,
    latency_us: {
      average: latency.averageNs / 1000,
      standard_deviation: latency.standardDeviationNs / 1000,
      ...Object.fromEntries(
        [...percentiles, 99.9].map((percentile) => [
          `p${percentile}`,
          latency.percentileNs(percentile) / 1000,
        ]),
      ),
    },
    failures: Object.fromEntries(failures),
    delayed_requests: delayedCount,
    is_stable: isStable,
    windows,
    server: server.map(jsonSplit),
  };
}

function jsonSplit(split: ServerSplit): Record<string, unknown> {
  return {
    model: split.model,
    requests: split.requests,
    failed_requests: split.failedRequests,
    inferences: split.inferences,
    executions: split.executions,
    cache_hits: split.cacheHits,
    average_us: {
      queue: split.queueUs,
      compute_input: split.computeInputUs,
      compute_infer: split.computeInferUs,
      compute_output: split.computeOutputUs,
    },
    batches: split.batches.map(({ batchSize, executions }) => ({
      batch_size: batchSize,
      executions,
    })),
  };
}

function computeUs(split: ServerSplit): number {
  return split.computeInputUs + split.computeInferUs + split.computeOutputUs;
}

export function failureCount({ failures }: Pick<Measurement, 'failures'>): number {
  return [...failures.values()].reduce((sum, times) => sum + times, 0);
}

function whole(value: number): string {
  return String(Math.max(0, Math.round(value)));
}

/** Three digits that say something. */
export function formatNumber(value: number): string {
  if (Number.isInteger(value)) return String(value);
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

export function formatMs(ns: number): string {
  const ms = ns / 1e6;
  return ms >= 100 ? ms.toFixed(0) : ms.toFixed(ms >= 10 ? 1 : 2);
}
