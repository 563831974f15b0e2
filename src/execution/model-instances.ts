import type { InferenceRequest } from '../inference/infer-request.js';
import type { InferenceHandle, ResponseHandler } from '../inference/infer-response.js';
import type { CallingInstance, ModelCall } from '../inference/model-call.js';
import type { ModelConfig } from '../model-config/model-config.js';
import type {
  BatchForm,
  ErrorMessage,
  InstanceCommand,
  InstanceNotice,
  InstanceReply,
  LogLevel,
  MergedExecuteTask,
  MetricUpdate,
  RequestsExecuteTask,
} from './messages.js';

/** What an executor needs of the instances of one model version; implemented by `InstancePool`. */
export interface ModelInstances {
  /** How the backend wants its batches; known once the instances have started. */
  readonly batchForm: BatchForm;
  readonly idleInstances: number;
  /** Requests that are executed one by one may come together in one task. */
  readonly takesBundles: boolean;
  /** A busy instance takes one execution more, which follows its current one after a short time. */
  readonly canRunAhead: boolean;
  /**
   * Runs `task`; call only while `idleInstances > 0` or `canRunAhead`. `task.buffer` is moved to
   * the instance and gone afterwards. Never rejects: a thread that dies, an execution that takes
   * too long and a model that fails as a whole all resolve to `failed`, and to `unstarted` for what
   * only waited behind it.
   *
   * `listener` hears the responses that go around the reply; leave it undefined for a model that
   * is not decoupled. `answering`: calls of models among the requests.
   */
  execute(
    task: ExecuteTask,
    listener: StreamListener | undefined,
    answering: readonly ModelCall[],
  ): Promise<ExecuteOutcome>;
  /** Tells the instance that runs `command.executionId`; does nothing when it has ended. */
  command(command: StreamCommand): void;
  /** `listener` is called when an instance has become idle. One listener; set once. */
  onIdle(listener: () => void): void;
}

export type ExecuteTask = MergedExecuteTask | RequestsExecuteTask;

export type ExecuteReply = Extract<
  InstanceReply,
  { readonly type: 'executed-merged' | 'executed-requests' | 'failed' }
>;

/** `unstarted`: the task waited behind another one that took the instance with it. */
export type ExecuteOutcome = ExecuteReply | { readonly type: 'unstarted' };

export type ResponseNotice = Extract<InstanceNotice, { readonly type: 'response' }>;

export type StreamCommand = Extract<
  InstanceCommand,
  { readonly type: 'cancel' | 'pause' | 'resume' }
>;

/** Hears what the requests of one execution send beside its reply, also after the reply. */
export interface StreamListener {
  onResponse(notice: ResponseNotice): void;
  /** The instance has died: nothing more comes for this execution's open requests. */
  onLost(error: ErrorMessage): void;
}

/** What a model may ask of the server while it loads and runs. Calls are made on the main thread. */
export interface HostServices {
  log(level: LogLevel, message: string): void;
  updateMetric(update: MetricUpdate): void;
  /** `caller` calls another model. Failures arrive at `handler.fail`; this never throws. */
  callModel(
    request: InferenceRequest,
    handler: ResponseHandler,
    caller: CallingInstance,
  ): InferenceHandle;
  loadModel(
    name: string,
    config: string | undefined,
    files: readonly (readonly [string, Uint8Array])[],
  ): Promise<void>;
  unloadModel(name: string): Promise<void>;
  isModelReady(name: string, version: string): Promise<boolean>;
}

export interface InstancePoolOptions {
  /** The compiled `workers/instance-worker.js`. */
  readonly workerFile: string;
  readonly modelName: string;
  readonly modelVersion: string;
  readonly modelDirectory: string;
  readonly versionDirectory: string;
  /** Backend name as `backends/backend-registry.ts` knows it. */
  readonly backend: string;
  readonly backendConfig: Readonly<Record<string, string>>;
  /** The configuration as written, before the model's own files have completed it. */
  readonly config: ModelConfig;
  /** False with `--disable-auto-complete-config`. */
  readonly isAutoCompleteEnabled: boolean;
  /** Cores to divide among the instances: `availableCores()`. */
  readonly cores: number;
  readonly logVerboseLevel: number;
  /** Longest time that one execution may take; its thread is ended then. 0 is no limit. */
  readonly executionTimeoutMs: number;
  /** Longest time that loading one instance may take. 0 is no limit. */
  readonly startTimeoutMs: number;
  /** Longest time for `finalize`, and for a model's own readiness answer. */
  readonly finalizeTimeoutMs: number;
  readonly readinessTimeoutMs: number;
  /** Old-generation heap of one instance's thread in MiB; 0 is Node's own default. */
  readonly heapMiBMax: number;
}

/** One place of an instance group. */
export interface InstancePlacement {
  /** `add_sub_0_1`: group's name and index within the group. */
  readonly name: string;
  readonly kind: string;
  readonly deviceId: number;
  /** Loaded, but never given a batch. */
  readonly isPassive: boolean;
  /** What an execution takes of the server's resources, and how often it gets its turn. */
  readonly resources: readonly {
    readonly name: string;
    readonly global: boolean;
    readonly count: number;
  }[];
  /** 0 is not given. */
  readonly priority: number;
}

/** One instance by itself, for whoever must choose the instance that runs a batch. */
export interface InstanceLane {
  readonly placement: InstancePlacement;
  readonly instances: ModelInstances;
}

/** Completes and checks the configuration with what the model's files told (undefined: nothing). */
export type CompleteConfig = (completed: ModelConfig | undefined) => ModelConfig;
