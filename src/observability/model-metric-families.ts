import {
  type CompositeSeries,
  formatComposite,
  type Labels,
  type MetricFamily,
  type Sample,
  toHistogramSeries,
} from './exposition.js';
import { type FirstResponses, firstResponseFamily } from './first-responses.js';
import type { ModelStatistics } from './statistics.js';
import type { ModelStatisticsRecorder, SummarizedPhase } from './statistics-recorder.js';

/** A loaded model version as metrics see it. Its series live as long as it is listed. */
export interface MeteredModel {
  /** `model`, `version`, `namespace` where on, and `_KEY` for each metric tag. */
  readonly labels: Labels;
  readonly recorder: ModelStatisticsRecorder;
  /** Of a decoupled model where they are measured. */
  readonly firstResponses: FirstResponses | undefined;
  /** Accepted and not yet executing. */
  readonly pendingRequests: number;
  /** Seconds that the load took. */
  readonly loadSecs: number;
  /** The server and this model's configuration both have the response cache on. */
  readonly isCached: boolean;
}

/** What `--metrics-config` switches. */
export interface ModelMetricOptions {
  readonly isCounterLatencies: boolean;
  readonly isSummaryLatencies: boolean;
  readonly summaryQuantiles: readonly (readonly [quantile: number, error: number])[];
}

interface Snapshot {
  readonly model: MeteredModel;
  readonly statistics: ModelStatistics;
}

type ModelValue = (snapshot: Snapshot) => number;

/**
 * Families of one number a model, with the names and help texts of the reference server
 * (microseconds are truncated sums of nanoseconds).
 */
const counterTable: readonly (readonly [name: string, help: string, value: ModelValue])[] = [
  [
    'nv_inference_request_success',
    'Number of successful inference requests, all batch sizes',
    ({ statistics }) => statistics.inference.success.count,
  ],
  [
    'nv_inference_count',
    'Number of inferences performed (does not include cached requests)',
    ({ statistics }) => statistics.inferenceCount,
  ],
  [
    'nv_inference_exec_count',
    'Number of model executions performed (does not include cached requests)',
    ({ statistics }) => statistics.executionCount,
  ],
];

const latencyTable: readonly (readonly [name: string, help: string, value: ModelValue])[] = [
  [
    'nv_inference_request_duration_us',
    'Cumulative inference request duration in microseconds (includes cached requests)',
    ({ statistics }) => toMicros(statistics.inference.success.ns),
  ],
  [
    'nv_inference_queue_duration_us',
    'Cumulative inference queuing duration in microseconds (includes cached requests)',
    ({ statistics }) => toMicros(statistics.inference.queue.ns),
  ],
  [
    'nv_inference_compute_input_duration_us',
    'Cumulative compute input duration in microseconds (does not include cached requests)',
    ({ statistics }) => toMicros(statistics.inference.compute_input.ns),
  ],
  [
    'nv_inference_compute_infer_duration_us',
    'Cumulative compute inference duration in microseconds (does not include cached requests)',
    ({ statistics }) => toMicros(statistics.inference.compute_infer.ns),
  ],
  [
    'nv_inference_compute_output_duration_us',
    'Cumulative inference compute output duration in microseconds (does not include cached requests)',
    ({ statistics }) => toMicros(statistics.inference.compute_output.ns),
  ],
];

const cacheTable: readonly (readonly [name: string, help: string, value: ModelValue])[] = [
  [
    'nv_cache_num_hits_per_model',
    'Number of cache hits per model',
    ({ statistics }) => statistics.inference.cache_hit.count,
  ],
  [
    'nv_cache_num_misses_per_model',
    'Number of cache misses per model',
    ({ statistics }) => statistics.inference.cache_miss.count,
  ],
  [
    'nv_cache_hit_duration_per_model',
    'Total cache hit duration per model, in microseconds',
    ({ statistics }) => toMicros(statistics.inference.cache_hit.ns),
  ],
  [
    'nv_cache_miss_duration_per_model',
    'Total cache miss (insert+lookup) duration per model, in microseconds',
    ({ statistics }) => toMicros(statistics.inference.cache_miss.ns),
  ],
];

const summaryTable: readonly (readonly [
  name: string,
  help: string,
  phase: SummarizedPhase,
  statistic: keyof ModelStatistics['inference'],
])[] = [
  [
    'nv_inference_request_summary_us',
    'Summary of inference request duration in microseconds (includes cached requests)',
    'request',
    'success',
  ],
  [
    'nv_inference_queue_summary_us',
    'Summary of inference queuing duration in microseconds (includes cached requests)',
    'queue',
    'queue',
  ],
  [
    'nv_inference_compute_input_summary_us',
    'Cumulative compute input duration in microseconds (does not include cached requests)',
    'compute_input',
    'compute_input',
  ],
  [
    'nv_inference_compute_infer_summary_us',
    'Cumulative compute inference duration in microseconds (does not include cached requests)',
    'compute_infer',
    'compute_infer',
  ],
  [
    'nv_inference_compute_output_summary_us',
    'Cumulative inference compute output duration in microseconds (does not include cached requests)',
    'compute_output',
    'compute_output',
  ],
  [
    'nv_cache_hit_summary_per_model',
    'Summary of cache hit counts/durations per model, in microseconds.',
    'cache_hit',
    'cache_hit',
  ],
  [
    'nv_cache_miss_summary_per_model',
    'Summary of cache miss counts/durations per model, in microseconds.',
    'cache_miss',
    'cache_miss',
  ],
];

