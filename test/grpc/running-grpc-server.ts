import type { ChannelCredentials, ChannelOptions } from '@grpc/grpc-js';
import {
  createGrpcServer,
  type GrpcServer,
  type GrpcServerOptions,
} from '../../src/grpc/grpc-server.js';
import { defaultTraceSettings, TraceSettingsStore } from '../../src/server/settings.js';
import { SharedMemoryRegistry } from '../../src/server/shared-memory.js';
import { FakeInferenceServer } from '../http/fake-inference-server.js';
import { FakeClock } from '../support/fake-clock.js';
import { GrpcClient } from './grpc-client.js';

const defaultOptions: GrpcServerOptions = {
  address: '127.0.0.1',
  port: 0,
  isPortReused: false,
  tls: undefined,
  compressionLevel: 'none',
  keepaliveTimeMs: 7_200_000,
  keepaliveTimeoutMs: 20_000,
  connectionAgeMaxMs: undefined,
  connectionAgeGraceMs: undefined,
  headerForwardPattern: undefined,
  restrictions: new Map(),
};

/** A gRPC front end on a free port, before a fake server. */
export class RunningGrpcServer {
  readonly server = new FakeInferenceServer();
  readonly clock = new FakeClock();
  readonly log: string[] = [];
  readonly regions: SharedMemoryRegistry;
  readonly grpc: GrpcServer;
  port = 0;
  readonly #clients: GrpcClient[] = [];

  private constructor(options: Partial<GrpcServerOptions>, shmDirectory: string | undefined) {
    const add = (message: string): void => {
      this.log.push(message);
    };
    this.regions = new SharedMemoryRegistry({
      isEnabled: shmDirectory !== undefined,
      directory: shmDirectory ?? '',
    });
    this.grpc = createGrpcServer({ ...defaultOptions, ...options }, this.server, {
      logger: {
        error: add,
        warning: add,
        info: add,
        verbose: (_level, message) => add(message),
        isVerbose: () => true,
      },
      regions: this.regions,
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
      clock: this.clock,
    });
  }

  static async start(
    options: Partial<GrpcServerOptions> = {},
    shmDirectory: string | undefined = undefined,
  ): Promise<RunningGrpcServer> {
    const running = new RunningGrpcServer(options, shmDirectory);
    running.port = (await running.grpc.listen()).port;
    return running;
  }

  /** A client on a connection of its own. */
  connect(options: ChannelOptions = {}, channel?: ChannelCredentials): GrpcClient {
    const client = new GrpcClient(`127.0.0.1:${this.port}`, options, channel);
    this.#clients.push(client);
    return client;
  }

  stop(): void {
    for (const client of this.#clients) client.close();
    this.grpc.destroy();
    this.regions.close();
  }
}

/** An infer request for a model of the fake server, with one FP32 tensor. */
export function inferRequest(
  modelName: string,
  values: readonly number[] = [1],
  more: Readonly<Record<string, string>> = {},
) {
  const bytes = Buffer.from(Float32Array.from(values).buffer);
  return {
    model_name: modelName,
    inputs: [{ name: 'X', datatype: 'FP32', shape: [values.length] }],
    raw_input_contents: [bytes.toString('base64')],
    ...more,
  };
}
