import type { ComputeStamps } from '../execution/messages.js';

/** Told of what instances did; statistics and metrics are made from it. */
export interface ExecutionRecorder {
  /** One execution of `rows` rows has succeeded. */
  executed(rows: number, stamps: ComputeStamps): void;
  /** One response of a decoupled model, in the order in which its request gave them. */
  responded(event: ResponseEvent): void;
}

/** One response of a decoupled model, for `response_stats`. */
export interface ResponseEvent {
  /** Index of the response within its request. */
  readonly index: number;
  readonly kind: 'success' | 'fail' | 'empty_response' | 'cancel';
  /** From the execution's start, or the former response, to this one. */
  readonly computeInferNs: number;
  readonly computeOutputNs: number;
}
