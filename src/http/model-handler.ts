import type { Logger } from '../observability/logger.js';
import {
  modelConfigBody,
  modelMetadataBody,
  serverMetadataBody,
} from '../protocol/metadata-json.js';
import { StatisticsWriter } from '../protocol/statistics-wire.js';
import type { InferenceServer } from '../server/inference-server.js';
import { replyError, replyJson } from './replies.js';
import { jsonHeads } from './reply-head.js';
import type { RouteTarget } from './route-target.js';
import type { Exchange } from './transport.js';

/** What the server and its models are, and what they did. */
export class ModelHandler {
  readonly #server: InferenceServer;
  readonly #logger: Logger;
  readonly #statisticsWriter = new StatisticsWriter();

  constructor(server: InferenceServer, logger: Logger) {
    this.#server = server;
    this.#logger = logger;
  }

  serverMetadata(exchange: Exchange): void {
    replyJson(exchange, serverMetadataBody(this.#server.serverMetadata()));
  }

  modelMetadata(exchange: Exchange, { modelName, modelVersion }: RouteTarget): void {
    this.#reply(exchange, modelName, () =>
      modelMetadataBody(this.#server.modelMetadata(modelName, modelVersion)),
    );
  }

  modelConfig(exchange: Exchange, { modelName, modelVersion }: RouteTarget): void {
    this.#reply(exchange, modelName, () =>
      modelConfigBody(this.#server.modelConfig(modelName, modelVersion)),
    );
  }

  statistics(exchange: Exchange, { modelName, modelVersion }: RouteTarget): void {
    const statistics = this.#server.statistics(modelName, modelVersion);
    replyJson(exchange, this.#statisticsWriter.body(statistics));
  }

  /** Once the model is there: in mode on-demand it may have to be loaded. */
  #reply(exchange: Exchange, modelName: string, bodyOf: () => Uint8Array): void {
    const loading = this.#server.whenServed(modelName);
    if (loading === undefined) {
      replyJson(exchange, bodyOf());
      return;
    }
    loading
      .then(() => replyJson(exchange, bodyOf()))
      .catch((thrown: unknown) => replyError(exchange, jsonHeads, thrown, this.#logger));
  }

  /** Names of all models that have a READY version, as KServe's own servers list them. */
  modelList(exchange: Exchange): void {
    this.#server.repositoryIndex(true).then(
      (entries) => {
        const models = [...new Set(entries.map((entry) => entry.name))];
        replyJson(exchange, Buffer.from(JSON.stringify({ models })));
      },
      (thrown: unknown) => replyError(exchange, jsonHeads, thrown, this.#logger),
    );
  }
}
