import type { Clock } from '../clock.js';
import { type InferenceServerError, internal, unavailable } from '../errors.js';
import type { CallingInstance, ModelCall } from '../inference/model-call.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { intraOpThreads } from './available-cores.js';
import { Instance, type InstanceBlueprint } from './instance.js';
import { placeInstances } from './instance-placement.js';
import type { BatchForm, InstanceDescription } from './messages.js';
import type {
  CompleteConfig,
  ExecuteOutcome,
  ExecuteReply,
  ExecuteTask,
  HostServices,
  InstanceLane,
  InstancePlacement,
  InstancePoolOptions,
  ModelInstances,
  StreamCommand,
  StreamListener,
} from './model-instances.js';
import { SingleInstance } from './single-instance.js';

interface PlacedInstance {
  readonly placement: InstancePlacement;
  readonly instance: Instance;
}

/**
 * The instances of one model version. It never queues: whoever asks it to execute has seen an idle
 * instance. An instance that dies is replaced while the others go on; where all have been given
 * up, executions are accepted and fail at once, so that no request waits for nothing.
 */
export class InstancePool implements ModelInstances {
  readonly #blueprint: InstanceBlueprint;
  /** In the order of the configuration. */
  #placed: readonly PlacedInstance[] = [];
  /** Instances that are idle and may serve, the one that ran last on top: its caches are warm. */
  readonly #idle: Instance[] = [];
  /** Executions that somebody listens to, for commands. */
  readonly #listened = new Map<number, Instance>();
  readonly #whenIdle: ((instance: Instance) => void)[] = [];
  #config: ModelConfig;
  #batchForm: BatchForm = 'requests';
  #answersReadiness = false;
  #takesBundles = false;
  #phase: 'starting' | 'running' | 'closing' = 'starting';
  #idleListener: () => void = () => {};
  readonly #laneListeners = new Map<Instance, () => void>();
  #closing: Promise<void> | undefined;

  constructor(options: InstancePoolOptions, services: HostServices, clock: Clock) {
    const label = `model '${options.modelName}' version ${options.modelVersion}`;
    this.#blueprint = { options, services, clock, label };
    this.#config = options.config;
  }

  get batchForm(): BatchForm {
    return this.#batchForm;
  }

  get idleInstances(): number {
    return this.#idle.length > 0 || !this.#hasFailed() ? this.#idle.length : 1;
  }

  get takesBundles(): boolean {
    return this.#takesBundles;
  }

  get canRunAhead(): boolean {
    return this.#aheadInstance() !== undefined;
  }

