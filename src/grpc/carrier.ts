import { createServer, type Server as ListeningSocket, type Socket } from 'node:net';
import {
  type ConnectionInjector,
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
} from '@grpc/grpc-js';
import { unavailable } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import { readTlsFiles, type TlsFiles } from '../protocol/tls-files.js';
import type { StreamHandler, StreamMethod, UnaryMethod } from './calls.js';
import { type CompressionLevel, type OutgoingMessage, ResponseCompressor } from './compression.js';
import { toCallError, toCallStatus } from './status.js';

export interface CarrierOptions {
  /** An IPv4 or IPv6 address or a name, or `unix:` and a path. */
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** `--reuse-grpc-port`. */
  readonly isPortReused: boolean;
  readonly tls: TlsFiles | undefined;
  /** `--grpc-infer-response-compression-level`. */
  readonly compressionLevel: CompressionLevel;
  readonly keepaliveTimeMs: number;
  readonly keepaliveTimeoutMs: number;
  readonly connectionAgeMaxMs: number | undefined;
  readonly connectionAgeGraceMs: number | undefined;
}

/** What a path such as `/inference.GRPCInferenceService/ModelInfer` does. */
export type Method =
  | { readonly type: 'unary'; readonly isCompressed: boolean; readonly run: UnaryMethod }
  | { readonly type: 'stream'; readonly isCompressed: boolean; readonly open: StreamMethod };

/** First Node versions that can share a port. */
const reusePortSince = ['22.12', '23.1'];

const compressedHeaders = new Metadata();
compressedHeaders.set('grpc-encoding', 'gzip');

/** Carries calls over HTTP/2: @grpc/grpc-js behind a listening socket of our own. */
export class Carrier {
  readonly #options: CarrierOptions;
  readonly #logger: Logger;
  readonly #server: Server;
  readonly #injector: ConnectionInjector;
  readonly #socket: ListeningSocket;
  readonly #connections = new Set<Socket>();
  readonly #streams = new Set<StreamHandler>();
  #isDraining = false;

