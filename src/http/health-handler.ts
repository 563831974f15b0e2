import { unavailable } from '../errors.js';
import { errorBody } from '../protocol/error-status.js';
import type { InferenceServer } from '../server/inference-server.js';
import { emptyBody } from './replies.js';
import { textHeads } from './reply-head.js';
import type { RouteTarget } from './route-target.js';
import type { Exchange } from './transport.js';

const modelNotReadyBody = errorBody({ message: 'Model version not ready' });

/** Live and ready: the status says it, there is no body. */
export class HealthHandler {
  readonly #server: InferenceServer;

  constructor(server: InferenceServer) {
    this.#server = server;
  }

  live(exchange: Exchange): void {
    this.#refuseWhenExiting();
    exchange.reply(textHeads(200), emptyBody);
  }

  ready(exchange: Exchange): void {
    this.#refuseWhenExiting();
    exchange.reply(textHeads(this.#server.isReady() ? 200 : 400), emptyBody);
  }

  modelReady(exchange: Exchange, { modelName, modelVersion }: RouteTarget): void {
    void this.#server.isModelReady(modelName, modelVersion).then((isReady) => {
      if (isReady) exchange.reply(textHeads(200), emptyBody);
      else exchange.reply(textHeads(400), modelNotReadyBody);
    });
  }

  #refuseWhenExiting(): void {
    if (!this.#server.isLive()) throw unavailable('Server exiting');
  }
}
