import type { LoadReport } from './load/load-report.js';
import type { Machine } from './machine.js';
import type { OnnxLoopReport } from './onnx-loop.js';

/** The server under load, next to the echo of the same bytes. Medians over the rounds. */
export interface Measurement {
  readonly scenario: string;
  readonly concurrency: number;
  readonly server: LoadReport;
  /** Rows an execution, from the server's statistics. */
  readonly averageBatch: number;
  readonly echo: LoadReport;
  /** Lowest and highest requests a second of the rounds. */
  readonly serverSpread: readonly [number, number];
}

export interface BenchResult {
  readonly machine: Machine;
  readonly client: string;
  readonly secondsEach: number;
  readonly rounds: number;
  readonly serverStartMs: number;
  readonly measurements: readonly Measurement[];
  /** By scenario: onnxruntime alone in one thread. */
  readonly onnxLoops: Readonly<Record<string, readonly OnnxLoopReport[]>>;
}

export function medianReport(reports: readonly LoadReport[]): LoadReport {
  return {
    requestsPerSec: median(reports.map(({ requestsPerSec }) => requestsPerSec)),
    p50Ms: median(reports.map(({ p50Ms }) => p50Ms)),
    p95Ms: median(reports.map(({ p95Ms }) => p95Ms)),
    p99Ms: median(reports.map(({ p99Ms }) => p99Ms)),
    errors: reports.reduce((sum, { errors }) => sum + errors, 0),
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** Two Markdown tables: the loads, and the limits of the models themselves. */
export function formatResult(result: BenchResult): string {
  const loads = formatTable(
    [
      'work',
      'conc.',
      'requests/s',
      'min-max',
      'p50 ms',
      'p95 ms',
      'p99 ms',
      'batch',
      'errors',
      'echo/s',
      'of echo',
      'of onnxruntime',
    ],
    result.measurements.map((measurement) => formatMeasurement(measurement, result)),
  );
  const loops = formatTable(
    ['model alone in one thread', 'batch', 'rows/s'],
    Object.entries(result.onnxLoops).flatMap(([scenario, reports]) =>
      reports.map(({ batchSize, rowsPerSec }) => [
        scenario,
        String(batchSize),
        rowsPerSec.toFixed(0),
      ]),
    ),
  );
  const { date, node, cores, processor } = result.machine;
  const setting =
    `${date}, Node.js ${node}, ${cores} x ${processor}, client ${result.client}, ` +
    `${result.rounds} x ${result.secondsEach} s each, server ready after ${result.serverStartMs.toFixed(0)} ms`;
  return `${setting}\n\n${loads}\n\n${loops}\n`;
}

function formatMeasurement(measurement: Measurement, result: BenchResult): readonly string[] {
  const { server, echo, serverSpread } = measurement;
  const best = Math.max(
    ...(result.onnxLoops[measurement.scenario] ?? []).map(({ rowsPerSec }) => rowsPerSec),
  );
  return [
    measurement.scenario,
    String(measurement.concurrency),
    server.requestsPerSec.toFixed(0),
    serverSpread.map((value) => value.toFixed(0)).join('-'),
    server.p50Ms.toFixed(2),
    server.p95Ms.toFixed(2),
    server.p99Ms.toFixed(2),
    measurement.averageBatch.toFixed(1),
    String(server.errors),
    echo.requestsPerSec.toFixed(0),
    formatRatio(server.requestsPerSec / echo.requestsPerSec),
    formatRatio(server.requestsPerSec / best),
  ];
}

function formatRatio(ratio: number): string {
  return Number.isFinite(ratio) ? `${(ratio * 100).toFixed(0)} %` : '-';
}

/** A Markdown table; all columns but the first are numbers. */
export function formatTable(
  heads: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const widths = heads.map((head, column) =>
    Math.max(head.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const format = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => pad(cell, widths[column] ?? 0, column)).join(' | ')} |`;
  const rule = `| ${widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`;
  return [format(heads), rule, ...rows.map(format)].join('\n');
}

function pad(cell: string, width: number, column: number): string {
  return column === 0 ? cell.padEnd(width) : cell.padStart(width);
}
