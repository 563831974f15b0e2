import { unsupported } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import {
  parseIndexRequest,
  parseLoadRequest,
  parseUnloadRequest,
} from '../protocol/control-wire.js';
import { RepositoryIndexWriter } from '../protocol/metadata-json.js';
import type { InferenceServer } from '../server/inference-server.js';
import { emptyBody, replyJson } from './replies.js';
import { readBody } from './request-body.js';
import type { RouteTarget } from './route-target.js';
import type { BodyLimits, Exchange } from './transport.js';

/** The model repository extension. */
export class RepositoryHandler {
  readonly #server: InferenceServer;
  readonly #limits: BodyLimits;
  readonly #logger: Logger;
  readonly #indexWriter = new RepositoryIndexWriter();

  constructor(server: InferenceServer, limits: BodyLimits, logger: Logger) {
    this.#server = server;
    this.#limits = limits;
    this.#logger = logger;
  }

  index(exchange: Exchange): void {
    readBody(exchange, this.#limits, this.#logger, async (body) => {
      const entries = await this.#server.repositoryIndex(parseIndexRequest(body));
      replyJson(exchange, this.#indexWriter.body(entries));
    });
  }

  /** Answers when the model is ready, or has failed. */
  load(exchange: Exchange, target: RouteTarget): void {
    refuseRepositoryName(target);
    readBody(exchange, this.#limits, this.#logger, async (body) => {
      await this.#server.loadModel(target.modelName, parseLoadRequest(body));
      replyJson(exchange, emptyBody);
    });
  }

  /** Answers at once: the index tells when the model is gone. */
  unload(exchange: Exchange, target: RouteTarget): void {
    refuseRepositoryName(target);
    readBody(exchange, this.#limits, this.#logger, async (body) => {
      await this.#server.unloadModel(target.modelName, parseUnloadRequest(body));
      replyJson(exchange, emptyBody);
    });
  }
}

function refuseRepositoryName({ repository }: RouteTarget): void {
  if (repository !== '') {
    throw unsupported("'repository_name' specification is not supported");
  }
}
