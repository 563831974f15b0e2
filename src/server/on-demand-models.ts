import type { Clock } from '../clock.js';
import { InferenceServerError, notFound, overloaded, toInferenceServerError } from '../errors.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import {
  type InferenceHandle,
  type ResponseHandler,
  tellEnd,
} from '../inference/infer-response.js';
import type { ModelConfig } from '../model-config/model-config.js';
import type { Logger } from '../observability/logger.js';
import { stepModels } from './ensemble-dependencies.js';
import type { LoadOverride, ServedModel } from './inference-server.js';
import { ModelResidency, type ResidencyLimits } from './model-residency.js';
import type { ModelRevision } from './model-revision.js';
import { WaitingRequest } from './waiting-request.js';

/** What loads and unloads; implemented by `ModelControl`. */
export interface LoadControl {
  load(name: string, override: LoadOverride): Promise<void>;
  unload(name: string, unloadDependents: boolean): Promise<void>;
  /** Every model of the repositories that could be read, loaded or not. */
  catalogue(): Promise<ReadonlyMap<string, ModelRevision>>;
  /** What the loaded versions of a model were made from. */
  servedRevision(name: string): ModelRevision | undefined;
}

/** What is loaded; implemented over the registry. */
export interface LoadedModels {
  served(name: string, version: string): ServedModel;
  /** Estimated bytes of memory of all versions. */
  bytesOf(name: string): number;
}

/** Runs a request on a model that is loaded by then. */
export type Infer = (request: InferenceRequest, handler: ResponseHandler) => InferenceHandle;

/** A client's request waits for room; one of a model or ensemble, which holds room itself, does not. */
export type RequestOrigin = 'client' | 'model';

/** How long a model that failed to load is left alone. */
const retryAfterSecs = 5;
const noOverride: LoadOverride = { config: undefined, files: new Map() };

/*
 *   request for a model that is | what happens
 *   ----------------------------+----------------------------------------------------------------
 *   in memory                   | runs, and holds the model until it has ended
 *   not in memory               | waits; the model loads as soon as there is room: idle models go,
 *                               | the least recently used first; models at work are waited for
 *   loading                     | waits for the same load
 *   failed less than 5 s ago    | refused with the load's error and Retry-After
 *   unknown                     | NOT_FOUND, as in the other modes
 */

/** `--model-control-mode=on-demand`: models load at their first request and go when others need room. */
export class OnDemandModels {
  readonly #control: LoadControl;
  readonly #loaded: LoadedModels;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #residency: ModelResidency;
  readonly #known = new Map<string, ModelRevision>();
  readonly #loading = new Map<string, Promise<void>>();
  readonly #failures = new Map<
    string,
    { readonly error: InferenceServerError; readonly atNs: number }
  >();
  /** Estimates of earlier loads: a model is as large as it was before. */
  readonly #bytes = new Map<string, number>();
  /** Models that a running one waits for: they do not wait for room, which it may hold. */
  readonly #urgent = new Set<string>();
  #whenIdle: (() => void)[] = [];

