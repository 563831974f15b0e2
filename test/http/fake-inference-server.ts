import { type InferenceServerError, notFound, unavailable } from '../../src/errors.js';
import type { InferenceRequest } from '../../src/inference/infer-request.js';
import { noParameters } from '../../src/inference/infer-request.js';
import type {
  InferenceHandle,
  InferenceResponse,
  ResponseHandler,
} from '../../src/inference/infer-response.js';
import type {
  ModelMetadata,
  RepositoryIndexEntry,
  ServerMetadata,
} from '../../src/inference/model-metadata.js';
import type { Tensor } from '../../src/inference/tensor.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import type { ModelStatistics } from '../../src/observability/statistics.js';
import type {
  InferenceServer,
  LoadOverride,
  ServedModel,
} from '../../src/server/inference-server.js';
import { modelConfig, modelInput, modelOutput } from '../support/model-configs.js';

/** A request that waits for the test to answer it. */
export interface HeldRequest extends InferenceHandle {
  readonly request: InferenceRequest;
  readonly handler: ResponseHandler;
  readonly events: readonly string[];
}

/**
 * A server with four models: `echo` answers each input at once as the output of its name, `held`
 * leaves the answer to the test, `stream` (decoupled) too, `refusing` fails each request at once.
 */
export class FakeInferenceServer implements InferenceServer {
  isLiveNow = true;
  isReadyNow = true;
  readonly held: HeldRequest[] = [];
  readonly calls: string[] = [];
  refusal: InferenceServerError = unavailable('Exceeds maximum queue size');
  #onHeld: (() => void)[] = [];

  isLive(): boolean {
    return this.isLiveNow;
  }

  isReady(): boolean {
    return this.isReadyNow;
  }

  whenServed(): undefined {
    return undefined;
  }

  isModelReady(name: string, version: string): Promise<boolean> {
    return Promise.resolve(models.has(name) && (version === '' || version === '1'));
  }

  serverMetadata(): ServerMetadata {
    return { name: 'fake', version: '0', extensions: ['classification'] };
  }

  modelMetadata(name: string, version: string): ModelMetadata {
    const model = this.servedModel(name, version);
    return { name: model.name, versions: ['1'], platform: 'p', inputs: [], outputs: [] };
  }

  modelConfig(name: string, version: string): ModelConfig {
    return this.servedModel(name, version).config;
  }

  statistics(name: string): readonly ModelStatistics[] {
    this.calls.push(`statistics ${name}`);
    return [];
  }

  repositoryIndex(isReadyOnly: boolean): Promise<readonly RepositoryIndexEntry[]> {
    const all: RepositoryIndexEntry[] = [
      { name: 'echo', version: '1', state: 'READY' },
      { name: 'gone', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' },
    ];
    return Promise.resolve(all.filter(({ state }) => !isReadyOnly || state === 'READY'));
  }

  loadModel(name: string, override: LoadOverride): Promise<void> {
    const files = [...override.files].map(([path, bytes]) => `${path}=${bytes.byteLength}`);
    this.calls.push(`load ${name} ${override.config ?? '-'} ${files.join(',')}`);
    return name === 'bad' ? Promise.reject(notFound('no bad model')) : Promise.resolve();
  }

  unloadModel(name: string, unloadDependents: boolean): Promise<void> {
    this.calls.push(`unload ${name} ${unloadDependents}`);
    return Promise.resolve();
  }

  servedModel(name: string, version: string): ServedModel {
    const model = models.get(name);
    if (model === undefined) throw notFound(`Request for unknown model: '${name}' is not found`);
    if (version !== '' && version !== '1') {
      throw notFound(`Request for unknown model: '${name}' version ${version} is not found`);
    }
    return model;
  }

  infer(request: InferenceRequest, handler: ResponseHandler): InferenceHandle {
    if (request.modelName === 'echo') {
      handler.respond(echo(request));
      handler.complete();
      return idleHandle;
    }
    if (request.modelName === 'refusing') {
      handler.fail(this.refusal);
      return idleHandle;
    }
    const events: string[] = [];
    const held: HeldRequest = {
      request,
      handler,
      events,
      cancel: () => this.#note(events, 'cancel'),
      pause: () => this.#note(events, 'pause'),
      resume: () => this.#note(events, 'resume'),
    };
    this.held.push(held);
    this.#wake();
    return held;
  }

  /** The next request for `held` or `stream`. */
  async nextHeld(): Promise<HeldRequest> {
    for (;;) {
      const held = this.held.shift();
      if (held !== undefined) return held;
      await this.#change();
    }
  }

  /** Resolves when the request has been told `event`. */
  async told(held: HeldRequest, event: string): Promise<void> {
    while (!held.events.includes(event)) await this.#change();
  }

  #note(events: string[], event: string): void {
    events.push(event);
    this.#wake();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#onHeld.push(resolve);
    });
  }

  #wake(): void {
    const waiting = this.#onHeld;
    this.#onHeld = [];
    for (const wake of waiting) wake();
  }
}

export function echo(request: InferenceRequest): InferenceResponse {
  return {
    modelName: request.modelName,
    modelVersion: '1',
    id: request.id,
    parameters: request.parameters,
    outputs: request.inputs.map((input) => ({ ...input, bytes: input.bytes.slice() })),
  };
}

export function response(outputs: readonly Tensor[]): InferenceResponse {
  return { modelName: 'm', modelVersion: '1', id: '', parameters: noParameters, outputs };
}

export function fp32(name: string, values: readonly number[]): Tensor {
  const bytes = new Uint8Array(new Float32Array(values).buffer);
  return { name, datatype: 'FP32', shape: [values.length], encoding: 'raw', bytes };
}

const idleHandle: InferenceHandle = {
  cancel: () => undefined,
  pause: () => undefined,
  resume: () => undefined,
};

const models: ReadonlyMap<string, ServedModel> = new Map(
  [
    served('echo', false),
    served('held', false),
    served('refusing', false),
    served('modèle', false),
    served('stream', true),
  ].map((model) => [model.name, model]),
);

function served(name: string, isDecoupled: boolean): ServedModel {
  return {
    name,
    version: '1',
    config: modelConfig({
      name,
      input: [modelInput('X', 'TYPE_FP32', [-1])],
      output: [modelOutput('X', 'TYPE_FP32', [-1])],
      model_transaction_policy: { decoupled: isDecoupled },
    }),
    isDecoupled,
    labels: new Map([['X', ['cat', 'dog']]]),
  };
}
