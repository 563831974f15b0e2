import {
  InferenceServerError,
  invalidArg,
  toInferenceServerError,
  unavailable,
} from '../errors.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import {
  endedHandle,
  type InferenceHandle,
  type ResponseHandler,
  tellEnd,
} from '../inference/infer-response.js';
import type { CallingInstance } from '../inference/model-call.js';
import type {
  ModelMetadata,
  RepositoryIndexEntry,
  ServerMetadata,
} from '../inference/model-metadata.js';
import type { ModelConfig } from '../model-config/model-config.js';
import type { ModelStatistics } from '../observability/statistics.js';
import type { Admission } from '../scheduling/admission.js';
import type { InferenceServer, LoadOverride, ServedModel } from './inference-server.js';
import type { ModelControl } from './model-control.js';
import type { ModelRegistry } from './model-registry.js';
import type { OnDemandModels, RequestOrigin } from './on-demand-models.js';

/** Who decides which models are loaded: `--model-control-mode`. */
export type ModelControlMode = 'none' | 'poll' | 'explicit' | 'on-demand';

export interface ServerCoreOptions {
  readonly metadata: ServerMetadata;
  readonly controlMode: ModelControlMode;
  readonly isReadinessStrict: boolean;
  /** Bounds of requests and bytes in flight. */
  readonly admission: Admission;
  /** In mode `on-demand` only. */
  readonly onDemand: OnDemandModels | undefined;
}

/**
 * ```
 *   starting ──start-up loads done──▶ serving ──signal──▶ draining ──▶ stopped
 * ```
 * `draining` still runs requests that arrive on open connections; it is live and not ready.
 */
type Phase = 'starting' | 'serving' | 'draining' | 'stopped';

/** The service behind both front ends: routes requests to models and calls to model control. */
export class ServerCore implements InferenceServer {
  readonly #registry: ModelRegistry;
  readonly #control: ModelControl;
  readonly #options: ServerCoreOptions;
  #phase: Phase = 'starting';

  constructor(registry: ModelRegistry, control: ModelControl, options: ServerCoreOptions) {
    this.#registry = registry;
    this.#control = control;
    this.#options = options;
  }