  /** Instances that serve or will serve again: without passive ones and those given up. */
  members(): readonly CallingInstance[] {
    return this.#serving().flatMap(({ instance }) =>
      instance.state === 'failed' ? [] : [instance.work],
    );
  }

  /**
   * Starts the first instance, lets it and `completeConfig` complete the configuration, and starts
   * all. Resolves to the complete configuration; rejects with the load error, everything ended.
   */
  async start(completeConfig: CompleteConfig): Promise<ModelConfig> {
    try {
      const { options } = this.#blueprint;
      const first = this.#newInstance();
      this.#placed = [this.#place(first, options.config)];
      const completed = options.isAutoCompleteEnabled
        ? await first.autoComplete(this.#describe(this.#placed[0], 1), options.config)
        : undefined;
      this.#refuseWhenClosing();
      this.#config = completeConfig(completed);
      this.#placed = placeInstances(this.#config).map((placement, index) => ({
        placement,
        instance: index === 0 ? first : this.#newInstance(),
      }));
      await this.#startAll(this.#placed);
      this.#refuseWhenClosing();
      this.#phase = 'running';
      return this.#config;
    } catch (error) {
      await this.destroy();
      throw error;
    }
  }

  execute(
    task: ExecuteTask,
    listener: StreamListener | undefined,
    answering: readonly ModelCall[],
  ): Promise<ExecuteOutcome> {
    const instance = this.#idle.pop() ?? this.#aheadInstance();
    if (instance === undefined) return Promise.resolve(this.#refusal());
    if (listener !== undefined) this.#listened.set(task.executionId, instance);
    return instance.execute(task, listener, answering);
  }

  command(command: StreamCommand): void {
    this.#listened.get(command.executionId)?.command(command);
  }

  onIdle(listener: () => void): void {
    this.#idleListener = listener;
  }

  /**
   * Each instance that serves by itself, in the order of the configuration; once the pool has
   * started. They are those of now: after {@link setInstances} ask again. Executions go through
   * the lanes or through the pool, not both at a time.
   */
  lanes(): readonly InstanceLane[] {
    return this.#serving().map(({ instance, placement }) => ({
      placement,
      instances: new SingleInstance(instance, {
        batchForm: this.#batchForm,
        takesBundles: this.#takesBundles,
        isIdle: () => this.#idle.includes(instance),
        take: () => this.#removeIdle(instance),
        onIdle: (listener) => this.#laneListeners.set(instance, listener),
        refusal: () => this.#refusal(),
      }),
    }));
  }

  /** True where an instance lives and the model, if it has a word on it, says so. Never rejects. */
  async isReady(): Promise<boolean> {
    if (this.#phase !== 'running') return false;
    const lives = this.#serving().some(
      ({ instance }) => instance.state === 'idle' || instance.state === 'busy',
    );
    if (!lives || !this.#answersReadiness) return lives;
    const limitMs = this.#blueprint.options.readinessTimeoutMs;
    const instance = await this.#nextIdle(limitMs);
    return instance === undefined ? false : instance.askReadiness(limitMs);
  }

  /**
   * Makes the instances those of `config`, in place: what is new starts, what is gone finishes its
   * execution and ends. Rejects where a new one does not load; those that run go on then.
   */
  async setInstances(config: ModelConfig): Promise<void> {
    if (this.#phase !== 'running') throw unavailable(`${this.#blueprint.label}: is not running`);
    const wanted = placeInstances(config);
    const kept = new Map(this.#placed.map((placed) => [placed.placement.name, placed.instance]));
    const next = wanted.map((placement) => {
      const instance = kept.get(placement.name);
      kept.delete(placement.name);
      return { placement, instance: instance ?? this.#newInstance() };
    });
    const added = next.filter(
      ({ instance }) => !this.#placed.some((placed) => placed.instance === instance),
    );
    const former = { config: this.#config, placed: this.#placed };
    this.#config = config;
    this.#placed = [...next, ...this.#placed.filter(({ placement }) => kept.has(placement.name))];
    try {
      await this.#startAll(added);
    } catch (error) {
      this.#config = former.config;
      this.#placed = former.placed;
      await Promise.all(added.map(({ instance }) => this.#end(instance)));
      throw error;
    }
    this.#placed = next;
    await Promise.all([...kept.values()].map((instance) => this.#end(instance)));
  }

  setLogVerboseLevel(level: number): void {
    for (const { instance } of this.#placed) instance.setLogVerboseLevel(level);
  }

  /** Resolves when no execution runs and no stream is open. */
  async drain(): Promise<void> {
    await Promise.all(this.#placed.map(({ instance }) => instance.quiet()));
  }

  /** Lets what runs end, finalizes the model, ends the threads. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#endAll((instance) => instance.close());
    return this.#closing;
  }

  /** Ends the threads now; what runs fails with UNAVAILABLE. Idempotent. */
  async destroy(): Promise<void> {
    await this.#endAll((instance) => instance.destroy());
  }

  async #endAll(end: (instance: Instance) => Promise<void>): Promise<void> {
    this.#phase = 'closing';
    this.#idle.length = 0;
    await Promise.all(this.#placed.map(({ instance }) => end(instance)));
  }

  async #end(instance: Instance): Promise<void> {
    this.#removeIdle(instance);
    this.#laneListeners.delete(instance);
    await instance.close();
  }

  async #startAll(placed: readonly PlacedInstance[]): Promise<void> {
    const threads = intraOpThreads(this.#blueprint.options.cores, this.#placed.length);
    const starts = placed.map(async (one) => {
      const started = await one.instance.start(this.#describe(one, threads), this.#config);
      this.#batchForm = started.batchForm;
      this.#answersReadiness = started.answersReadiness;
      this.#takesBundles = started.takesBundles;
    });
    const outcomes = await Promise.allSettled(starts);
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  #newInstance(): Instance {
    return new Instance(this.#blueprint, {
      onChange: (instance) => this.#onChange(instance),
      onStreamsEnd: (executionId) => this.#listened.delete(executionId),
    });
  }

  #onChange(instance: Instance): void {
    if (this.#phase === 'closing') return;
    const placed = this.#placed.find((one) => one.instance === instance);
    if (placed === undefined || placed.placement.isPassive) return;
    if (instance.state === 'idle') {
      const waiting = this.#whenIdle.shift();
      if (waiting !== undefined) {
        waiting(instance);
        return;
      }
      if (!this.#idle.includes(instance)) this.#idle.push(instance);
    } else {
      this.#removeIdle(instance);
      if (instance.state !== 'failed') return;
    }
    const hasNews = instance.state === 'idle' || this.#hasFailed();
    // After whoever awaits the execution has read its reply.
    queueMicrotask(() =>
      queueMicrotask(() => {
        this.#laneListeners.get(instance)?.();
        if (hasNews) this.#idleListener();
      }),
    );
  }

  /** Takes an idle instance out of service until it becomes idle again; undefined when late. */
  #nextIdle(limitMs: number): Promise<Instance | undefined> {
    const instance = this.#idle.pop();
    if (instance !== undefined) return Promise.resolve(instance);
    return new Promise((resolve) => {
      const stopTimer = this.#blueprint.clock.setTimer(limitMs * 1e6, () => {
        const index = this.#whenIdle.indexOf(take);
        if (index >= 0) this.#whenIdle.splice(index, 1);
        resolve(undefined);
      });
      const take = (idle: Instance): void => {
        stopTimer();
        resolve(idle);
      };
      this.#whenIdle.push(take);
    });
  }

  /** Of the busy instances that take one execution more, the one that will have time first. */
  #aheadInstance(): Instance | undefined {
    if (this.#phase !== 'running') return undefined;
    let first: Instance | undefined;
    for (const { instance, placement } of this.#placed) {
      if (placement.isPassive || !instance.canRunAhead) continue;
      if (first === undefined || instance.busySinceNs < first.busySinceNs) first = instance;
    }
    return first;
  }

  #removeIdle(instance: Instance): void {
    const index = this.#idle.indexOf(instance);
    if (index >= 0) this.#idle.splice(index, 1);
  }

  #serving(): readonly PlacedInstance[] {
    return this.#placed.filter(({ placement }) => !placement.isPassive);
  }

  /** True where every instance that could serve has been given up. */
  #hasFailed(): boolean {
    return (
      this.#phase === 'running' &&
      this.#placed.every(
        ({ instance, placement }) => placement.isPassive || instance.state === 'failed',
      )
    );
  }

  #refusal(): ExecuteReply {
    const { code, message } = this.#noInstance();
    return { type: 'failed', error: { code, message }, isFatal: false };
  }

  #noInstance(): InferenceServerError {
    const failed = this.#placed.find(({ instance }) => instance.state === 'failed');
    const reason = failed?.instance.failure?.message ?? `${this.#blueprint.label}: is not running`;
    return unavailable(`no instance is left: ${reason}`);
  }

  #place(instance: Instance, config: ModelConfig): PlacedInstance {
    const placement = placeInstances(config)[0];
    if (placement === undefined) throw internal('a model has no instance; this is a bug');
    return { placement, instance };
  }

  #describe(placed: PlacedInstance | undefined, threads: number): InstanceDescription {
    if (placed === undefined) throw internal('an instance has no place; this is a bug');
    const { options } = this.#blueprint;
    return {
      modelName: options.modelName,
      modelVersion: options.modelVersion,
      modelDirectory: options.modelDirectory,
      versionDirectory: options.versionDirectory,
      instanceName: placed.placement.name,
      instanceKind: placed.placement.kind,
      deviceId: placed.placement.deviceId,
      defaultIntraOpThreads: threads,
      backendConfig: options.backendConfig,
      logVerboseLevel: options.logVerboseLevel,
    };
  }

  #refuseWhenClosing(): void {
    if (this.#phase === 'closing') {
      throw unavailable(`${this.#blueprint.label}: the load was given up`);
    }
  }
}
