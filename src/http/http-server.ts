import { InferenceServerError, unavailable } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import { errorBody } from '../protocol/error-status.js';
import { ForwardedHeaders } from '../protocol/forwarded-headers.js';
import { RestrictedAccess, type Restrictions } from '../protocol/restricted-access.js';
import type { InferenceServer } from '../server/inference-server.js';
import type { ServerSettings } from '../server/settings.js';
import type { SharedMemoryRegistry } from '../server/shared-memory.js';
import { GenerateHandler } from './generate-handler.js';
import { HealthHandler } from './health-handler.js';
import { InferHandler } from './infer-handler.js';
import { type MetricsSource, replyMetrics } from './metrics-server.js';
import { ModelHandler } from './model-handler.js';
import { openTransport, type TransportChoice } from './open-transport.js';
import { methodNotAllowedBody, notFoundBody, replyError } from './replies.js';
import { textHeads } from './reply-head.js';
import { RepositoryHandler } from './repository-handler.js';
import { chunksMax } from './request-body.js';
import { type Action, type ActionHandler, RouteTable } from './routes.js';
import { SettingsHandler } from './settings-handler.js';
import { SharedMemoryHandler } from './shared-memory-handler.js';
import type { Exchange, TlsOptions, Transport } from './transport.js';

/** Bodies of the greatest size that may be in memory at once, unfinished. */
const uploadsMax = 16;

export interface HttpServerOptions {
  readonly transport: TransportChoice;
  /** An IPv4 or IPv6 address, or `unix:` and a path. */
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** `--reuse-http-port`. */
  readonly isPortReused: boolean;
  readonly tls: TlsOptions | undefined;
  /** `--http-max-input-size`: bytes of a JSON body or part, and of a body inflated. */
  readonly bodyBytesMax: number;
  /** `--http-header-forward-pattern`; undefined forwards none. */
  readonly headerForwardPattern: RegExp | undefined;
  /** `--http-restricted-api`. */
  readonly restrictions: Restrictions;
  /** `GET /v2/models` and `GET /v2/repository/index`, which the reference server does not have. */
  readonly hasExtraRoutes: boolean;
  /** `/metrics` on this port too. */
  readonly isMetricsAllowed: boolean;
}

export interface HttpServerDeps {
  readonly logger: Logger;
  readonly regions: SharedMemoryRegistry;
  readonly settings: ServerSettings;
  readonly metrics: MetricsSource;
}

export interface ListeningAt {
  readonly address: string;
  readonly port: number;
}

/** The HTTP front end. */
export interface HttpServer {
  /** Resolves when requests are taken; rejects with UNAVAILABLE where the address cannot be had. */
  listen(): Promise<ListeningAt>;
  /** Requests between their headers' arrival and the hand-over of their answer's last byte. */
  readonly inFlightRequests: number;
  /** Open connections, idle ones too. */
  readonly connections: number;
  /**
   * Takes no new connections. Those that are open are served on, as the reference server does, and
   * the promise resolves when the last one has ended; an idle one does after ten seconds.
   */
  drain(): Promise<void>;
  /** Ends every connection now. */
  destroy(): void;
}

/** Throws INVALID_ARG for options that cannot be used, such as a bad forward pattern. */
export function createHttpServer(
  options: HttpServerOptions,
  server: InferenceServer,
  deps: HttpServerDeps,
): HttpServer {
  const handler = new RequestHandler(options, server, deps);
  let transport: Transport | undefined;
  return {
    async listen() {
      if (transport !== undefined) throw unavailable('the HTTP server listens already');
      transport = await openTransport(
        options.transport,
        { ...options, uploadBytesMax: options.bodyBytesMax * uploadsMax },
        (exchange) => handler.handle(exchange),
        deps.logger,
      );
      return { address: options.address, port: transport.port };
    },
    get inFlightRequests() {
      return transport?.inFlightRequests ?? 0;
    },
    get connections() {
      return transport?.connections ?? 0;
    },
    async drain() {
      await transport?.drain();
    },
    destroy() {
      transport?.destroy();
    },
  };
}

