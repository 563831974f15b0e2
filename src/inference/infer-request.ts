import type { ModelCall } from './model-call.js';
import type { Tensor } from './tensor.js';

/** A request or response parameter: `bigint` is an int64, `number` a double. */
export type ParameterValue = string | boolean | bigint | number;
/** Custom parameters of a request, response or tensor, by name. */
export type Parameters = ReadonlyMap<string, ParameterValue>;

/** Shared by every request without parameters. */
export const noParameters: Parameters = new Map();

/** Sequence extension: which sequence a request belongs to. Numeric and string ids are two spaces. */
export interface SequenceFlags {
  readonly correlationId: bigint | string;
  readonly start: boolean;
  readonly end: boolean;
}

/** One client call, independent of the protocol that brought it. */
export interface InferenceRequest {
  readonly modelName: string;
  /** Decimal version, or '' for the version that the policy makes the default. */
  readonly modelVersion: string;
  /** '' when the client gave none. */
  readonly id: string;
  /** What the model may see; scheduler settings below are not repeated here. */
  readonly parameters: Parameters;
  /** 0 is "the model's default level"; 1 is the highest. */
  readonly priority: number;
  /** Microseconds the request may wait in the queue; 0 is no limit of its own. */
  readonly timeoutUs: number;
  readonly sequence: SequenceFlags | undefined;
  readonly inputs: readonly Tensor[];
  /** Names of the outputs asked for; empty asks for all. */
  readonly requestedOutputs: readonly string[];
  /**
   * True where every output leaves as a JSON array: the instance's thread may then answer large
   * outputs with `encoding: 'json'`.
   */
  readonly prefersJsonText: boolean;
  /** The call of another model that this request answers, whole or as a step; none of a client's. */
  readonly call?: ModelCall | undefined;
}
