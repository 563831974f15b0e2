import {
  createHttpServer,
  type HttpServer,
  type HttpServerOptions,
} from '../../src/http/http-server.js';
import type { Logger } from '../../src/observability/logger.js';
import { defaultTraceSettings, TraceSettingsStore } from '../../src/server/settings.js';
import { SharedMemoryRegistry } from '../../src/server/shared-memory.js';
import { FakeInferenceServer } from './fake-inference-server.js';
import { RawClient, type WireReply } from './raw-client.js';

export const defaultOptions: HttpServerOptions = {
  transport: 'node',
  address: '127.0.0.1',
  port: 0,
  isPortReused: false,
  tls: undefined,
  bodyBytesMax: 100_000,
  headerForwardPattern: undefined,
  restrictions: new Map(),
  hasExtraRoutes: false,
  isMetricsAllowed: false,
};

/** An HTTP front end on a free port, before a fake server. */
export class RunningHttpServer {
  readonly http: HttpServer;
  readonly server: FakeInferenceServer;
  readonly log: readonly string[];
  readonly regions: SharedMemoryRegistry;
  readonly port: number;

  private constructor(
    http: HttpServer,
    server: FakeInferenceServer,
    log: readonly string[],
    regions: SharedMemoryRegistry,
    port: number,
  ) {
    this.http = http;
    this.server = server;
    this.log = log;
    this.regions = regions;
    this.port = port;
  }

  static async start(
    options: Partial<HttpServerOptions>,
    shmDirectory: string | undefined = undefined,
  ): Promise<RunningHttpServer> {
    const server = new FakeInferenceServer();
    const log: string[] = [];
    const logger = recordingLogger(log);
    const regions = new SharedMemoryRegistry({
      isEnabled: shmDirectory !== undefined,
      directory: shmDirectory ?? '',
    });
    const http = createHttpServer({ ...defaultOptions, ...options }, server, {
      logger,
      regions,
      settings: {
        log: {
          verboseLevel: 0,
          isInfoLogged: true,
          isWarningLogged: true,
          isErrorLogged: true,
          format: 'default',
        },
        logFile: '',
        trace: new TraceSettingsStore(defaultTraceSettings),
      },
      metrics: {
        contentType: 'text/plain; charset=utf-8',
        render: () => Promise.resolve('up 1\n'),
      },
    });
    const { port } = await http.listen();
    return new RunningHttpServer(http, server, log, regions, port);
  }

  open(): Promise<RawClient> {
    return RawClient.open(this.port);
  }

  /** One request on a connection of its own. */
  async ask(
    method: string,
    path: string,
    body: string | Uint8Array = '',
    headers: Readonly<Record<string, string>> = {},
  ): Promise<WireReply> {
    const client = await this.open();
    try {
      await client.write(requestBytes(method, path, body, headers));
      const reply = await client.reply(method);
      if (reply === undefined) throw new Error(`${method} ${path}: closed without an answer`);
      return reply;
    } finally {
      client.close();
    }
  }

  stop(): void {
    this.http.destroy();
    this.regions.close();
  }
}

export function requestBytes(
  method: string,
  path: string,
  body: string | Uint8Array = '',
  headers: Readonly<Record<string, string>> = {},
): Uint8Array {
  const bytes = Buffer.from(body);
  const lines = Object.entries({ Host: 'a', ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  const length = method === 'POST' || bytes.length > 0 ? [`Content-Length: ${bytes.length}`] : [];
  const head = [`${method} ${path} HTTP/1.1`, ...lines, ...length, '', ''].join('\r\n');
  return Buffer.concat([Buffer.from(head), bytes]);
}

function recordingLogger(lines: string[]): Logger {
  const add = (message: string): void => {
    lines.push(message);
  };
  return {
    error: add,
    warning: add,
    info: add,
    verbose: (_level, message) => add(message),
    isVerbose: () => true,
  };
}
