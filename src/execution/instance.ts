import type { Clock } from '../clock.js';
import { type InferenceServerError, internal, unavailable } from '../errors.js';
import type { ModelCall } from '../inference/model-call.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { fromErrorMessage, thrownText } from './error-transfer.js';
import { failedReply, isExecuteReply } from './execute-reply.js';
import type { InstanceThread } from './instance-thread.js';
import type { BatchForm, InstanceDescription, InstanceReply, InstanceTask } from './messages.js';
import { InstanceWork } from './model-calls.js';
import type {
  ExecuteOutcome,
  ExecuteTask,
  HostServices,
  InstancePoolOptions,
  StreamCommand,
  StreamListener,
} from './model-instances.js';
import { OpenStreams } from './open-streams.js';
import { RestartPolicy } from './restart-policy.js';
import { RunningExecutions } from './running-executions.js';
import { nativeBackends, ThreadSlot } from './thread-slot.js';

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
  readonly takesBundles: boolean;
}

/** One instance of a model: a thread, and the thread that follows it when it dies. */
export class Instance {
  readonly #blueprint: InstanceBlueprint;
  readonly #events: InstanceEvents;
  readonly #streams: OpenStreams;
  readonly #slot: ThreadSlot;
  readonly #restarts = new RestartPolicy();
  /** As the calls between models see this instance. */
  readonly work = new InstanceWork();
  readonly #executions: RunningExecutions;
  #state: InstanceState = 'starting';
  /** What to start, known after the first start; a replacement repeats it. */
  #start:
    | {
        readonly description: InstanceDescription;
        readonly config: ModelConfig;
      }
    | undefined;
  #started: StartedInstance | undefined;
  #failure: InferenceServerError | undefined;
  #stopTimer: () => void = () => {};
  #closing: Promise<void> | undefined;
  #whenQuiet: (() => void)[] = [];

