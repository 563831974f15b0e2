import type { Distribution } from './arrival-schedule.js';
import type { TensorFormat } from './infer-message.js';
import type { InputSource } from './input-data.js';
import type { MeasurementSettings } from './measurement.js';
import type { HeaderLines } from './request-head.js';
import type { LevelRange } from './sweep.js';

/** What is sent, and where. */
export interface CallOptions {
  readonly model: { readonly name: string; readonly version: string };
  readonly headers: HeaderLines;
  readonly input: InputSource;
  readonly inputFormat: TensorFormat;
  readonly outputFormat: TensorFormat;
  readonly batchSize: number;
  /** Input name → shape without the batch dimension. */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
  readonly seed: number;
}

/** How much of it. */
export type LoadOptions =
  | { readonly kind: 'concurrency'; readonly range: LevelRange }
  | {
      readonly kind: 'request-rate';
      readonly range: LevelRange;
      readonly distribution: Distribution;
      readonly connectionsMax: number;
    };

/** What `nereid bench` is to do. */
export interface BenchOptions {
  /** `host:port` or a URL. */
  readonly url: string;
  /** File with certificates of authorities, '' for those that Node.js knows. */
  readonly authoritiesFile: string;
  readonly verifiesPeer: boolean;
  readonly call: CallOptions;
  readonly load: LoadOptions;
  readonly isBinarySearch: boolean;
  /** Infinity where there is none. */
  readonly latencyThresholdMs: number;
  readonly measurement: MeasurementSettings;
  /** Files to write, '' for none. */
  readonly csvFile: string;
  readonly jsonFile: string;
}