  constructor(
    control: LoadControl,
    loaded: LoadedModels,
    limits: ResidencyLimits,
    clock: Clock,
    logger: Logger,
  ) {
    this.#control = control;
    this.#loaded = loaded;
    this.#residency = new ModelResidency(limits);
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Reads what there is to load. Rejects where a repository cannot be read. */
  async open(): Promise<void> {
    for (const [name, revision] of await this.#control.catalogue()) this.#known.set(name, revision);
  }

  isKnown(name: string): boolean {
    return this.#known.has(name);
  }

  /**
   * A model that is not in memory, as its files describe it, and once it is, as it is. Undefined
   * where it is unknown or in memory.
   */
  dormant(name: string, version: string): ServedModel | undefined {
    const revision = this.#known.get(name);
    if (revision === undefined || this.#residency.has(name)) return undefined;
    if (version !== '' && !revision.versions.includes(version)) {
      throw notFound(`Request for unknown model: '${name}' version ${version} is not found`);
    }
    return new DormantModel(revision, version, this.#loaded);
  }

  /** Undefined where the model is in memory, or is not one that can be loaded. */
  whenServed(name: string): Promise<void> | undefined {
    if (this.#residency.has(name) || !this.#known.has(name)) return undefined;
    return this.#load(name, 'client');
  }

  /** Runs a request by `infer` once its model is in memory. */
  infer(
    request: InferenceRequest,
    handler: ResponseHandler,
    origin: RequestOrigin,
    infer: Infer,
  ): InferenceHandle {
    const { modelName } = request;
    if (this.#residency.has(modelName)) return this.#hold(request, handler, infer);
    if (!this.#known.has(modelName)) return infer(request, handler);
    const waiting = new WaitingRequest(request, handler, this.#clock);
    this.#load(modelName, origin).then(
      () => waiting.start((loaded, client) => this.infer(loaded, client, origin, infer)),
      (error: unknown) => waiting.fail(toInferenceServerError(error, 'internal error at load')),
    );
    return waiting;
  }

  /** A load call has loaded the model. */
  entered(name: string): void {
    this.#failures.delete(name);
    this.#enter(name);
  }

  /** An unload call has taken the model out; its next request loads it again. */
  left(name: string): void {
    this.#leave(name);
    this.#wakeWaiting();
  }

  #hold(request: InferenceRequest, handler: ResponseHandler, infer: Infer): InferenceHandle {
    const release = this.#residency.hold(this.#groupOf(request.modelName));
    return infer(
      request,
      tellEnd(handler, () => {
        release();
        this.#wakeWaiting();
      }),
    );
  }

  #load(name: string, origin: RequestOrigin): Promise<void> {
    const failure = this.#failures.get(name);
    if (failure !== undefined) {
      if (this.#clock.nowNs() - failure.atNs < retryAfterSecs * 1e9) {
        return Promise.reject(failure.error);
      }
      this.#failures.delete(name);
    }
    if (origin === 'model') {
      this.#urgent.add(name);
      this.#wakeWaiting();
    }
    const running = this.#loading.get(name);
    if (running !== undefined) return running;
    const load = this.#loadWithRoom(name).finally(() => {
      this.#loading.delete(name);
      this.#urgent.delete(name);
    });
    this.#loading.set(name, load);
    return load;
  }

  async #loadWithRoom(name: string): Promise<void> {
    const group = this.#groupOf(name);
    while ((await this.#makeRoom(group)) === 'wait' && !this.#urgent.has(name)) {
      await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    }
    const end = this.#residency.begin(group, this.#bytesOf);
    try {
      await this.#control.load(name, noOverride);
      this.#enter(name);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const refusal = overloaded(`model '${name}' could not be loaded: ${reason}`, retryAfterSecs);
      this.#failures.set(name, { error: refusal, atNs: this.#clock.nowNs() });
      throw refusal;
    } finally {
      end();
      this.#wakeWaiting();
    }
  }

  /** Unloads idle models until the group fits in. */
  async #makeRoom(group: readonly string[]): Promise<'ready' | 'wait'> {
    for (;;) {
      const decision = this.#residency.admit(group, this.#bytesOf);
      switch (decision.type) {
        case 'enter':
          return 'ready';
        case 'wait':
          return 'wait';
        case 'evict':
          await this.#evict(decision.victim);
      }
    }
  }

  /** The model takes no more requests when this resolves; its memory returns a little later. */
  async #evict(name: string): Promise<void> {
    this.#logger.info(`unloading '${name}', the least recently used model, to make room`);
    this.#leave(name);
    await this.#control.unload(name, false);
  }

  #enter(name: string): void {
    for (const member of this.#groupOf(name)) {
      const revision = this.#control.servedRevision(member);
      if (revision === undefined) continue;
      this.#known.set(member, revision);
      const bytes = this.#loaded.bytesOf(member);
      this.#bytes.set(member, bytes);
      this.#residency.enter(member, bytes);
    }
    // Its size is known only now.
    void this.#makeRoom(this.#groupOf(name)).catch((error: unknown) => {
      this.#logger.error(`could not make room for '${name}': ${String(error)}`);
    });
  }

  /** Ensembles go with a model that they need. */
  #leave(name: string): void {
    for (const resident of this.#residency.names) {
      if (this.#groupOf(resident).includes(name)) this.#residency.leave(resident);
    }
  }

  /** The model and all that it needs as an ensemble. */
  #groupOf(name: string): readonly string[] {
    const group = new Set([name]);
    for (const member of group) {
      const config = this.#known.get(member)?.config;
      if (config !== undefined) for (const step of stepModels(config)) group.add(step);
    }
    return [...group];
  }

  readonly #bytesOf = (name: string): number => this.#bytes.get(name) ?? 0;

  #wakeWaiting(): void {
    if (this.#whenIdle.length === 0) return;
    const waiting = this.#whenIdle;
    this.#whenIdle = [];
    for (const wake of waiting) wake();
  }
}

/** A model that is not in memory: what its files say of it, until it is loaded and says it itself. */
class DormantModel implements ServedModel {
  readonly name: string;
  readonly #revision: ModelRevision;
  readonly #version: string;
  readonly #loaded: LoadedModels;

  constructor(revision: ModelRevision, version: string, loaded: LoadedModels) {
    this.name = revision.id.name;
    this.#revision = revision;
    this.#version = version;
    this.#loaded = loaded;
  }

  get version(): string {
    return this.#served?.version ?? (this.#version || (this.#revision.versions.at(-1) ?? ''));
  }

  get config(): ModelConfig {
    return this.#served?.config ?? this.#revision.config;
  }

  get isDecoupled(): boolean {
    return this.config.model_transaction_policy?.decoupled ?? false;
  }

  get labels(): ServedModel['labels'] {
    return this.#served?.labels ?? new Map();
  }

  get #served(): ServedModel | undefined {
    try {
      return this.#loaded.served(this.name, this.#version);
    } catch (error) {
      if (error instanceof InferenceServerError) return undefined;
      throw error;
    }
  }
}