  constructor(blueprint: InstanceBlueprint, events: InstanceEvents) {
    this.#blueprint = blueprint;
    this.#events = events;
    this.#executions = new RunningExecutions(nativeBackends.has(blueprint.options.backend));
    this.#streams = new OpenStreams((executionId) => events.onStreamsEnd(executionId));
    this.#slot = new ThreadSlot(blueprint.options, blueprint.services, this.work, {
      onResponse: (notice) => {
        this.#streams.respond(notice);
        if (this.#streams.size === 0) this.#wakeQuiet();
      },
      onBroken: (error) => {
        this.#failure = fromErrorMessage(error);
        // What runs fails with its thread.
        if (this.#state === 'idle') this.#replace(this.#failure, true);
        else void this.#slot.end();
      },
      onDeath: (reason) => {
        this.#failure ??= this.#lost(reason);
        // A running task learns of it by its own rejection.
        if (this.#state === 'idle') this.#replace(this.#failure, true);
      },
    });
  }

  get state(): InstanceState {
    return this.#state;
  }

  /** Takes one execution more while it is busy with another one that will be over soon. */
  get canRunAhead(): boolean {
    return this.#executions.hasRoom && this.#state === 'busy' && this.#closing === undefined;
  }

  /** Since when it has been at its current execution; only while busy. */
  get busySinceNs(): number {
    return this.#executions.sinceNs;
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
    const task = { type: 'auto-complete', instance: description, config, backend } as const;
    const reply = await this.#load(task);
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

  /** Only while `idle` or `canRunAhead`. Never rejects. */
  async execute(
    task: ExecuteTask,
    listener: StreamListener | undefined,
    answering: readonly ModelCall[],
  ): Promise<ExecuteOutcome> {
    this.#state = 'busy';
    this.#executions.begin(this.#blueprint.clock.nowNs());
    this.work.begin(answering);
    if (listener !== undefined) this.#streams.open(task.executionId, listener);
    const { buffer, spare } = task;
    const given = await this.#run(task, spare === undefined ? [buffer] : [buffer, spare]);
    const reply = isExecuteReply(given) ? given : failedReply(unexpected(given), true);
    const hadStarted = this.#executions.end(reply);
    if (this.#executions.count === 0) this.work.end();
    if (reply.type === 'failed') {
      this.#streams.close(task.executionId);
    } else {
      this.#restarts.succeeded();
      this.#streams.answered(task.executionId, reply);
    }
    if (reply.type === 'failed' && reply.isFatal) {
      this.#replace(fromErrorMessage(reply.error), false);
    } else if (this.#executions.count === 0) {
      this.#becomeIdle();
    }
    return hadStarted ? reply : { type: 'unstarted' };
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
    this.#slot.post(command);
  }

  setLogVerboseLevel(level: number): void {
    this.#slot.post({ type: 'log-verbose-level', level });
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
    this.#slot.cancelCalls();
    this.#failure = unavailable(`${this.#blueprint.label}: the model is being unloaded`);
    this.#streams.lose({
      code: this.#failure.code,
      message: this.#failure.message,
    });
    this.#wakeQuiet();
    await this.#slot.end();
  }

  async #close(): Promise<void> {
    if (this.#state === 'busy' || this.#streams.size > 0) await this.quiet();
    if (this.#state === 'idle') {
      this.#state = 'closing';
      const { clock, options } = this.#blueprint;
      await new Promise<void>((resolve) => {
        const stopTimer = clock.setTimer(options.finalizeTimeoutMs * 1e6, resolve);
        this.#slot
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
    this.#failure = undefined;
    const port = this.#slot.open().takePort();
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
    this.#started = reply;
    return reply;
  }

  /** Runs a task of the start within the time that it may take; rejects with the load error. */
  async #load(task: InstanceTask, transfer: Parameters<InstanceThread['run']>[1] = []) {
    const { options, label } = this.#blueprint;
    const thread = this.#slot.open();
    const stopTimer = this.#limit(options.startTimeoutMs, 'loading', '');
    try {
      const reply = await thread.run(task, transfer);
      if (reply.type === 'failed') throw fromErrorMessage(reply.error);
      return reply;
    } catch (error) {
      if (this.#state === 'closed') throw unavailable(`${label}: the load was given up`, error);
      throw this.#failure ?? error;
    } finally {
      stopTimer?.();
    }
  }

  /** Runs a task on the started instance; a dead or too slow thread answers `failed`, fatally. */
  async #run(task: InstanceTask, transfer: readonly ArrayBuffer[]): Promise<InstanceReply> {
    const { executionTimeoutMs } = this.#blueprint.options;
    const stopTimer = this.#limit(executionTimeoutMs, 'the execution', ' and was ended');
    try {
      return await this.#slot.run(task, transfer);
    } catch (error) {
      return failedReply(this.#failure ?? this.#lost(thrownText(error)), true);
    } finally {
      stopTimer?.();
    }
  }

  /** Ends the thread, and with it what it runs, after `limitMs`; 0 is no limit. */
  #limit(limitMs: number, what: string, outcome: string): (() => void) | undefined {
    if (limitMs <= 0) return undefined;
    const { clock, label } = this.#blueprint;
    return clock.setTimer(limitMs * 1e6, () => {
      this.#failure = unavailable(`${label}: ${what} took longer than ${limitMs} ms${outcome}`);
      void this.#slot.end();
    });
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
    // What waited behind an execution has failed with it, and tells the same once more.
    if (this.#state === 'replacing') return;
    this.#failure = reason;
    this.#state = 'replacing';
    this.#events.onChange(this);
    this.#slot.cancelCalls();
    this.#streams.lose({ code: reason.code, message: reason.message });
    this.#wakeQuiet();
    this.#blueprint.services.log('error', `${reason.message}; the instance is replaced`);
    if (countsAsFailure) this.#restarts.failed();
    void this.#slot.end().then(() => this.#scheduleStart());
  }

  #scheduleStart(): void {
    if (this.#state !== 'replacing') return;
    const { clock, label, services } = this.#blueprint;
    const delayNs = this.#restarts.nextDelayNs();
    if (delayNs === undefined) {
      this.#state = 'failed';
      const { failures } = this.#restarts;
      services.log('error', `${label}: an instance is given up after ${failures} failures`);
      this.#events.onChange(this);
    } else if (delayNs === 0) {
      void this.#restart();
    } else {
      this.#stopTimer = clock.setTimer(delayNs, () => void this.#restart());
    }
  }

  async #restart(): Promise<void> {
    try {
      await this.#initialize();
      this.#becomeIdle();
    } catch (error) {
      if (this.#state !== 'replacing') return;
      const { label, services } = this.#blueprint;
      this.#failure = this.#lost(thrownText(error));
      this.#restarts.failed();
      services.log('error', `${label}: an instance does not start again: ${thrownText(error)}`);
      await this.#slot.end();
      this.#scheduleStart();
    }
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

function unexpected(reply: InstanceReply): InferenceServerError {
  return internal(`an instance answered '${reply.type}' out of turn; this is a bug`);
}
