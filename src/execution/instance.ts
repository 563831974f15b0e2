import type { Clock } from '../clock.js';
import { type InferenceServerError, internal, unavailable } from '../errors.js';
import type { ModelCall } from '../inference/model-call.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { fromErrorMessage, thrownText } from './error-transfer.js';
import { InstanceThread } from './instance-thread.js';
import type {
  BatchForm,
  ErrorMessage,
  InstanceDescription,
  InstanceNotice,
  InstanceReply,
  InstanceTask,
} from './messages.js';
import { InstanceWork, ModelCalls } from './model-calls.js';
import type {
  ExecuteReply,
  ExecuteTask,
  HostServices,
  InstancePoolOptions,
  StreamCommand,
  StreamListener,
} from './model-instances.js';
import { OpenStreams } from './open-streams.js';

/**
 * ```
 *              started           execute, askReadiness
 *   starting ─────────▶ idle ◀──────────────────────▶ busy
 *      ▲                  │   answered                 │
 *      │ after a pause    └──── thread died, timeout ──┤
 *   replacing ◀────────────────────────────────────────┘
 *      │ starts failed too often              close, from every state
 *      ▼                                    closing ─────▶ closed
 *   failed
 * ```
 */
export type InstanceState =
  | 'starting'
  | 'idle'
  | 'busy'
  | 'replacing'
  | 'failed'
  | 'closing'
  | 'closed';

/** Starts that may fail one after another before an instance is given up. */
export const startFailuresMax = 5;
/** Backends whose threads run native code that must return before the thread may end. */
const nativeBackends: ReadonlySet<string> = new Set(['onnxruntime']);
/** Pause before the start that follows a failed one; doubles with each up to the longest. */
const restartDelayNs = 500e6;
const restartDelayNsMax = 30e9;

export interface InstanceEvents {
  /** The instance has become idle, is no longer, or has `failed`. */
  onChange(instance: Instance): void;
  /** Nothing more comes for an execution that somebody listened to. */
  onStreamsEnd(executionId: number): void;
}

/** What every instance of a pool shares. */
export interface InstanceBlueprint {
  readonly options: InstancePoolOptions;
  readonly services: HostServices;
  readonly clock: Clock;
  /** `model 'm' version 1`, as messages name it. */
  readonly label: string;
}

export interface StartedInstance {
  readonly batchForm: BatchForm;
  readonly answersReadiness: boolean;
}

/** One instance of a model: a thread, and the thread that follows it when it dies. */
export class Instance {
  readonly #blueprint: InstanceBlueprint;
  readonly #events: InstanceEvents;
  readonly #streams: OpenStreams;
  /** As the calls between models see this instance. */
  readonly work = new InstanceWork();
  #state: InstanceState = 'starting';
  #thread: InstanceThread | undefined;
  #calls: ModelCalls | undefined;
  /** What to start, known after the first start; a replacement repeats it. */
  #start:
    | {
        readonly description: InstanceDescription;
        readonly config: ModelConfig;
      }
    | undefined;
  #started: StartedInstance | undefined;
  #startFailures = 0;
  #failure: InferenceServerError | undefined;
  #stopTimer: () => void = () => {};
  #closing: Promise<void> | undefined;
  #ended: Promise<void> = Promise.resolve();
  #whenQuiet: (() => void)[] = [];

  constructor(blueprint: InstanceBlueprint, events: InstanceEvents) {
    this.#blueprint = blueprint;
    this.#events = events;
    this.#streams = new OpenStreams((executionId) => events.onStreamsEnd(executionId));
  }

  get state(): InstanceState {
    return this.#state;
  }

  /** Why the instance is `failed` or `replacing`. */
  get failure(): InferenceServerError | undefined {
    return this.#failure;
  }

  get started(): StartedInstance | undefined {
    return this.#started;
  }

