import type { Clock } from '../clock.js';
import { type InferenceServerError, toInferenceServerError } from '../errors.js';
import { fromConfigDataType } from '../inference/datatype.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import {
  endedHandle,
  type InferenceHandle,
  type ResponseHandler,
} from '../inference/infer-response.js';
import type { CallingInstance } from '../inference/model-call.js';
import type { ModelMetadata, TensorMetadata } from '../inference/model-metadata.js';
import type { Outcome } from '../inference/outcome.js';
import { type RequestTiming, startTiming } from '../inference/request-timing.js';
import type { Tensor } from '../inference/tensor.js';
import type { ModelConfig } from '../model-config/model-config.js';
import type { MeteredModel } from '../observability/model-metric-families.js';
import type { ModelStatistics } from '../observability/statistics.js';
import type { ModelStatisticsRecorder } from '../observability/statistics-recorder.js';
import type { Tracer } from '../observability/tracer.js';
import { PendingRequest } from '../scheduling/pending-request.js';
import type { Scheduler } from '../scheduling/scheduler.js';
import type { FirstResponseTiming } from './first-response-timing.js';
import type { ServedModel } from './inference-server.js';
import type { LoadedVersion } from './model-entry.js';
import type { RequestValidator } from './request-validation.js';

/** What runs a model's batches: an instance pool; nothing for an ensemble. */
export interface ModelInstancesOwner {
  members(): readonly CallingInstance[];
  isReady(): Promise<boolean>;
  setInstances(config: ModelConfig): Promise<void>;
  setLogVerboseLevel(level: number): void;
  close(): Promise<void>;
  destroy(): Promise<void>;
}

/** What the loader has made for one version, and hands over to it. */
export interface ModelParts {
  readonly name: string;
  /** '' where namespacing is off. */
  readonly namespace: string;
  readonly version: string;
  readonly config: ModelConfig;
  readonly labels: ReadonlyMap<string, readonly string[]>;
  readonly isDecoupled: boolean;
  readonly validate: RequestValidator;
  readonly scheduler: Scheduler;
  readonly instances: ModelInstancesOwner | undefined;
  /** Its scheduler is tied to the instances that it started with: other ones need a new load. */
  readonly hasFixedInstances: boolean;
  readonly recorder: ModelStatisticsRecorder;
  /** Of a decoupled model where `histogram_latencies` is on; else undefined. */
  readonly firstResponses: FirstResponseTiming | undefined;
  readonly tracer: Tracer;
  readonly clock: Clock;
  /** Its answers come from the response cache where they can. */
  readonly isCached: boolean;
  /** Estimate of what it takes while it is loaded. */
  readonly memoryBytes: number;
  /** Seconds that the load took. */
  readonly loadSecs: number;
  /** Frees what the load took: the local copy of a remote model. */
  release(): Promise<void>;
}

/** One loaded model version: takes requests, counts them, and retires when told. */
export class Model implements LoadedVersion {
  readonly name: string;
  readonly version: string;
  #served: ServedModel;
  readonly #parts: ModelParts;
  #retirement: Promise<void> | undefined;

