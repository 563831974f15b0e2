import type { Logger } from '../observability/logger.js';
import { openNodeTransport } from './node-transport.js';
import { methodNotAllowedBody, notFoundBody, replyError } from './replies.js';
import { makeReplyHead, textHeads } from './reply-head.js';
import type { Exchange, Transport } from './transport.js';

/** Where the text of `/metrics` comes from. */
export interface MetricsSource {
  readonly contentType: string;
  render(): Promise<string>;
}

export interface MetricsServerOptions {
  readonly address: string;
  readonly port: number;
}

export interface MetricsServer {
  listen(): Promise<{ readonly address: string; readonly port: number }>;
  destroy(): void;
}

/**
 * `/metrics` on a port of its own, for those who may scrape but not infer. A scrape every few
 * seconds needs no faster carrier than Node's own.
 */
export function createMetricsServer(
  options: MetricsServerOptions,
  metrics: MetricsSource,
  logger: Logger,
): MetricsServer {
  let transport: Transport | undefined;
  const handle = (exchange: Exchange): void => {
    if (exchange.path !== '/metrics') exchange.reply(textHeads(404), notFoundBody);
    else if (exchange.method !== 'GET') exchange.reply(textHeads(405), methodNotAllowedBody);
    else replyMetrics(exchange, metrics, logger);
  };
  return {
    async listen() {
      const { address, port } = options;
      const shared = { isPortReused: false, tls: undefined, uploadBytesMax: 0 };
      transport = await openNodeTransport({ address, port, ...shared }, handle);
      return { address, port: transport.port };
    },
    destroy() {
      transport?.destroy();
    },
  };
}

export function replyMetrics(exchange: Exchange, metrics: MetricsSource, logger: Logger): void {
  metrics.render().then(
    (text) => exchange.reply(makeReplyHead(200, metrics.contentType), Buffer.from(text)),
    (thrown: unknown) => replyError(exchange, textHeads, thrown, logger),
  );
}
