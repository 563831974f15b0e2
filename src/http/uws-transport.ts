import type { us_listen_socket as ListenSocket, TemplatedApp } from 'uWebSockets.js';
import { unavailable } from '../errors.js';
import { BodyMemory } from './body-buffer.js';
import { answerFaults } from './faults.js';
import type { ExchangeHandler, Transport, TransportOptions } from './transport.js';
import { UwsExchange, type UwsExchangeContext } from './uws-exchange.js';

type Uws = typeof import('uWebSockets.js');

/**
 * Bytes of a request's line and headers together; the library's own default of 4096 is below what
 * the reference server takes (8192). Read by the binary when it is loaded, from the environment.
 */
const headerBytesMax = 16_384;

/** Loads the native library; throws where this Node or this C library has no binary. */
export async function loadUws(): Promise<Uws> {
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] ??= String(headerBytesMax);
  const module = await import('uWebSockets.js');
  return module.default;
}

export async function openUwsTransport(
  uws: Uws,
  options: TransportOptions,
  handler: ExchangeHandler,
): Promise<Transport> {
  const { tls } = options;
  const app =
    tls === undefined
      ? uws.App()
      : uws.SSLApp({
          key_file_name: tls.keyFile,
          cert_file_name: tls.certFile,
        });
  const context: UwsExchangeContext = {
    memory: new BodyMemory(options.uploadBytesMax),
    inFlightRequests: 0,
  };
  let connections = 0;
  let onEmpty: (() => void) | undefined;
  app.filter(countConnections);
  function countConnections(_response: unknown, change: unknown): void {
    connections += Number(change);
    if (connections === 0) onEmpty?.();
  }
  app.any('/*', (response, request) => {
    const exchange = new UwsExchange(context, response, request);
    answerFaults(exchange, () => handler(exchange));
    exchange.suspend();
  });
  const socket = await listen(app, options);
  let isListening = true;
  return {
    kind: 'uws',
    port: uws.us_socket_local_port(socket),
    get connections() {
      return connections;
    },
    get inFlightRequests() {
      return context.inFlightRequests;
    },
    async drain() {
      if (isListening) uws.us_listen_socket_close(socket);
      isListening = false;
      if (connections > 0) {
        await new Promise<void>((resolve) => {
          onEmpty = resolve;
        });
      }
    },
    destroy() {
      isListening = false;
      app.close();
    },
  };
}

/** `listen` as the native code has it; the package's declarations lack this form. */
interface PortListener {
  listen(
    host: string,
    port: number,
    flags: number,
    done: (socket: ListenSocket | false) => void,
  ): unknown;
}

/** LIBUS_LISTEN_EXCLUSIVE_PORT. Without it the library shares the port (SO_REUSEPORT). */
const exclusivePort = 1;

function listen(app: TemplatedApp, options: TransportOptions): Promise<ListenSocket> {
  const { address, port } = options;
  return new Promise((resolve, reject) => {
    const settle = (socket: ListenSocket | false): void => {
      // The library does not say why.
      if (socket === false) reject(unavailable(`cannot listen on ${address} port ${port}`));
      else resolve(socket);
    };
    if (address.startsWith('unix:')) {
      app.listen_unix(settle, address.slice('unix:'.length));
    } else {
      const flags = options.isPortReused ? 0 : exclusivePort;
      (app as unknown as PortListener).listen(address, port, flags, settle);
    }
  });
}
