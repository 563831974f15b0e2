import { toInferenceServerError } from '../errors.js';
import type { LogLevel, MetricUpdate } from '../execution/messages.js';
import type { HostServices } from '../execution/model-instances.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import {
  endedHandle,
  type InferenceHandle,
  type ResponseHandler,
  tellEnd,
} from '../inference/infer-response.js';
import type { CallingInstance } from '../inference/model-call.js';
import type { Logger } from '../observability/logger.js';
import type { CallGraph } from './call-graph.js';
import type { InferenceServer } from './inference-server.js';

/** The server, to the models that it hosts. */
export interface HostingServer extends InferenceServer {
  /** Runs a request within one that has been let in already. */
  inferWithin(request: InferenceRequest, handler: ResponseHandler): InferenceHandle;
}

/** Takes the custom metrics of models. */
export interface MetricUpdates {
  update(modelName: string, update: MetricUpdate): void;
}

/** What the code of one model may ask of the server that hosts it. */
export class ModelServices implements HostServices {
  readonly #modelName: string;
  /** Shared by all models. */
  readonly #calls: CallGraph;
  readonly #server: HostingServer;
  readonly #logger: Logger;
  readonly #metrics: MetricUpdates;

  constructor(
    modelName: string,
    calls: CallGraph,
    server: HostingServer,
    logger: Logger,
    metrics: MetricUpdates,
  ) {
    this.#modelName = modelName;
    this.#calls = calls;
    this.#server = server;
    this.#logger = logger;
    this.#metrics = metrics;
  }

  log(level: LogLevel, message: string): void {
    const line = `${this.#modelName}: ${message}`;
    switch (level) {
      case 'error':
        this.#logger.error(line);
        return;
      case 'warning':
        this.#logger.warning(line);
        return;
      case 'info':
        this.#logger.info(line);
        return;
      case 'verbose':
        this.#logger.verbose(1, line);
        return;
    }
  }

  updateMetric(update: MetricUpdate): void {
    this.#metrics.update(this.#modelName, update);
  }

  callModel(
    request: InferenceRequest,
    handler: ResponseHandler,
    caller: CallingInstance,
  ): InferenceHandle {
    const { modelName, modelVersion } = request;
    const call = { caller, modelName, modelVersion };
    try {
      this.#calls.begin(call);
    } catch (error) {
      handler.fail(toInferenceServerError(error, 'internal error while calling a model'));
      return endedHandle;
    }
    return this.#server.inferWithin(
      { ...request, call },
      tellEnd(handler, () => this.#calls.end(call)),
    );
  }

  async loadModel(
    name: string,
    config: string | undefined,
    files: readonly (readonly [string, Uint8Array])[],
  ): Promise<void> {
    await this.#server.loadModel(name, { config, files: new Map(files) });
  }

  async unloadModel(name: string): Promise<void> {
    await this.#server.unloadModel(name, false);
  }

  isModelReady(name: string, version: string): Promise<boolean> {
    return this.#server.isModelReady(name, version);
  }
}