  /** Start-up loads are done: from now on the server may be ready. */
  startServing(): void {
    if (this.#phase === 'starting') this.#phase = 'serving';
  }

  /** Readiness turns false; requests are still served. */
  startDraining(): void {
    if (this.#phase !== 'stopped') this.#phase = 'draining';
  }

  /** Retires every model; resolves when all accepted requests have ended. */
  async stop(): Promise<void> {
    this.#phase = 'stopped';
    await Promise.all([...this.#registry.records()].map((record) => record.entry.unload()));
    await this.#registry.settleRetirements();
  }

  /** Ends now what `stop` waits for. */
  async destroy(): Promise<void> {
    this.#phase = 'stopped';
    await Promise.all(this.#registry.readyModels().map((model) => model.destroy()));
  }

  isLive(): boolean {
    return this.#phase !== 'stopped';
  }

  isReady(): boolean {
    if (this.#phase !== 'serving') return false;
    return !this.#options.isReadinessStrict || this.#control.isReady;
  }

  async isModelReady(name: string, version: string): Promise<boolean> {
    try {
      if (this.#options.onDemand?.dormant(name, version) !== undefined) return true;
      return await this.#registry.resolve(name, version).isReady();
    } catch {
      // Unknown and unavailable models are not ready; that is the whole answer.
      return false;
    }
  }

  serverMetadata(): ServerMetadata {
    return this.#options.metadata;
  }

  modelMetadata(name: string, version: string): ModelMetadata {
    const model = this.#registry.resolve(name, version);
    const ready = this.#registry.lookUp(name)?.entry.readyVersions() ?? [];
    const versions = version === '' ? ready.map((entry) => entry.version) : [model.version];
    return model.metadata(versions);
  }

  modelConfig(name: string, version: string): ModelConfig {
    return this.#registry.resolve(name, version).served.config;
  }

  statistics(name: string, version: string): readonly ModelStatistics[] {
    if (name === '') return this.#registry.readyModels().map((model) => model.statistics());
    const ready = this.#registry.lookUp(name)?.entry.readyVersions() ?? [];
    if (ready.length === 0) throw invalidArg(`requested model '${name}' is not available`);
    const models = version === '' ? ready : ready.filter((model) => model.version === version);
    if (models.length === 0) {
      throw invalidArg(`requested model version is not available for model '${name}'`);
    }
    return models.map((model) => model.statistics());
  }

  async repositoryIndex(isReadyOnly: boolean): Promise<readonly RepositoryIndexEntry[]> {
    const rows = await this.#control.index(this.#takesLoadCalls);
    return isReadyOnly ? rows.filter((row) => row.state === 'READY') : rows;
  }

  async loadModel(name: string, override: LoadOverride): Promise<void> {
    this.#checkControl();
    await this.#control.load(name, override);
    this.#options.onDemand?.entered(name);
  }

  async unloadModel(name: string, unloadDependents: boolean): Promise<void> {
    this.#checkControl();
    this.#options.onDemand?.left(name);
    await this.#control.unload(name, unloadDependents);
  }

  servedModel(name: string, version: string): ServedModel {
    const dormant = this.#options.onDemand?.dormant(name, version);
    return dormant ?? this.#registry.resolve(name, version).served;
  }

  whenServed(name: string): Promise<void> | undefined {
    return this.#options.onDemand?.whenServed(name);
  }

  infer(request: InferenceRequest, handler: ResponseHandler): InferenceHandle {
    const { admission } = this.#options;
    let leave: () => void;
    try {
      leave = admission.enter(inputBytes(request));
    } catch (error) {
      handler.fail(toInferenceServerError(error, 'internal error at admission'));
      return endedHandle;
    }
    return this.#run(request, 'client', tellEnd(handler, leave));
  }

  /**
   * For what runs inside a request that has been let in: steps of ensembles, calls of models. It
   * is not counted again, or a full server would wait for itself.
   */
  inferWithin(request: InferenceRequest, handler: ResponseHandler): InferenceHandle {
    return this.#run(request, 'model', handler);
  }

  #run(
    request: InferenceRequest,
    origin: RequestOrigin,
    handler: ResponseHandler,
  ): InferenceHandle {
    const { onDemand } = this.#options;
    if (onDemand === undefined) return this.#inferNow(request, handler);
    return onDemand.infer(request, handler, origin, this.#inferNow);
  }

  readonly #inferNow = (request: InferenceRequest, handler: ResponseHandler): InferenceHandle => {
    try {
      return this.#registry
        .resolve(request.modelName, request.modelVersion)
        .infer(request, handler);
    } catch (error) {
      handler.fail(toInferenceServerError(error, 'internal error while finding the model'));
      return endedHandle;
    }
  };

  get #takesLoadCalls(): boolean {
    const { controlMode } = this.#options;
    return controlMode === 'explicit' || controlMode === 'on-demand';
  }

  /** What a call of the model can run on; undefined where it is not served. */
  instancesOf(name: string, version: string): readonly CallingInstance[] | undefined {
    try {
      return this.#registry.resolve(name, version).instances();
    } catch (error) {
      if (error instanceof InferenceServerError) return undefined;
      throw error;
    }
  }

  #checkControl(): void {
    if (this.#phase === 'stopped') throw unavailable('Server is stopping.');
    if (!this.#takesLoadCalls) {
      throw unavailable('explicit model load / unload is not allowed if polling is enabled');
    }
  }
}

function inputBytes(request: InferenceRequest): number {
  let sum = 0;
  for (const { bytes } of request.inputs) sum += bytes.length;
  return sum;
}
