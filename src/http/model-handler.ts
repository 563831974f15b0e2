import type { ModelMetadata } from '../inference/model-metadata.js';
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
    const metadata: ModelMetadata = this.#server.modelMetadata(modelName, modelVersion);
    replyJson(exchange, modelMetadataBody(metadata));
  }

  modelConfig(exchange: Exchange, { modelName, modelVersion }: RouteTarget): void {
    replyJson(exchange, modelConfigBody(this.#server.modelConfig(modelName, modelVersion)));
  }

  statistics(exchange: Exchange, { modelName, modelVersion }: RouteTarget): void {
    const statistics = this.#server.statistics(modelName, modelVersion);
    replyJson(exchange, this.#statisticsWriter.body(statistics));
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
