import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import { unavailable } from '../errors.js';
import { errorBody } from '../protocol/error-status.js';
import { readTlsFiles } from '../protocol/tls-files.js';
import { BodyMemory } from './body-buffer.js';
import { answerFaults } from './faults.js';
import { NodeExchange, type NodeExchangeContext } from './node-exchange.js';
import { keepAliveSeconds, textHeads } from './reply-head.js';
import {
  type ExchangeHandler,
  headerBytesMax,
  type Transport,
  type TransportOptions,
  targetBytesMax,
} from './transport.js';

const uriTooLongBody = errorBody({ message: 'URI Too Long' });

const serverOptions = {
  maxHeaderSize: headerBytesMax,
  keepAliveTimeout: keepAliveSeconds * 1000,
  /** The reference server answers HTTP/1.1 requests without a Host. */
  requireHostHeader: false,
  noDelay: true,
};

/** HTTP on Node's own library: slower, and there on every platform. */
export async function openNodeTransport(
  options: TransportOptions,
  handler: ExchangeHandler,
): Promise<Transport> {
  const context: NodeExchangeContext = {
    memory: new BodyMemory(options.uploadBytesMax),
    inFlightRequests: 0,
  };
  const sockets = new Set<Socket>();
  let onEmpty: (() => void) | undefined;
  const server = makeServer(options, (request, response) => {
    const exchange = new NodeExchange(context, request, response);
    if ((request.url?.length ?? 0) > targetBytesMax) {
      exchange.reply(textHeads(414), uriTooLongBody);
      return;
    }
    answerFaults(exchange, () => handler(exchange));
  });
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => {
      sockets.delete(socket);
      if (sockets.size === 0) onEmpty?.();
    });
  });
  await listen(server, options);
  return {
    kind: 'node',
    port: portOf(server.address()),
    get connections() {
      return sockets.size;
    },
    get inFlightRequests() {
      return context.inFlightRequests;
    },
    async drain() {
      // Not `close`: it ends idle connections, and those opened before go on being served.
      closeListener(server);
      if (sockets.size > 0) {
        await new Promise<void>((resolve) => {
          onEmpty = resolve;
        });
      }
    },
    destroy() {
      closeListener(server);
      for (const socket of sockets) socket.destroy();
    },
  };
}

function makeServer(
  options: TransportOptions,
  onRequest: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  const { tls } = options;
  if (tls === undefined) return createServer(serverOptions, onRequest);
  const content = readTlsFiles(tls, 'HTTPS');
  const asked = content.ca === undefined ? {} : { requestCert: true, rejectUnauthorized: true };
  const tlsOptions = { ...serverOptions, ...content, ...asked };
  return createTlsServer(tlsOptions, onRequest);
}

function listen(server: Server, options: TransportOptions): Promise<void> {
  const { address, port, isPortReused } = options;
  const target = address.startsWith('unix:')
    ? { path: address.slice('unix:'.length) }
    : // Older versions of Node ignore reusePort (new in 23.1) and refuse a port that is taken.
      { host: address, port, reusePort: isPortReused };
  return new Promise((resolve, reject) => {
    server.once('error', (cause) => {
      reject(unavailable(`cannot listen on ${address} port ${port}: ${cause.message}`, cause));
    });
    server.listen(target, resolve);
  });
}

function closeListener(server: Server): void {
  if (server.listening) NetServer.prototype.close.call(server);
}

function portOf(address: AddressInfo | string | null): number {
  return address !== null && typeof address === 'object' ? address.port : 0;
}