  constructor(parts: ModelParts) {
    this.name = parts.name;
    this.version = parts.version;
    this.#parts = parts;
    this.#served = {
      name: parts.name,
      version: parts.version,
      config: parts.config,
      isDecoupled: parts.isDecoupled,
      labels: parts.labels,
    };
  }

  get memoryBytes(): number {
    return this.#parts.memoryBytes;
  }

  get hasFixedInstances(): boolean {
    return this.#parts.hasFixedInstances;
  }

  get served(): ServedModel {
    return this.#served;
  }

  /** Never throws: what is wrong with the request goes to `client.fail`. */
  infer(request: InferenceRequest, client: ResponseHandler): InferenceHandle {
    const timing = startTiming(this.#parts.clock.nowNs());
    const { tracer, firstResponses } = this.#parts;
    const handler = firstResponses?.measure(client, timing.requestStartNs) ?? client;
    let pending: PendingRequest;
    try {
      const { rows, modelInputs } = this.#parts.validate(request);
      pending = tracer.wantsTensors(this.name)
        ? this.#keepingOutputs(request, rows, modelInputs, timing, handler)
        : new PendingRequest(request, rows, modelInputs, timing, handler, this.#onSettled);
    } catch (error) {
      handler.fail(this.#toError(error));
      return endedHandle;
    }
    timing.queueStartNs = timing.requestStartNs;
    try {
      this.#parts.scheduler.enqueue(pending);
    } catch (error) {
      pending.fail(this.#toError(error), 'REFUSED');
    }
    return pending;
  }

  metadata(versions: readonly string[]): ModelMetadata {
    const { config } = this.#served;
    const isBatching = config.max_batch_size > 0;
    return {
      name: this.name,
      versions,
      platform: config.platform === '' ? config.backend : config.platform,
      inputs: config.input.map((tensor) => describeTensor(tensor, isBatching)),
      outputs: config.output.map((tensor) => describeTensor(tensor, isBatching)),
    };
  }

  /** None of an ensemble. */
  instances(): readonly CallingInstance[] {
    return this.#parts.instances?.members() ?? [];
  }

  statistics(): ModelStatistics {
    return this.#parts.recorder.snapshot();
  }

  /** What metrics read of this version. */
  metered(): MeteredModel {
    const { name, namespace, version, recorder, scheduler, loadSecs, isCached, config } =
      this.#parts;
    const place = namespace === '' ? {} : { namespace };
    const tags = Object.entries(config.metric_tags).map(([key, value]) => [`_${key}`, value]);
    return {
      labels: { model: name, version, ...place, ...Object.fromEntries(tags) },
      recorder,
      firstResponses: this.#parts.firstResponses?.responses,
      pendingRequests: scheduler.queuedRequests,
      loadSecs,
      isCached,
    };
  }

  /** The model's own word, where it has one. Never rejects. */
  async isReady(): Promise<boolean> {
    return (await this.#parts.instances?.isReady()) ?? true;
  }

  /** Takes over what may change while versions stay loaded. */
  async updateInPlace(config: ModelConfig): Promise<void> {
    const { instance_group, version_policy } = config;
    const policy = version_policy === undefined ? {} : { version_policy };
    const updated = { ...this.#served.config, instance_group, ...policy };
    this.#served = { ...this.#served, config: updated };
    await this.#parts.instances?.setInstances(updated);
  }

  setLogVerboseLevel(level: number): void {
    this.#parts.instances?.setLogVerboseLevel(level);
  }

  retire(): Promise<void> {
    this.#retirement ??= this.#retire();
    return this.#retirement;
  }

  /** Ends now: queued requests fail with UNAVAILABLE, running ones are lost. */
  async destroy(): Promise<void> {
    this.#parts.scheduler.destroy();
    await this.#parts.instances?.destroy();
  }

  async #retire(): Promise<void> {
    await this.#parts.scheduler.drain();
    await this.#parts.instances?.close();
    await this.#parts.release();
  }

  readonly #onSettled = (pending: PendingRequest, outcome: Outcome): void => {
    this.#ended(pending, outcome, []);
  };

  #ended(pending: PendingRequest, outcome: Outcome, outputs: readonly Tensor[]): void {
    const { request, timing, rows } = pending;
    const { clock, recorder, tracer } = this.#parts;
    timing.requestEndNs = clock.nowNs();
    recorder.requestEnded(timing, outcome, rows);
    if (outcome === 'REFUSED' || !tracer.isTracing) return;
    tracer.requestEnded({
      modelName: this.name,
      modelVersion: this.version,
      requestId: request.id,
      timing,
      inputs: request.inputs,
      outputs,
    });
  }

  /** For a trace of tensors: what the client gets is kept until the request has ended. */
  #keepingOutputs(
    request: InferenceRequest,
    rows: number,
    modelInputs: readonly Tensor[],
    timing: RequestTiming,
    handler: ResponseHandler,
  ): PendingRequest {
    const outputs: Tensor[] = [];
    const keeping: ResponseHandler = {
      respond(response) {
        outputs.push(...response.outputs);
        handler.respond(response);
      },
      complete: () => handler.complete(),
      fail: (error) => handler.fail(error),
    };
    return new PendingRequest(request, rows, modelInputs, timing, keeping, (pending, outcome) =>
      this.#ended(pending, outcome, outputs),
    );
  }

  #toError(thrown: unknown): InferenceServerError {
    return toInferenceServerError(thrown, `internal error in model '${this.name}'`);
  }
}

function describeTensor(
  tensor: { readonly name: string; readonly data_type: string; readonly dims: readonly number[] },
  isBatching: boolean,
): TensorMetadata {
  return {
    name: tensor.name,
    datatype: fromConfigDataType(tensor.data_type) ?? 'BYTES',
    shape: isBatching ? [-1, ...tensor.dims] : tensor.dims,
  };
}
