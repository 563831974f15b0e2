import { list, member } from './model-inputs.js';
import type { ModelName, V2Server } from './v2-server.js';

type DurationName =
  | 'success'
  | 'fail'
  | 'queue'
  | 'compute_input'
  | 'compute_infer'
  | 'compute_output'
  | 'cache_hit';

interface Duration {
  readonly count: number;
  readonly ns: number;
}

/** Counters of one model from `/stats`, which only grow. */
export interface ServerCounts {
  readonly inferences: number;
  readonly executions: number;
  readonly durations: Readonly<Record<DurationName, Duration>>;
  /** Rows of an execution → executions of that size. */
  readonly batches: ReadonlyMap<number, number>;
}

/** Where a server spent its time between two readings, on average for each request. */
export interface ServerSplit {
  readonly model: string;
  readonly requests: number;
  readonly failedRequests: number;
  readonly inferences: number;
  readonly executions: number;
  readonly cacheHits: number;
  readonly queueUs: number;
  readonly computeInputUs: number;
  readonly computeInferUs: number;
  readonly computeOutputUs: number;
  /** Not a number where nothing was executed. */
  readonly averageBatchSize: number;
  readonly batches: readonly { readonly batchSize: number; readonly executions: number }[];
}

/** Counters of the model and of the models that it is made of; empty where the server tells none. */
export type CountsByModel = ReadonlyMap<string, ServerCounts>;

export async function readCounts(
  server: V2Server,
  model: ModelName,
  steps: readonly string[],
): Promise<CountsByModel> {
  const counts = new Map<string, ServerCounts>();
  for (const one of [model, ...steps.map((name) => ({ name, version: '' }))]) {
    const document = await server.statistics(one);
    const rows = list(member(document, 'model_stats'));
    if (rows.length > 0) counts.set(one.name, rows.map(readRow).reduce(addCounts));
  }
  return counts;
}

export function splitBetween(before: CountsByModel, after: CountsByModel): readonly ServerSplit[] {
  return [...after].map(([model, end]) => {
    const start = before.get(model);
    return splitOf(model, start === undefined ? end : combine(end, start, (a, b) => a - b));
  });
}

function splitOf(model: string, counts: ServerCounts): ServerSplit {
  const { durations } = counts;
  const averageUs = (name: DurationName): number =>
    durations[name].count > 0 ? durations[name].ns / durations[name].count / 1000 : 0;
  return {
    model,
    requests: durations.success.count,
    failedRequests: durations.fail.count,
    inferences: counts.inferences,
    executions: counts.executions,
    cacheHits: durations.cache_hit.count,
    queueUs: averageUs('queue'),
    computeInputUs: averageUs('compute_input'),
    computeInferUs: averageUs('compute_infer'),
    computeOutputUs: averageUs('compute_output'),
    averageBatchSize: counts.inferences / counts.executions,
    batches: [...counts.batches]
      .filter(([, executions]) => executions > 0)
      .sort(([left], [right]) => left - right)
      .map(([batchSize, executions]) => ({ batchSize, executions })),
  };
}

function readRow(row: unknown): ServerCounts {
  const stats = member(row, 'inference_stats');
  const batches = list(member(row, 'batch_stats')).map((batch): readonly [number, number] => [
    count(member(batch, 'batch_size')),
    count(member(member(batch, 'compute_infer'), 'count')),
  ]);
  return {
    inferences: count(member(row, 'inference_count')),
    executions: count(member(row, 'execution_count')),
    durations: durationsFrom((name) => ({
      count: count(member(member(stats, name), 'count')),
      ns: count(member(member(stats, name), 'ns')),
    })),
    batches: new Map(batches),
  };
}

/** A counter in a server's answer; 0 where there is none. */
function count(value: unknown): number {
  const number = Number(value ?? 0);
  return Number.isFinite(number) ? number : 0;
}

/** Versions of a model, together. */
function addCounts(left: ServerCounts, right: ServerCounts): ServerCounts {
  return combine(left, right, (a, b) => a + b);
}

function combine(
  left: ServerCounts,
  right: ServerCounts,
  join: (left: number, right: number) => number,
): ServerCounts {
  const sizes = new Set([...left.batches.keys(), ...right.batches.keys()]);
  const batchesOf = (counts: ServerCounts, size: number) => counts.batches.get(size) ?? 0;
  return {
    inferences: join(left.inferences, right.inferences),
    executions: join(left.executions, right.executions),
    durations: durationsFrom((name) => ({
      count: join(left.durations[name].count, right.durations[name].count),
      ns: join(left.durations[name].ns, right.durations[name].ns),
    })),
    batches: new Map(
      [...sizes].map((size) => [size, join(batchesOf(left, size), batchesOf(right, size))]),
    ),
  };
}

function durationsFrom(
  read: (name: DurationName) => Duration,
): Readonly<Record<DurationName, Duration>> {
  return {
    success: read('success'),
    fail: read('fail'),
    queue: read('queue'),
    compute_input: read('compute_input'),
    compute_infer: read('compute_infer'),
    compute_output: read('compute_output'),
    cache_hit: read('cache_hit'),
  };
}