  /** Lets the backend complete the configuration from the model's files; before {@link start}. */
  async autoComplete(
    description: InstanceDescription,
    config: ModelConfig,
  ): Promise<ModelConfig | undefined> {
    const { backend } = this.#blueprint.options;
    const reply = await this.#load({
      type: 'auto-complete',
      instance: description,
      config,
      backend,
    });
    if (reply.type !== 'completed-config') throw unexpected(reply);
    return reply.config;
  }

  /** Loads the model; rejects with its load error, and the instance is of no use then. */
  async start(description: InstanceDescription, config: ModelConfig): Promise<StartedInstance> {
    this.#start = { description, config };
    this.work.name = description.instanceName;
    const started = await this.#initialize();
    this.#becomeIdle();
    return started;
  }

  /** Only while `idle`. Never rejects. */
  async execute(
    task: ExecuteTask,
    listener: StreamListener | undefined,
    answering: readonly ModelCall[],
  ): Promise<ExecuteReply> {
    this.#state = 'busy';
    this.work.begin(answering);
    if (listener !== undefined) this.#streams.open(task.executionId, listener);
    const reply = await this.#run(task, [task.buffer]);
    this.work.end();
    if (reply.type === 'executed-merged' || reply.type === 'executed-requests') {
      this.#startFailures = 0;
      this.#streams.answered(task.executionId, reply);
      this.#becomeIdle();
      return reply;
    }
    this.#streams.close(task.executionId);
    const failed = reply.type === 'failed' ? reply : failure(unexpected(reply), true);
    if (failed.isFatal) this.#replace(fromErrorMessage(failed.error), false);
    else this.#becomeIdle();
    return failed;
  }

  /** Asks the model; only while `idle`. False where it does not answer in time. */
  async askReadiness(timeoutMs: number): Promise<boolean> {
    this.#state = 'busy';
    const { clock } = this.#blueprint;
    let stopTimer: () => void = () => {};
    const late = new Promise<boolean>((resolve) => {
      stopTimer = clock.setTimer(timeoutMs * 1e6, () => resolve(false));
    });
    const answer = this.#run({ type: 'is-ready' }, []).then((reply) => {
      if (reply.type === 'failed' && reply.isFatal) {
        this.#replace(fromErrorMessage(reply.error), false);
      } else {
        this.#becomeIdle();
      }
      return reply.type === 'ready' && reply.isReady;
    });
    const isReady = await Promise.race([answer, late]);
    stopTimer();
    return isReady;
  }

  command(command: StreamCommand): void {
    this.#thread?.post(command, []);
  }

  setLogVerboseLevel(level: number): void {
    this.#thread?.post({ type: 'log-verbose-level', level }, []);
  }

  /** Resolves when nothing runs here: no execution, no open stream. */
  async quiet(): Promise<void> {
    while (this.#state === 'busy' || this.#streams.size > 0) {
      await new Promise<void>((resolve) => this.#whenQuiet.push(resolve));
    }
  }

  /** Lets what runs end, finalizes the model within the time it is given, ends the thread. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Ends the thread now; what runs on it fails. */
  async destroy(): Promise<void> {
    this.#state = 'closed';
    this.#stopTimer();
    this.#calls?.cancelAll();
    const thread = this.#thread;
    this.#thread = undefined;
    this.#failure = unavailable(`${this.#blueprint.label}: the model is being unloaded`);
    this.#streams.lose({
      code: this.#failure.code,
      message: this.#failure.message,
    });
    this.#wakeQuiet();
    await this.#end(thread);
  }

  async #close(): Promise<void> {
    if (this.#state === 'busy' || this.#streams.size > 0) await this.quiet();
    const thread = this.#thread;
    if (this.#state === 'idle' && thread !== undefined) {
      this.#state = 'closing';
      const { clock, options } = this.#blueprint;
      await new Promise<void>((resolve) => {
        const stopTimer = clock.setTimer(options.finalizeTimeoutMs * 1e6, resolve);
        thread
          .run({ type: 'finalize' }, [])
          // A thread that dies in `finalize` has ended, which is all that is asked of it.
          .catch(() => undefined)
          .finally(() => {
            stopTimer();
            resolve();
          });
      });
    }
    await this.destroy();
  }

  async #initialize(): Promise<StartedInstance> {
    const start = this.#start;
    if (start === undefined) throw internal('an instance starts without a model; this is a bug');
    const thread = this.#thread ?? this.#newThread();
    const port = thread.takePort();
    const { backend } = this.#blueprint.options;
    const reply = await this.#load(
      {
        type: 'initialize',
        instance: start.description,
        config: start.config,
        backend,
        port,
      },
      [port],
    );
    if (reply.type !== 'initialized') throw unexpected(reply);
    const { batchForm, answersReadiness } = reply;
    this.#started = { batchForm, answersReadiness };
    return this.#started;
  }

  /** Runs a task of the start within the time that it may take; rejects with the load error. */
  async #load(task: InstanceTask, transfer: Parameters<InstanceThread['run']>[1] = []) {
    const { clock, options, label } = this.#blueprint;
    const thread = this.#thread ?? this.#newThread();
    const limitMs = options.startTimeoutMs;
    const stopTimer =
      limitMs > 0
        ? clock.setTimer(limitMs * 1e6, () => {
            this.#failure = unavailable(`${label}: loading took longer than ${limitMs} ms`);
            void this.#endThread();
          })
        : () => {};
    try {
      const reply = await thread.run(task, transfer);
      if (reply.type === 'failed') throw fromErrorMessage(reply.error);
      return reply;
    } catch (error) {
      if (this.#state === 'closed') throw unavailable(`${label}: the load was given up`, error);
      throw this.#failure ?? error;
    } finally {
      stopTimer();
    }
  }

  /** Runs a task on the started instance; a dead or too slow thread answers `failed`, fatally. */
  async #run(task: InstanceTask, transfer: readonly ArrayBuffer[]): Promise<InstanceReply> {
    const { clock, options, label } = this.#blueprint;
    const thread = this.#thread;
    if (thread === undefined) return failure(this.#lost('it has no thread'), true);
    const limitMs = options.executionTimeoutMs;
    const stopTimer =
      limitMs > 0
        ? clock.setTimer(limitMs * 1e6, () => {
            this.#failure = unavailable(
              `${label}: the execution took longer than ${limitMs} ms and was ended`,
            );
            void this.#endThread();
          })
        : undefined;
    try {
      return await thread.run(task, transfer);
    } catch (error) {
      return failure(this.#failure ?? this.#lost(thrownText(error)), true);
    } finally {
      stopTimer?.();
    }
  }

  #newThread(): InstanceThread {
    const { options, services } = this.#blueprint;
    this.#failure = undefined;
    const thread = new InstanceThread(
      {
        workerFile: options.workerFile,
        heapMiBMax: options.heapMiBMax,
        isInterruptible: !nativeBackends.has(options.backend),
      },
      {
        onNotice: (notice) => this.#onNotice(notice),
        onDeath: (reason) => {
          this.#failure ??= this.#lost(reason);
          // A running task learns of it by its own rejection.
          if (this.#state === 'idle') this.#replace(this.#failure, true);
        },
      },
    );
    this.#thread = thread;
    this.#calls = new ModelCalls(
      services,
      (command, transfer) => thread.post(command, transfer),
      this.work,
    );
    return thread;
  }

  #onNotice(notice: InstanceNotice): void {
    switch (notice.type) {
      case 'response':
        this.#streams.respond(notice);
        if (this.#streams.size === 0) this.#wakeQuiet();
        return;
      case 'infer':
        this.#calls?.infer(notice);
        return;
      case 'infer-cancel':
        this.#calls?.cancel(notice.callId);
        return;
      case 'control':
        void this.#calls?.control(notice);
        return;
      case 'log':
        this.#blueprint.services.log(notice.level, notice.message);
        return;
      case 'metric':
        this.#blueprint.services.updateMetric(notice.update);
        return;
      case 'broken':
        this.#failure = fromErrorMessage(notice.error);
        // While it runs, the reply of the execution decides, or the thread's end.
        if (this.#state === 'idle') this.#replace(this.#failure, true);
        else void this.#endThread();
        return;
    }
  }

  #becomeIdle(): void {
    if (this.#state !== 'starting' && this.#state !== 'busy' && this.#state !== 'replacing') return;
    this.#state = 'idle';
    this.#failure = undefined;
    this.#wakeQuiet();
    this.#events.onChange(this);
  }

  /**
   * Puts a new thread in the place of one that is dead or beyond repair. `countsAsFailure` where
   * no request brought it down: then it waits longer and longer, and is given up in the end.
   */
  #replace(reason: InferenceServerError, countsAsFailure: boolean): void {
    if (this.#state === 'closing' || this.#state === 'closed') return;
    this.#failure = reason;
    this.#state = 'replacing';
    this.#events.onChange(this);
    this.#calls?.cancelAll();
    this.#streams.lose({ code: reason.code, message: reason.message });
    this.#wakeQuiet();
    this.#blueprint.services.log('error', `${reason.message}; the instance is replaced`);
    if (countsAsFailure) this.#startFailures += 1;
    void this.#endThread().then(() => this.#scheduleStart());
  }

  #scheduleStart(): void {
    if (this.#state !== 'replacing') return;
    if (this.#startFailures > startFailuresMax) {
      this.#state = 'failed';
      this.#blueprint.services.log(
        'error',
        `${this.#blueprint.label}: an instance is given up after ${this.#startFailures} failures`,
      );
      this.#events.onChange(this);
      return;
    }
    if (this.#startFailures === 0) {
      void this.#restart();
      return;
    }
    const delayNs = Math.min(restartDelayNsMax, restartDelayNs * 2 ** (this.#startFailures - 1));
    this.#stopTimer = this.#blueprint.clock.setTimer(delayNs, () => void this.#restart());
  }

  async #restart(): Promise<void> {
    try {
      await this.#initialize();
      this.#becomeIdle();
    } catch (error) {
      if (this.#state !== 'replacing') return;
      const { label, services } = this.#blueprint;
      this.#failure = this.#lost(thrownText(error));
      this.#startFailures += 1;
      services.log('error', `${label}: an instance does not start again: ${thrownText(error)}`);
      await this.#endThread();
      this.#scheduleStart();
    }
  }

  async #endThread(): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    await this.#end(thread);
  }

  /** Resolves when `thread`, and every one before it, has ended. */
  async #end(thread: InstanceThread | undefined): Promise<void> {
    const former = this.#ended;
    this.#ended = Promise.all([former, thread?.destroy()]).then(() => undefined);
    await this.#ended;
  }

  #lost(reason: string): InferenceServerError {
    return internal(`${this.#blueprint.label}: the instance was lost: ${reason}`);
  }

  #wakeQuiet(): void {
    if (this.#whenQuiet.length === 0) return;
    const waiting = this.#whenQuiet;
    this.#whenQuiet = [];
    for (const resolve of waiting) resolve();
  }
}

function failure(
  error: ErrorMessage,
  isFatal: boolean,
): Extract<InstanceReply, { readonly type: 'failed' }> {
  return {
    type: 'failed',
    error: { code: error.code, message: error.message },
    isFatal,
  };
}

function unexpected(reply: InstanceReply): InferenceServerError {
  return internal(`an instance answered '${reply.type}' out of turn; this is a bug`);
}
