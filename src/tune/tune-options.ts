import type { CallOptions } from '../bench-client/bench-options.js';

/** What `nereid tune` is to do. */
export interface TuneOptions {
  readonly model: string;
  /** Local folders, as the server takes them. */
  readonly repositories: readonly string[];
  /** Settings of backends, handed to the server as they are. */
  readonly backendConfig: readonly string[];
  readonly call: Pick<CallOptions, 'batchSize' | 'shapes' | 'seed' | 'input'>;
  /** Callers at once; undefined to find a number that keeps the model busy. */
  readonly concurrency: number | undefined;
  /** Infinity where there is none. */
  readonly latencyTargetMs: number;
  /** The percentile of latency that the target is about. */
  readonly percentile: number;
  readonly durationMaxSecs: number;
  readonly intervalMs: number;
  /** Undefined for as many as there are cores. */
  readonly instancesMax: number | undefined;
  /** Undefined for what fits the backend. */
  readonly batchSizeMax: number | undefined;
  /** Whether the winner is merged into the model's `config.pbtxt`. */
  readonly isWriting: boolean;
  /** File for the results, '' for none. */
  readonly jsonFile: string;
}
