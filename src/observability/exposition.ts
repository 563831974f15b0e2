import { type DurationHistogram, durationBoundsSecs } from './duration-histogram.js';

/** Label names and values of one series. */
export type Labels = Readonly<Record<string, string>>;

/** One number of a family. */
export interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

/** A named set of series that is read when `/metrics` is. */
export interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly kind: 'counter' | 'gauge';
  samples(): Iterable<Sample>;
}

/** A series of a family with several numbers: a histogram's buckets, a summary's quantiles. */
export interface CompositeSeries {
  readonly labels: Labels;
  /** Bucket bounds or quantiles with their values, in order. */
  readonly points: readonly (readonly [point: string, value: number])[];
  readonly sum: number;
  readonly count: number;
}

/**
 * Prometheus text of a histogram or summary. prom-client makes these only from single
 * observations; ours are counted without it, and only their text is missing.
 */
export function formatComposite(
  name: string,
  help: string,
  kind: 'histogram' | 'summary',
  series: readonly CompositeSeries[],
): string {
  if (series.length === 0) return '';
  const [suffix, pointLabel] = kind === 'histogram' ? ['_bucket', 'le'] : ['', 'quantile'];
  const lines = [`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`];
  for (const { labels, points, sum, count } of series) {
    for (const [point, value] of points) {
      lines.push(`${name}${suffix}${formatLabels({ ...labels, [pointLabel]: point })} ${value}`);
    }
    lines.push(`${name}_sum${formatLabels(labels)} ${formatNumber(sum)}`);
    lines.push(`${name}_count${formatLabels(labels)} ${count}`);
  }
  return `${lines.join('\n')}\n`;
}

/** The cumulative buckets that Prometheus wants, in seconds. */
export function toHistogramSeries(labels: Labels, histogram: DurationHistogram): CompositeSeries {
  let cumulative = 0;
  const points = durationBoundsSecs.map((bound, index): readonly [string, number] => {
    cumulative += histogram.counts[index] ?? 0;
    return [String(bound), cumulative];
  });
  return {
    labels,
    points: [...points, ['+Inf', histogram.count]],
    sum: histogram.sumNs / 1e9,
    count: histogram.count,
  };
}

function formatLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
}

function formatNumber(value: number): string {
  return Number.isNaN(value) ? 'NaN' : String(value);
}
