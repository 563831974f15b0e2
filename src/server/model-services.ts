import { internal } from '../errors.js';
import type { LogLevel, MetricUpdate } from '../execution/messages.js';
import type { HostServices } from '../execution/model-instances.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import type { InferenceHandle, ResponseHandler } from '../inference/infer-response.js';
import type { Logger } from '../observability/logger.js';
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
  /** Instances of this model that could take a call; undefined until it is loaded. */
  readonly #countInstances: () => number;
  readonly #server: HostingServer;
  readonly #logger: Logger;
  readonly #metrics: MetricUpdates;
  /** Calls of the model to itself that have not ended. */
  #selfCalls = 0;

  constructor(
    modelName: string,
    countInstances: () => number,
    server: HostingServer,
    logger: Logger,
    metrics: MetricUpdates,
  ) {
    this.#modelName = modelName;
    this.#countInstances = countInstances;
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

  callModel(request: InferenceRequest, handler: ResponseHandler): InferenceHandle {
    if (request.modelName !== this.#modelName) return this.#server.inferWithin(request, handler);
    return this.#callItself(request, handler);
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

  /** A caller holds an instance: when all of them wait for each other nothing ever moves again. */
  #callItself(request: InferenceRequest, handler: ResponseHandler): InferenceHandle {
    if (this.#selfCalls + 1 >= this.#countInstances()) {
      handler.fail(
        internal(
          `model '${this.#modelName}' calls itself while all of its instances are waiting: the call could never run. Raise the count of its instance_group.`,
        ),
      );
      return { cancel() {}, pause() {}, resume() {} };
    }
    this.#selfCalls += 1;
    const end = () => {
      this.#selfCalls -= 1;
    };
    return this.#server.inferWithin(request, {
      respond: (response) => handler.respond(response),
      complete() {
        end();
        handler.complete();
      },
      fail(error) {
        end();
        handler.fail(error);
      },
    });
  }
}
