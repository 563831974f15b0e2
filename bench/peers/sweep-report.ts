import { drawPlot } from '../plot.js';
import { formatTable } from '../report.js';
import type { SweepPoint } from './sweep.js';

/** What is new replaces what was measured before for the same server and load. */
export function mergePoints(
  older: readonly SweepPoint[],
  newer: readonly SweepPoint[],
): readonly SweepPoint[] {
  const key = ({ contest, server, load }: SweepPoint): string =>
    `${contest} ${server} ${load.kind} ${load.value}`;
  const replaced = new Set(newer.map(key));
  return [...older.filter((point) => !replaced.has(key(point))), ...newer].sort(
    (left, right) => left.load.value - right.load.value,
  );
}

/** A Markdown table of one contest's points. */
export function formatPoints(points: readonly SweepPoint[]): string {
  return formatTable(
    ['server, wire form', 'load', 'requests/s', 'min-max', 'p50 ms', 'p99 ms', 'min-max', 'errors'],
    points.map(({ server, load, report, requestsPerSec, p99Ms }) => [
      server,
      load.kind === 'closed' ? `${load.value} callers` : `${load.value}/s`,
      report.requestsPerSec.toFixed(0),
      `${requestsPerSec.min.toFixed(0)}-${requestsPerSec.max.toFixed(0)}`,
      report.p50Ms.toFixed(2),
      report.p99Ms.toFixed(2),
      `${p99Ms.min.toFixed(2)}-${p99Ms.max.toFixed(2)}`,
      String(report.errors),
    ]),
  );
}

/** Throughput against latency, a curve for each server; undefined without such points. */
export function plotPoints(
  title: string,
  kind: SweepPoint['load']['kind'],
  points: readonly SweepPoint[],
): string | undefined {
  const chosen = points.filter(({ load, report }) => load.kind === kind && report.p99Ms > 0);
  if (chosen.length === 0) return undefined;
  const servers = [...new Set(chosen.map(({ server }) => server))];
  return drawPlot({
    title,
    xLabel:
      kind === 'closed'
        ? 'requests/s (numbers: callers that each wait for their answer)'
        : 'requests/s that arrive, whatever the server does',
    yLabel: 'p99 latency, ms',
    curves: servers.map((name) => ({
      name,
      points: chosen
        .filter(({ server }) => server === name)
        .map(({ load, report }) => ({
          x: kind === 'closed' ? report.requestsPerSec : load.value,
          y: report.p99Ms,
          label: kind === 'closed' ? String(load.value) : '',
        })),
    })),
  });
}
