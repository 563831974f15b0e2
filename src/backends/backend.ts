import type {
  BatchForm,
  ErrorMessage,
  InstanceDescription,
  LogLevel,
  MetricUpdate,
} from '../execution/messages.js';
import type { InferenceRequest, Parameters } from '../inference/infer-request.js';
import type { Tensor } from '../inference/tensor.js';
import type { ModelConfig } from '../model-config/model-config.js';

/**
 * A kind of model. Backends are loaded in worker threads only; one thread holds one instance.
 * Errors thrown here become the model's load error or the request's error: `InferenceServerError`
 * keeps its code, anything else is INTERNAL with its message.
 */
export interface Backend {
  /**
   * Completes what the model's own files tell (inputs, outputs, batching); undefined where they
   * tell nothing. Runs in the thread of the first instance before {@link load}.
   */
  autoComplete(
    instance: InstanceDescription,
    config: ModelConfig,
  ): Promise<ModelConfig | undefined>;
  /** Loads the instance. `config` is complete and checked; `host` is valid until `unload`. */
  load(
    instance: InstanceDescription,
    config: ModelConfig,
    host: InstanceHostApi,
  ): Promise<ModelInstance>;
}

/** One loaded model. Calls never overlap. */
export type ModelInstance = MergedModelInstance | RequestsModelInstance;

interface LoadedInstance {
  /** Frees everything; the thread ends afterwards. */
  unload(): Promise<void>;
  /** The model's own word on its readiness; absent where it has none. */
  readonly isReady?: (() => Promise<boolean>) | undefined;
}

/** Works on whole tensors, such as ONNX Runtime. */
export interface MergedModelInstance extends LoadedInstance {
  readonly batchForm: Extract<BatchForm, 'merged'>;
  /**
   * True where outputs are memory of their own and inputs are not kept: then buffers are handed on
   * and used again instead of being copied.
   */
  readonly sharesNoMemory: boolean;
  /**
   * `inputs` are `[rows, ...dims]` (or `dims` for a model without batching), always raw, views of a
   * buffer that the instance may keep until it returns. `requestedOutputs` empty is all.
   * Outputs are raw and may view memory that the instance reuses for its next execution. `spare` is
   * memory that they may lie in; it is the caller's again with them.
   */
  execute(
    inputs: readonly Tensor[],
    requestedOutputs: readonly string[],
    spare: ArrayBuffer | undefined,
  ): Promise<readonly Tensor[]> | readonly Tensor[];
}

/** Works request by request, such as JavaScript and Python models. */
export interface RequestsModelInstance extends LoadedInstance {
  readonly batchForm: Extract<BatchForm, 'requests'>;
  /** True where nothing uses the memory of inputs any more once their execution has settled. */
  readonly freesInputs: boolean;
  /**
   * One result a request, in order. A rejection fails every request of the batch. A result of
   * `streamed` says that responses come, or came, through `request.send`; `rescheduled` that the
   * request wants to be executed again, after what it sent, and gets no `end` this time. Outputs
   * may view memory that the instance reuses for its next execution.
   */
  execute(
    requests: readonly ExecutionRequest[],
  ): Promise<readonly ExecutionResult[]> | readonly ExecutionResult[];
  /**
   * Executes each request by itself, one after another. Absent where nothing is spared by handing
   * over several at once.
   */
  readonly executeEach?: (requests: readonly ExecutionRequest[]) => Promise<readonly TimedResult[]>;
}

/** A request as an instance sees it. Its inputs are raw. */
export interface ExecutionRequest
  extends Pick<
    InferenceRequest,
    'id' | 'parameters' | 'timeoutUs' | 'priority' | 'requestedOutputs'
  > {
  readonly inputs: readonly Tensor[];
  /**
   * Requests of one execution with the same object here differ in nothing but `id` and the bytes of
   * their inputs, as long as these came raw.
   */
  readonly head: object;
  /** 0n where the request belongs to no sequence. */
  readonly correlationId: bigint | string;
  readonly isSequenceStart: boolean;
  readonly isSequenceEnd: boolean;
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal;
  /**
   * Sends one response of a decoupled model. Resolves when the next one may be produced (a slow
   * reader holds it back). After `end` it throws.
   */
  send(response: ExecutionResponse): Promise<void>;
  sendError(error: ErrorMessage): void;
  /** No more responses: exactly once for a `streamed` result, from any later time on. */
  end(): void;
}

/** One response of a model. The outputs belong to whoever gets it. */
export interface ExecutionResponse {
  readonly outputs: readonly Tensor[];
  readonly parameters: Parameters;
}

/** What became of one request of a batch; `streamed` where its responses went another way. */
export type ExecutionResult =
  | { readonly type: 'response'; readonly response: ExecutionResponse }
  | { readonly type: 'error'; readonly error: ErrorMessage }
  | { readonly type: 'streamed' }
  | { readonly type: 'rescheduled' };

/** A result, and how long its execution took by itself. */
export interface TimedResult {
  /** `unstarted`: there was no time for it, it has to be handed over again. */
  readonly result: ExecutionResult | { readonly type: 'unstarted' };
  readonly durationNs: number;
}

/** What an instance may ask of the server. */
export interface InstanceHostApi {
  log(level: LogLevel, message: string): void;
  updateMetric(update: MetricUpdate): void;
  /**
   * Calls another model (business logic scripting). `onResponse` is called for each response of a
   * decoupled model, once otherwise; the promise settles at the end and rejects with
   * `InferenceServerError`.
   */
  infer(
    call: ModelCall,
    onResponse: (
      response: ExecutionResponse & { readonly modelName: string; readonly modelVersion: string },
    ) => void,
    signal: AbortSignal,
  ): Promise<void>;
  loadModel(
    name: string,
    config: string | undefined,
    files: readonly (readonly [string, Uint8Array])[],
  ): Promise<void>;
  unloadModel(name: string): Promise<void>;
  isModelReady(name: string, version: string): Promise<boolean>;
  /** Current `--log-verbose`. */
  logVerboseLevel(): number;
  /** The instance is beyond repair (its process died): it will be replaced. */
  broken(error: ErrorMessage): void;
  /**
   * `end` is called when the instance is given up, whatever it is doing, and has about a second.
   * A process that was started here can be waited for nowhere else: it would stay a zombie.
   */
  onGivenUp(end: () => Promise<void>): void;
}

/** A request that a model makes of another model. */
export interface ModelCall
  extends Pick<
    InferenceRequest,
    'id' | 'parameters' | 'timeoutUs' | 'priority' | 'requestedOutputs' | 'inputs'
  > {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly isDecoupled: boolean;
  readonly correlationId: bigint | string;
  readonly isSequenceStart: boolean;
  readonly isSequenceEnd: boolean;
}
