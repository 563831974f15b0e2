import type { Datatype } from '../../inference/datatype.js';
import type { ModelConfig } from '../../model-config/model-config.js';

/*
 * What the author of a JavaScript model sees: `1/model.js` or `1/model.mjs` exports one of these as
 * its default. It mirrors the Python model of the reference server, in the language's own manner.
 */

/**
 * Elements of a tensor, row-major. FP16 and BF16 are bit patterns; BOOL is 0 and 1; BYTES is one
 * array of bytes an element.
 */
export type TensorData =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float32Array
  | Float64Array
  | readonly Uint8Array[];

/** A tensor that the model receives. `data` is a view of the request's own memory. */
export interface ReceivedTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: TensorData;
  /** Elements of a BYTES tensor as text. */
  strings(): string[];
}

/** A tensor that the model gives. */
export interface GivenTensor {
  readonly name: string;
  /** Default: the configuration's. */
  readonly datatype?: Datatype;
  /** Default: the configuration's, with the rows of the request; one variable dimension is deduced. */
  readonly shape?: readonly number[];
  /** As in {@link TensorData}; lists of numbers, bigints, booleans and strings are converted. */
  readonly data: TensorData | readonly (number | bigint | boolean | string | Uint8Array)[];
}

/** Custom parameters by name. */
export type ModelParameters = Readonly<Record<string, string | boolean | number | bigint>>;

/** A request. `send` and `end` are for decoupled models, `reschedule` for iterative sequences. */
export interface ModelRequest {
  readonly id: string;
  /** Integers that a number holds exactly are numbers; larger ones are bigints. */
  readonly parameters: ModelParameters;
  readonly inputs: readonly ReceivedTensor[];
  /** Undefined where the request leaves an optional input out. */
  getInput(name: string): ReceivedTensor | undefined;
  /** Empty asks for all. */
  readonly requestedOutputs: readonly string[];
  /** 0n where the request belongs to no sequence. */
  readonly correlationId: bigint | string;
  readonly isSequenceStart: boolean;
  readonly isSequenceEnd: boolean;
  readonly timeoutUs: number;
  readonly priority: number;
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal;
  /** Resolves when the next response may be produced. */
  send(response: ModelResponse): Promise<void>;
  /** Ends the responses, with an error where one is given. */
  end(error?: Error): void;
  /**
   * Asks for this request to be executed again, with the same inputs and beside others that wait,
   * in the place of an answer; what was sent before stands. Needs `sequence_batching` with
   * `iterative_sequence`, and must be called before `execute` returns.
   */
  reschedule(): void;
}

/** One response to one request. */
export interface ModelResponse {
  readonly outputs: readonly GivenTensor[];
  readonly parameters?: ModelParameters;
}

/**
 * What `execute` gives for a request: a response; an error, whose `code`, if it is one of the
 * server's (`INVALID_ARG`, `NOT_FOUND`, ...), becomes the status; for a decoupled model also the
 * responses one after another, or nothing where it uses `send` and `end`.
 */
export type ModelAnswer =
  | ModelResponse
  | Error
  | AsyncIterable<ModelResponse>
  | Iterable<ModelResponse>
  | undefined;

/** What an instance learns of itself before its first request. */
export interface InitializeArgs {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly modelConfig: ModelConfig;
  /** Folder of the model. */
  readonly modelRepository: string;
  readonly modelInstanceName: string;
  readonly modelInstanceKind: string;
  readonly modelInstanceDeviceId: number;
  readonly host: ModelHost;
}

/** The default export: a class (an instance of it is made), or an object. */
export interface JavaScriptModel {
  initialize?(args: InitializeArgs): void | Promise<void>;
  /**
   * One answer a request, in order. As a generator function it is called once a request, with a
   * list of that one, and yields its responses; the model is decoupled then.
   */
  execute(
    requests: readonly ModelRequest[],
  ):
    | readonly ModelAnswer[]
    | Promise<readonly ModelAnswer[]>
    | AsyncGenerator<ModelResponse>
    | Generator<ModelResponse>;
  finalize?(): void | Promise<void>;
  isReady?(): boolean | Promise<boolean>;
}

/** The class's own side: completes the configuration, by changing it or by giving another. */
export interface JavaScriptModelClass {
  new (): JavaScriptModel;
  autoCompleteConfig?(
    config: ModelConfig,
  ): ModelConfig | undefined | Promise<ModelConfig | undefined>;
}

/** A tensor's data, or the tensor without its name, by output name. */
export type GivenOutputs = Readonly<
  Record<string, Omit<GivenTensor, 'name'> | GivenTensor['data']>
>;

/** The short form: works on the whole batch, rows of all requests joined. */
export type BatchFunction = (
  inputs: Readonly<Record<string, ReceivedTensor>>,
) => GivenOutputs | Promise<GivenOutputs>;

/** A call to another model. */
export interface ModelInferCall {
  readonly modelName: string;
  /** Default: by the model's version policy. */
  readonly modelVersion?: string | number;
  /** `datatype` and `shape` must be given here. */
  readonly inputs: readonly Required<GivenTensor>[];
  /** Default: all. */
  readonly requestedOutputs?: readonly string[];
  readonly id?: string;
  readonly parameters?: ModelParameters;
  readonly priority?: number;
  readonly timeoutUs?: number;
  readonly correlationId?: bigint | string;
  readonly isSequenceStart?: boolean;
  readonly isSequenceEnd?: boolean;
  /** Usually the `signal` of the request that the call is made for. */
  readonly signal?: AbortSignal;
}

/** One response of another model. */
export interface ModelInferResponse {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly outputs: readonly ReceivedTensor[];
  getOutput(name: string): ReceivedTensor | undefined;
  readonly parameters: ModelParameters;
}

type Labels = Readonly<Record<string, string>>;

/** What the server does for a model. */
export interface ModelHost {
  /** Rejects with an `Error` that has a `code`. */
  infer(call: ModelInferCall): Promise<ModelInferResponse>;
  /** The responses of a decoupled model as they come. */
  stream(call: ModelInferCall): AsyncIterable<ModelInferResponse>;
  loadModel(
    name: string,
    config?: string,
    files?: Readonly<Record<string, Uint8Array>>,
  ): Promise<void>;
  unloadModel(name: string): Promise<void>;
  isModelReady(name: string, version?: string | number): Promise<boolean>;
  readonly log: {
    error(message: string): void;
    warning(message: string): void;
    info(message: string): void;
    verbose(message: string): void;
  };
  /** Custom metrics; they stand on `/metrics` beside the server's own. */
  readonly metrics: {
    counter(name: string, help: string): { increment(value?: number, labels?: Labels): void };
    gauge(
      name: string,
      help: string,
    ): {
      increment(value?: number, labels?: Labels): void;
      set(value: number, labels?: Labels): void;
    };
    histogram(
      name: string,
      help: string,
      buckets: readonly number[],
    ): { observe(value: number, labels?: Labels): void };
  };
}
