/** A count and the nanoseconds that its events took together. */
export interface StatisticDuration {
  count: number;
  ns: number;
}

/** Statistics of one model version as `/v2/models/M/stats` and `ModelStatistics` report them. */
export interface ModelStatistics {
  readonly name: string;
  readonly version: string;
  /** Milliseconds since the Unix epoch of the last request; 0 if there was none. */
  readonly lastInferenceMs: number;
  /** Rows that were inferred, cache hits not counted. */
  readonly inferenceCount: number;
  /** Executions, cache hits not counted. */
  readonly executionCount: number;
  readonly inference: Readonly<Record<InferenceStatistic, Readonly<StatisticDuration>>>;
  /** Keyed by the index of the response within its request; only for decoupled models. */
  readonly responses: ReadonlyMap<
    string,
    Readonly<Record<ResponseStatistic, Readonly<StatisticDuration>>>
  >;
  /** By rows of the execution, ascending. */
  readonly batches: readonly BatchStatistics[];
}

/** Members of `inference_stats` in the protocol; each is a count and a sum of nanoseconds. */
export type InferenceStatistic =
  | 'success'
  | 'fail'
  | 'queue'
  | 'compute_input'
  | 'compute_infer'
  | 'compute_output'
  | 'cache_hit'
  | 'cache_miss';

/** Members of `response_stats`, which tell the responses of decoupled models apart. */
export type ResponseStatistic =
  | 'compute_infer'
  | 'compute_output'
  | 'success'
  | 'fail'
  | 'empty_response'
  | 'cancel';

/** A row of `batch_stats`: executions of one batch size. */
export interface BatchStatistics {
  readonly batchSize: number;
  readonly computeInput: Readonly<StatisticDuration>;
  readonly computeInfer: Readonly<StatisticDuration>;
  readonly computeOutput: Readonly<StatisticDuration>;
}
