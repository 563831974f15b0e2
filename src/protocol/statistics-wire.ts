import type {
  InferenceStatistic,
  ModelStatistics,
  ResponseStatistic,
  StatisticDuration,
} from '../observability/statistics.js';
import { ListSerializer } from './list-serializer.js';

/** Statistics by their wire names; also the JSON form of `inference.ModelStatisticsResponse`. */
export interface StatisticsDocument {
  readonly model_stats: readonly ModelStatisticsRow[];
}

interface ModelStatisticsRow {
  readonly name: string;
  readonly version: string;
  readonly last_inference: number;
  readonly inference_count: number;
  readonly execution_count: number;
  readonly inference_stats: Durations<InferenceStatistic>;
  readonly response_stats: Readonly<Record<string, Durations<ResponseStatistic>>>;
  readonly batch_stats: readonly BatchStatisticsRow[];
  readonly memory_usage: readonly never[];
}

type Durations<Name extends string> = Readonly<Record<Name, Readonly<StatisticDuration>>>;

type BatchStatisticsRow = { readonly batch_size: number } & Durations<
  'compute_input' | 'compute_infer' | 'compute_output'
>;

/** `/v2/models/stats`. Counters are doubles: exact below 2^53, 104 days in ns. */
export class StatisticsWriter {
  readonly #serializer = new ListSerializer<StatisticsDocument>(statisticsSchema);

  body(models: readonly ModelStatistics[]): Uint8Array {
    const document = statisticsDocument(models);
    return Buffer.from(this.#serializer.serialize(document, models.length), 'utf8');
  }
}

/** The body of a statistics answer, in names of the protocol. */
export function statisticsDocument(models: readonly ModelStatistics[]): StatisticsDocument {
  return { model_stats: models.map(toRow) };
}

function toRow(model: ModelStatistics): ModelStatisticsRow {
  return {
    name: model.name,
    version: model.version,
    last_inference: model.lastInferenceMs,
    inference_count: model.inferenceCount,
    execution_count: model.executionCount,
    inference_stats: model.inference,
    response_stats: Object.fromEntries(model.responses),
    batch_stats: model.batches.map((batch) => ({
      batch_size: batch.batchSize,
      compute_input: batch.computeInput,
      compute_infer: batch.computeInfer,
      compute_output: batch.computeOutput,
    })),
    memory_usage: [],
  };
}

const integer = { type: 'integer' } as const;
const duration = { type: 'object', properties: { count: integer, ns: integer } } as const;

function durations(names: readonly string[]): Record<string, typeof duration> {
  return Object.fromEntries(names.map((name) => [name, duration]));
}

/** Each name once: a statistic that is added to the union must be added here to compile. */
const inferenceStatistics: Readonly<Record<InferenceStatistic, true>> = {
  success: true,
  fail: true,
  queue: true,
  compute_input: true,
  compute_infer: true,
  compute_output: true,
  cache_hit: true,
  cache_miss: true,
};

const responseStatistics: Readonly<Record<ResponseStatistic, true>> = {
  compute_infer: true,
  compute_output: true,
  success: true,
  fail: true,
  empty_response: true,
  cancel: true,
};

const statisticsSchema = {
  type: 'object',
  properties: {
    model_stats: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          name: { type: 'string' },
          version: { type: 'string' },
          last_inference: integer,
          inference_count: integer,
          execution_count: integer,
          inference_stats: {
            type: 'object',
            properties: durations(Object.keys(inferenceStatistics)),
          },
          response_stats: {
            type: 'object',
            additionalProperties: {
              type: 'object',
              properties: durations(Object.keys(responseStatistics)),
            },
          },
          batch_stats: {
            type: 'array',
            items: {
              type: 'object',
              properties: {
                batch_size: integer,
                ...durations(['compute_input', 'compute_infer', 'compute_output']),
              },
            },
          },
          memory_usage: { type: 'array', items: { type: 'object' } },
        },
      },
    },
  },
} as const;