/** Finds what a request asks for: restriction, then method, then names, then the action. */
class RequestHandler {
  readonly #routes: RouteTable;
  readonly #restricted: RestrictedAccess;
  readonly #actions: Readonly<Record<Action, ActionHandler>>;
  readonly #logger: Logger;

  constructor(options: HttpServerOptions, server: InferenceServer, deps: HttpServerDeps) {
    this.#routes = new RouteTable({
      hasExtraRoutes: options.hasExtraRoutes,
      hasMetrics: options.isMetricsAllowed,
    });
    this.#restricted = new RestrictedAccess(options.restrictions, '');
    this.#logger = deps.logger;
    this.#actions = makeActions(options, server, deps);
  }

  handle(exchange: Exchange): void {
    const match = this.#routes.match(exchange.path);
    if (match === undefined) {
      exchange.reply(textHeads(404), notFoundBody);
      return;
    }
    const { route, target } = match;
    const missing = this.#restricted.missingHeader(exchange, route.category);
    if (missing !== undefined) {
      const message = `This API is restricted, expecting header '${missing}'`;
      exchange.reply(textHeads(403), errorBody({ message }));
      return;
    }
    const action = route.actions[exchange.method];
    if (action === undefined) {
      exchange.reply(route.heads(405), methodNotAllowedBody);
      return;
    }
    try {
      if (target instanceof InferenceServerError) throw target;
      this.#actions[action](exchange, target);
    } catch (thrown) {
      replyError(exchange, route.heads, thrown, this.#logger);
    }
  }
}

function makeActions(
  options: HttpServerOptions,
  server: InferenceServer,
  deps: HttpServerDeps,
): Record<Action, ActionHandler> {
  const { logger, regions, settings, metrics } = deps;
  const inputBytesMax = options.bodyBytesMax;
  const limits = { bytesMax: inputBytesMax, chunksMax };
  const health = new HealthHandler(server);
  const model = new ModelHandler(server, logger);
  const repository = new RepositoryHandler(server, limits, logger);
  const memory = new SharedMemoryHandler(regions, limits, logger);
  const setting = new SettingsHandler(server, settings, limits, logger);
  const generate = new GenerateHandler({ server, logger, limits: { inputBytesMax } });
  const forwardedHeaders = new ForwardedHeaders(options.headerForwardPattern);
  const infer = new InferHandler({ server, regions, forwardedHeaders, logger }, inputBytesMax);
  return {
    live: (exchange) => health.live(exchange),
    ready: (exchange) => health.ready(exchange),
    modelReady: (exchange, target) => health.modelReady(exchange, target),
    serverMetadata: (exchange) => model.serverMetadata(exchange),
    modelList: (exchange) => model.modelList(exchange),
    modelMetadata: (exchange, target) => model.modelMetadata(exchange, target),
    modelConfig: (exchange, target) => model.modelConfig(exchange, target),
    statistics: (exchange, target) => model.statistics(exchange, target),
    infer: (exchange, target) => infer.handle(exchange, target),
    generate: (exchange, target) => generate.generate(exchange, target),
    generateStream: (exchange, target) => generate.generateStream(exchange, target),
    repositoryIndex: (exchange) => repository.index(exchange),
    repositoryLoad: (exchange, target) => repository.load(exchange, target),
    repositoryUnload: (exchange, target) => repository.unload(exchange, target),
    systemSharedMemoryStatus: (exchange, target) => memory.status(exchange, target),
    systemSharedMemoryRegister: (exchange, target) => memory.register(exchange, target),
    systemSharedMemoryUnregister: (exchange, target) => memory.unregister(exchange, target),
    cudaSharedMemoryStatus: (exchange) => memory.cudaStatus(exchange),
    cudaSharedMemoryRegister: (exchange, target) => memory.cudaRegister(exchange, target),
    cudaSharedMemoryUnregister: (exchange) => memory.cudaUnregister(exchange),
    readLogSettings: (exchange) => setting.readLog(exchange),
    updateLogSettings: (exchange) => setting.updateLog(exchange),
    readTraceSettings: (exchange, target) => setting.readTrace(exchange, target),
    updateTraceSettings: (exchange, target) => setting.updateTrace(exchange, target),
    metrics: (exchange) => replyMetrics(exchange, metrics, logger),
  };
}
