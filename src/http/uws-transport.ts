import type {
  HttpRequest,
  HttpResponse,
  us_listen_socket as ListenSocket,
  TemplatedApp,
} from 'uWebSockets.js';
import { createServer } from 'node:net';
import { unavailable } from '../errors.js';
import { errorBody } from '../protocol/error-status.js';
import { readTlsFiles } from '../protocol/tls-files.js';
import { BodyMemory } from './body-buffer.js';
import { answerFaults } from './faults.js';
import { textHeads } from './reply-head.js';
import {
  type ExchangeHandler,
  headerBytesMax,
  type Transport,
  type TransportOptions,
  targetBytesMax,
} from './transport.js';
import { copiedBytesMax, UwsExchange, type UwsExchangeContext } from './uws-exchange.js';

type Uws = typeof import('uWebSockets.js');

/** Loads the native library; throws where this Node or this C library has no binary. */
export async function loadUws(): Promise<Uws> {
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] ??= String(headerBytesMax);
  const module = await import('uWebSockets.js');
  return module.default;
}

/**
 * HTTP on uWebSockets.js. What the library itself decides, and `node:http` does not share: it answers
 * HTTP/1.0 with 505, as it does a request line that arrives in two pieces; answers a request without
 * a Host with 400, or, where it has no header at all, closes the connection after ten seconds; takes
 * the first of two Content-Length lines; and closes a connection whose next request comes while the
 * answer to the one before is still being made (requests answered at once may be pipelined). A proxy
 * in front must speak HTTP/1.1.
 */
export async function openUwsTransport(
  uws: Uws,
  options: TransportOptions,
  handler: ExchangeHandler,
): Promise<Transport> {
  const { tls } = options;
  if (tls !== undefined) readTlsFiles(tls, 'HTTPS');
  const app =
    tls === undefined
      ? uws.App()
      : uws.SSLApp({
          key_file_name: tls.keyFile,
          cert_file_name: tls.certFile,
        });
  const scratch = new ArrayBuffer(copiedBytesMax);
  const context: UwsExchangeContext = {
    memory: new BodyMemory(options.uploadBytesMax),
    scratch,
    joined: new Uint8Array(scratch),
    inFlightRequests: 0,
  };
  let connections = 0;
  let onEmpty: (() => void) | undefined;
  app.filter(countConnections);
  function countConnections(_response: unknown, change: unknown): void {
    connections += Number(change);
    if (connections === 0) onEmpty?.();
  }
  const open = (response: HttpResponse, request: HttpRequest, method: string): void => {
    const exchange = new UwsExchange(context, response, request, method);
    if (refuseLongHead(exchange, request)) return;
    answerFaults(exchange, () => handler(exchange));
    exchange.suspend();
  };
  // A route of its own saves the call that asks for the method, and the lookup of a new string.
  app.post('/*', (response, request) => open(response, request, 'POST'));
  app.any('/*', (response, request) => open(response, request, request.getCaseSensitiveMethod()));
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

/**
 * The library bounds headers only when they come in several pieces. Looking at each costs 0.5 us,
 * which requests that infer do not pay: theirs are bounded by the 512 KiB of a receive buffer.
 */
function refuseLongHead(exchange: UwsExchange, request: HttpRequest): boolean {
  const query = request.getQuery() as string | undefined;
  if (exchange.path.length + (query?.length ?? 0) > targetBytesMax) {
    exchange.reply(textHeads(414), uriTooLongBody);
    return true;
  }
  if (exchange.method === 'POST') return false;
  let bytes = 0;
  request.forEach((name, value) => {
    bytes += name.length + value.length;
  });
  if (bytes <= headerBytesMax) return false;
  exchange.reply(textHeads(431), headersTooLargeBody);
  return true;
}

const uriTooLongBody = errorBody({ message: 'URI Too Long' });
const headersTooLargeBody = errorBody({ message: 'Request Header Fields Too Large' });

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
      if (socket !== false) {
        resolve(socket);
        return;
      }
      void whyNoListener(address, port).then((reason) =>
        reject(unavailable(`cannot listen on ${address} port ${port}${reason}`)),
      );
    };
    if (address.startsWith('unix:')) {
      app.listen_unix(settle, address.slice('unix:'.length));
    } else {
      const flags = options.isPortReused ? 0 : exclusivePort;
      (app as unknown as PortListener).listen(address, port, flags, settle);
    }
  });
}

/** The library does not say why it cannot listen: Node, asked for the same, does. '' where it can. */
function whyNoListener(address: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', ({ message }) => resolve(`: ${message}`));
    const target = address.startsWith('unix:')
      ? { path: address.slice('unix:'.length) }
      : { host: address, port };
    probe.listen(target, () => probe.close(() => resolve('')));
  });
}
