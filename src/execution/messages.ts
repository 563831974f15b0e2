import type { MessagePort } from 'node:worker_threads';
import type { ErrorCode } from '../errors.js';
import type { Datatype } from '../inference/datatype.js';
import type { ParameterValue } from '../inference/infer-request.js';
import type { ModelConfig } from '../model-config/model-config.js';

/*
 * Everything that crosses the thread boundary, as plain data. A thread hosts one model instance.
 * Until that has started its tasks are Piscina's; afterwards they go over a message port, which also
 * carries what is not a task's answer: responses of decoupled models, calls of a model to other
 * models, logs, metrics, cancellation.
 */

/**
 * A tensor inside a message: `byteOffset` counts from the start of the message's `buffer`, or from
 * where the tensors of its request or response begin there.
 */
export interface TensorMessage {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly encoding: 'raw' | 'json';
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** A failure as data: class and fields of an error do not survive the boundary. */
export interface ErrorMessage {
  readonly code: ErrorCode;
  readonly message: string;
}

/** What a model instance is told about itself, once. */
export interface InstanceDescription {
  readonly modelName: string;
  readonly modelVersion: string;
  /** Folder of the model (the parent of its version folders). */
  readonly modelDirectory: string;
  /** Folder of the version. */
  readonly versionDirectory: string;
  /** `add_sub_0_1`: group's name and index within the group. */
  readonly instanceName: string;
  readonly instanceKind: string;
  readonly deviceId: number;
  /** Threads that one operator of this instance may use, where the configuration names none. */
  readonly defaultIntraOpThreads: number;
  /** `--backend-config` of this backend. */
  readonly backendConfig: Readonly<Record<string, string>>;
  readonly logVerboseLevel: number;
}

/** What many requests have in common: all but their id and the bytes of their inputs. */
export interface RequestHead {
  readonly parameters: readonly (readonly [string, ParameterValue])[];
  readonly correlationId: bigint | string;
  /** Bit 0: sequence start; bit 1: sequence end. */
  readonly flags: number;
  readonly timeoutUs: number;
  readonly priority: number;
  readonly requestedOutputs: readonly string[];
  readonly prefersJsonText: boolean;
  readonly inputs: readonly TensorMessage[];
}

/**
 * One request of an execution, for backends that work request by request. Requests with equal heads
 * share one: what is the same object is copied to the other thread once, and 32 requests of add_sub
 * cost a quarter then.
 */
export interface RequestMessage {
  readonly head: RequestHead;
  readonly id: string;
  /** Where its inputs begin in the buffer. */
  readonly byteOffset: number;
}

/**
 * `merged`: one tensor an input, all rows of the batch joined along the first dimension, in the
 * order of the requests. `requests`: each request with its own tensors.
 */
export type BatchForm = 'merged' | 'requests';

export interface MergedExecuteTask {
  readonly type: 'execute-merged';
  readonly executionId: number;
  readonly buffer: ArrayBuffer;
  readonly inputs: readonly TensorMessage[];
  /** Union of what the requests ask for; empty is all. */
  readonly requestedOutputs: readonly string[];
  /**
   * The requests in order, where one of them wants large outputs as JSON text: the reply is then
   * `executed-requests` if there is such an output. Undefined where nobody does.
   */
  readonly textRequests: readonly TextRequest[] | undefined;
  /** Memory for the outputs, where they are large and a buffer is at hand. */
  readonly spare?: ArrayBuffer;
}

export interface TextRequest {
  readonly rows: number;
  readonly prefersJsonText: boolean;
}

export interface RequestsExecuteTask {
  readonly type: 'execute-requests';
  readonly executionId: number;
  readonly buffer: ArrayBuffer;
  /** The requests are no batch: each is an execution by itself, one after another. */
  readonly executesEach: boolean;
  readonly requests: readonly RequestMessage[];
  /** Memory for the outputs, where they are large and a buffer is at hand. */
  readonly spare?: ArrayBuffer;
}

export type InstanceTask = StartTask | ServingTask;

/** What Piscina runs in the thread. */
export type StartTask =
  /** Loads as much as needed to complete the configuration; first task of a first instance. */
  | {
      readonly type: 'auto-complete';
      readonly instance: InstanceDescription;
      readonly config: ModelConfig;
      readonly backend: string;
    }
  /** Makes the instance ready to execute. `port` becomes the instance's side channel. */
  | {
      readonly type: 'initialize';
      readonly instance: InstanceDescription;
      readonly config: ModelConfig;
      readonly backend: string;
      readonly port: MessagePort;
    }
  /** Runs for as long as the instance serves: whatever ends the thread makes it fail. */
  | { readonly type: 'serve' };

/** What a started instance is asked for, on its port; answered in order, by `ServingReply`. */
export type ServingTask =
  | MergedExecuteTask
  | RequestsExecuteTask
  /** Asks the model itself whether it is ready (`is_ready` of a Python or JavaScript model). */
  | { readonly type: 'is-ready' }
  | { readonly type: 'finalize' };

/** `[start, input end, output start, end]` on `Clock.nowNs`, which all threads share. */
export type ComputeStamps = readonly [number, number, number, number];

export interface ResponseMessage {
  readonly outputs: readonly TensorMessage[];
  readonly parameters: readonly (readonly [string, ParameterValue])[];
}

/**
 * One request's share of an execution: its response, its error, `streamed` by the port, or
 * `rescheduled`: what it sent stands, and it wants to be executed once more. `unstarted`: nothing
 * was done about it.
 */
export type RequestResult =
  | {
      readonly type: 'response';
      /** Shared by responses that differ in nothing but their bytes. */
      readonly response: ResponseMessage;
      /** Where its outputs begin in the buffer. */
      readonly byteOffset: number;
    }
  | { readonly type: 'error'; readonly error: ErrorMessage }
  | { readonly type: 'streamed' }
  | { readonly type: 'rescheduled' }
  | { readonly type: 'unstarted' };

export type InstanceReply =
  /** The completed configuration; undefined where the backend has nothing to add. */
  | {
      readonly type: 'completed-config';
      readonly config: ModelConfig | undefined;
    }
  | {
      readonly type: 'initialized';
      readonly batchForm: BatchForm;
      /** The model has a word of its own on its readiness: `is-ready` is worth a question. */
      readonly answersReadiness: boolean;
      /** Takes several requests to be executed one after another. */
      readonly takesBundles: boolean;
    }
  /** Outputs of all rows, to be split by the rows of each request. */
  | {
      readonly type: 'executed-merged';
      readonly buffer: ArrayBuffer;
      /** The task's own buffer, where it is large and can be filled again. */
      readonly recycled: ArrayBuffer | undefined;
      readonly outputs: readonly TensorMessage[];
      readonly stamps: ComputeStamps;
    }
  /** One result for each request, in order. */
  | {
      readonly type: 'executed-requests';
      readonly buffer: ArrayBuffer;
      /** As in `executed-merged`. */
      readonly recycled: ArrayBuffer | undefined;
      readonly results: readonly RequestResult[];
      readonly stamps: ComputeStamps;
      /** Stamps of each request, where each was an execution by itself. */
      readonly eachStamps: readonly ComputeStamps[] | undefined;
    }
  | { readonly type: 'ready'; readonly isReady: boolean }
  | { readonly type: 'finalized' }
  /** `serve` has ended. */
  | { readonly type: 'served' }
  /** The task failed as a whole; the instance stays usable unless `isFatal`. */
  | {
      readonly type: 'failed';
      readonly error: ErrorMessage;
      readonly isFatal: boolean;
    };

export type ServingReply = Extract<
  InstanceReply,
  {
    readonly type: 'executed-merged' | 'executed-requests' | 'ready' | 'finalized' | 'failed';
  }
>;

/** Thread → main thread, on the instance's port, beside the answers of its tasks. */
export type InstanceNotice =
  /** A response of a decoupled request; `requestIndex` within execution `executionId`. */
  | {
      readonly type: 'response';
      readonly executionId: number;
      readonly requestIndex: number;
      readonly buffer: ArrayBuffer;
      /** Undefined for a final notice that carries no response. */
      readonly response: ResponseMessage | undefined;
      readonly error: ErrorMessage | undefined;
      readonly isFinal: boolean;
    }
  /** The model calls another model (business logic scripting). */
  | {
      readonly type: 'infer';
      readonly callId: number;
      readonly modelName: string;
      readonly modelVersion: string;
      readonly isDecoupled: boolean;
      readonly buffer: ArrayBuffer;
      readonly id: string;
      readonly request: RequestHead;
    }
  | { readonly type: 'infer-cancel'; readonly callId: number }
  | {
      readonly type: 'control';
      readonly callId: number;
      readonly action: 'load' | 'unload' | 'is-ready';
      readonly modelName: string;
      readonly modelVersion: string;
      readonly config: string | undefined;
      readonly files: readonly (readonly [string, Uint8Array])[];
    }
  | { readonly type: 'log'; readonly level: LogLevel; readonly message: string }
  | { readonly type: 'metric'; readonly update: MetricUpdate }
  /** The instance cannot execute any more and wants to be replaced. */
  | { readonly type: 'broken'; readonly error: ErrorMessage };

export type LogLevel = 'error' | 'warning' | 'info' | 'verbose';

/** A custom metric of a model: the main thread owns the registry. */
export type MetricUpdate =
  | {
      readonly type: 'family';
      readonly name: string;
      readonly help: string;
      readonly kind: 'counter' | 'gauge' | 'histogram';
    }
  | {
      readonly type: 'series';
      readonly family: string;
      readonly labels: Readonly<Record<string, string>>;
      readonly buckets: readonly number[];
    }
  | {
      readonly type: 'value';
      readonly family: string;
      readonly labels: Readonly<Record<string, string>>;
      readonly action: 'increment' | 'set' | 'observe';
      readonly value: number;
    };

/** Main thread → thread, on the instance's port. */
export type InstanceCommand =
  | {
      readonly type: 'cancel';
      readonly executionId: number;
      readonly requestIndex: number;
    }
  | {
      readonly type: 'pause' | 'resume';
      readonly executionId: number;
      readonly requestIndex: number;
    }
  /** Responses of this many bytes have arrived (response-window.ts). */
  | { readonly type: 'received'; readonly bytes: number }
  | {
      readonly type: 'infer-result';
      readonly callId: number;
      readonly buffer: ArrayBuffer;
      readonly response: ResponseMessage | undefined;
      readonly modelName: string;
      readonly modelVersion: string;
      readonly error: ErrorMessage | undefined;
      readonly isFinal: boolean;
    }
  | {
      readonly type: 'control-result';
      readonly callId: number;
      readonly isReady: boolean;
      readonly error: ErrorMessage | undefined;
    }
  | { readonly type: 'log-verbose-level'; readonly level: number }
  /** The instance is given up: it ends what it has started, and then the port. */
  | { readonly type: 'give-up' };