  /** Throws where the certificates cannot be used. */
  constructor(options: CarrierOptions, methods: ReadonlyMap<string, Method>, logger: Logger) {
    this.#options = options;
    this.#logger = logger;
    this.#server = new Server(serverOptions(options));
    for (const [path, method] of methods) this.#register(path, method);
    this.#injector = this.#server.createConnectionInjector(readCredentials(options.tls));
    this.#socket = createServer({ noDelay: true }, (connection) => {
      this.#connections.add(connection);
      connection.once('close', () => this.#connections.delete(connection));
      this.#injector.injectConnection(connection);
    });
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Resolves with the port; rejects with UNAVAILABLE where the address cannot be had. */
  listen(): Promise<number> {
    const { address, port, isPortReused } = this.#options;
    if (isPortReused && !canReusePort(process.versions.node)) {
      this.#logger.warning(
        `--reuse-grpc-port needs Node ${reusePortSince.join(' or ')}: the port is not shared`,
      );
    }
    const place = address.startsWith('unix:')
      ? { path: address.slice('unix:'.length) }
      : { host: address, port, reusePort: isPortReused };
    return new Promise((resolve, reject) => {
      this.#socket.once('error', (cause) => {
        reject(unavailable(`cannot listen on ${address} port ${port}: ${cause.message}`, cause));
      });
      this.#socket.listen(place, () => {
        const bound = this.#socket.address();
        resolve(typeof bound === 'object' && bound !== null ? bound.port : port);
      });
    });
  }

  /**
   * Takes no new connections and calls, and lets the calls under way finish: single ones answer,
   * streams end when what they have begun has been answered.
   */
  drain(): Promise<void> {
    this.#isDraining = true;
    this.#socket.close();
    for (const stream of [...this.#streams]) stream.onDrain();
    return new Promise((resolve) => {
      this.#server.tryShutdown(() => resolve());
    });
  }

  destroy(): void {
    this.#isDraining = true;
    this.#socket.close();
    // Without its bookkeeping of connections the library does not end them by itself.
    this.#server.forceShutdown();
    for (const connection of this.#connections) connection.destroy();
  }

  #register(path: string, method: Method): void {
    const level = method.isCompressed ? this.#options.compressionLevel : 'none';
    const compressor = new ResponseCompressor(level);
    const handler =
      method.type === 'unary'
        ? this.#unaryHandler(path, method.run, compressor)
        : this.#streamHandler(path, method.open, compressor);
    const type = method.type === 'unary' ? 'unary' : 'bidi';
    this.#server.register(path, handler, toFrame, (message: Buffer) => message, type);
  }

  #unaryHandler(path: string, run: UnaryMethod, compressor: ResponseCompressor) {
    return (
      call: ServerUnaryCall<Buffer, OutgoingMessage>,
      callback: sendUnaryData<OutgoingMessage>,
    ): void => {
      const fail = (thrown: unknown): void => {
        callback(toCallStatus(toCallError(thrown, path, this.#logger)));
      };
      try {
        if (this.#isDraining) throw shuttingDown();
        run({
          message: call.request,
          metadata: call.metadata,
          reply: (message) => {
            compressor.compress(message, (outgoing) => {
              if (outgoing.isCompressed) call.sendMetadata(compressedHeaders);
              callback(null, outgoing);
            });
          },
          fail,
          onCancel: (cancel) => call.on('cancelled', cancel),
        });
      } catch (thrown) {
        fail(thrown);
      }
    };
  }

  #streamHandler(path: string, open: StreamMethod, compressor: ResponseCompressor) {
    return (call: ServerDuplexStream<Buffer, OutgoingMessage>): void => {
      const out = new StreamWriter(call, compressor);
      const fail = (thrown: unknown): void => {
        this.#streams.delete(handler);
        out.fail(toCallStatus(toCallError(thrown, path, this.#logger)));
      };
      if (compressor.isOn) call.sendMetadata(compressedHeaders);
      let handler: StreamHandler;
      try {
        if (this.#isDraining) throw shuttingDown();
        handler = open({
          metadata: call.metadata,
          send: (message, onSent) => out.send(message, onSent),
          end: () => {
            this.#streams.delete(handler);
            out.end();
          },
          fail,
          pauseReading: () => call.pause(),
          resumeReading: () => call.resume(),
        });
      } catch (thrown) {
        out.fail(toCallStatus(toCallError(thrown, path, this.#logger)));
        return;
      }
      this.#streams.add(handler);
      call.on('data', (message: Buffer) => guard(fail, () => handler.onMessage(message)));
      call.on('end', () => guard(fail, () => handler.onHalfClose()));
      call.on('cancelled', () => {
        this.#streams.delete(handler);
        handler.onCancel();
      });
    };
  }
}

/** Writes messages in order, though compressing one takes a while and another none. */
class StreamWriter {
  readonly #call: ServerDuplexStream<Buffer, OutgoingMessage>;
  readonly #compressor: ResponseCompressor;
  /** What waits for a message that is being compressed. */
  readonly #waiting: (() => void)[] = [];
  #isCompressing = false;

  constructor(call: ServerDuplexStream<Buffer, OutgoingMessage>, compressor: ResponseCompressor) {
    this.#call = call;
    this.#compressor = compressor;
  }

  send(message: Uint8Array, onSent: () => void): void {
    this.#inOrder(() => {
      this.#isCompressing = true;
      this.#compressor.compress(message, (outgoing) => {
        this.#call.write(outgoing, onSent);
        this.#isCompressing = false;
        this.#continue();
      });
    });
  }

  end(): void {
    this.#inOrder(() => this.#call.end());
  }

  fail(status: { readonly code: number; readonly details: string }): void {
    // The library's way to end a call with a status.
    this.#inOrder(() => this.#call.emit('error', status));
  }

  #inOrder(step: () => void): void {
    this.#waiting.push(step);
    if (!this.#isCompressing && this.#waiting.length === 1) this.#continue();
  }

  #continue(): void {
    while (!this.#isCompressing) {
      const step = this.#waiting.shift();
      if (step === undefined) return;
      step();
    }
  }
}

function serverOptions(options: CarrierOptions) {
  const { connectionAgeMaxMs, connectionAgeGraceMs } = options;
  return {
    // Models decide how large a tensor may be.
    'grpc.max_receive_message_length': -1,
    'grpc.max_send_message_length': -1,
    'grpc.keepalive_time_ms': options.keepaliveTimeMs,
    'grpc.keepalive_timeout_ms': options.keepaliveTimeoutMs,
    ...(connectionAgeMaxMs === undefined
      ? {}
      : { 'grpc.max_connection_age_ms': connectionAgeMaxMs }),
    ...(connectionAgeGraceMs === undefined
      ? {}
      : { 'grpc.max_connection_age_grace_ms': connectionAgeGraceMs }),
    // Bookkeeping of every call that nobody here reads.
    'grpc.enable_channelz': 0,
  };
}

function readCredentials(tls: TlsFiles | undefined): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const { key, cert, ca } = readTlsFiles(tls, 'gRPC over TLS');
  const pair = { private_key: key, cert_chain: cert };
  return ServerCredentials.createSsl(ca ?? null, [pair], ca !== undefined);
}

/** The message for the library to put behind its five bytes of length. */
function toFrame({ message, isCompressed }: OutgoingMessage): Buffer {
  const buffer = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
  if (!isCompressed) return buffer;
  // The library has no way to say that a message is compressed: it copies the message into a frame
  // whose first byte, the flag, it has set to 0.
  buffer.copy = (frame, start) => {
    frame[0] = 1;
    return Buffer.prototype.copy.call(buffer, frame, start);
  };
  return buffer;
}

function canReusePort(nodeVersion: string): boolean {
  const [major = 0, minor = 0] = nodeVersion.split('.').map(Number);
  return major > 23 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12);
}

function guard(fail: (thrown: unknown) => void, run: () => void): void {
  try {
    run();
  } catch (thrown) {
    fail(thrown);
  }
}

function shuttingDown(): Error {
  return unavailable('GRPC server is shutting down and has stopped accepting new requests.');
}