/** Counters and gauges of all `models`, from one snapshot of each. */
export function readModelFamilies(
  models: readonly MeteredModel[],
  options: ModelMetricOptions,
): readonly MetricFamily[] {
  const snapshots = models.map((model) => ({ model, statistics: model.recorder.snapshot() }));
  const cached = snapshots.filter(({ model }) => model.isCached);
  const latencies = options.isCounterLatencies ? latencyTable : [];
  return [
    ...[...counterTable, ...latencies].map((row) => toFamily('counter', row, snapshots)),
    {
      name: 'nv_inference_request_failure',
      help: 'Number of failed inference requests, all batch sizes',
      kind: 'counter',
      samples: () => models.flatMap(readFailures),
    },
    toFamily(
      'gauge',
      [
        'nv_inference_pending_request_count',
        'Instantaneous number of pending requests awaiting execution per-model.',
        ({ model }) => model.pendingRequests,
      ],
      snapshots,
    ),
    toFamily(
      'gauge',
      ['nv_model_load_duration_secs', 'Model load time in seconds', ({ model }) => model.loadSecs],
      snapshots,
    ),
    ...cacheTable.map((row) => toFamily('counter', row, cached)),
    toFamily(
      'counter',
      [
        'nereid_requests_refused_total',
        'Inference requests refused before they were queued (bad input, full queue, stopping)',
        ({ model }) => model.recorder.refusedRequests,
      ],
      snapshots,
    ),
    {
      name: 'nereid_executions_total',
      help: 'Model executions by their number of rows: the distribution of batch sizes',
      kind: 'counter',
      samples: () => snapshots.flatMap(readBatchSizes),
    },
  ];
}

/** Histograms, and summaries where they are on, as Prometheus text. */
export function formatModelDistributions(
  models: readonly MeteredModel[],
  options: ModelMetricOptions,
): string {
  const histograms = [
    formatComposite(
      'nereid_request_duration_seconds',
      'Duration of successful inference requests',
      'histogram',
      models.map(({ labels, recorder }) => toHistogramSeries(labels, recorder.requestDurations)),
    ),
    formatComposite(
      'nereid_queue_duration_seconds',
      'Time that successful inference requests waited in the queue',
      'histogram',
      models.map(({ labels, recorder }) => toHistogramSeries(labels, recorder.queueDurations)),
    ),
    formatComposite(
      firstResponseFamily,
      'Duration from request to first response in milliseconds',
      'histogram',
      models.flatMap(({ labels, firstResponses }) => firstResponses?.series(labels) ?? []),
    ),
  ].join('');
  return options.isSummaryLatencies ? histograms + formatSummaries(models, options) : histograms;
}

function formatSummaries(models: readonly MeteredModel[], options: ModelMetricOptions): string {
  return summaryTable
    .map(([name, help, phase, statistic]) => {
      const isOfCache = statistic === 'cache_hit' || statistic === 'cache_miss';
      // As in the reference server: cached models have no summary of the request as a whole.
      const shown = models.filter(({ isCached }) =>
        isOfCache ? isCached : !(phase === 'request' && isCached),
      );
      return formatComposite(
        name,
        help,
        'summary',
        shown.flatMap((model) => toSummarySeries(model, phase, statistic, options)),
      );
    })
    .join('');
}

function toSummarySeries(
  { labels, recorder }: MeteredModel,
  phase: SummarizedPhase,
  statistic: keyof ModelStatistics['inference'],
  options: ModelMetricOptions,
): readonly CompositeSeries[] {
  if (recorder.windows === undefined) return [];
  const quantiles = options.summaryQuantiles.map(([quantile]) => quantile);
  const values = recorder.windows[phase].quantiles(quantiles);
  const { count, ns } = recorder.snapshot().inference[statistic];
  return [
    {
      labels,
      points: quantiles.map((quantile, index) => [
        String(quantile),
        toMicros(values[index] ?? Number.NaN),
      ]),
      sum: toMicros(ns),
      count,
    },
  ];
}

function toFamily(
  kind: MetricFamily['kind'],
  [name, help, value]: readonly [string, string, ModelValue],
  snapshots: readonly Snapshot[],
): MetricFamily {
  const samples = (): readonly Sample[] =>
    snapshots.map((snapshot) => ({ labels: snapshot.model.labels, value: value(snapshot) }));
  return { name, help, kind, samples };
}

function readFailures({ labels, recorder }: MeteredModel): readonly Sample[] {
  return Object.entries(recorder.failures).map(([reason, value]) => ({
    labels: { ...labels, reason },
    value,
  }));
}

function readBatchSizes({ model, statistics }: Snapshot): readonly Sample[] {
  return statistics.batches.map(({ batchSize, computeInfer }) => ({
    labels: { ...model.labels, rows: String(batchSize) },
    value: computeInfer.count,
  }));
}

function toMicros(ns: number): number {
  return Math.floor(ns / 1000);
}
