import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import { unavailable } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import { readTlsFiles, type TlsFiles } from '../protocol/tls-files.js';
import { clientHeaders, readCallTerms } from './call-headers.js';
import { acceptedEncodings, CallStream } from './call-stream.js';
import type { StreamHandler, StreamMethod, UnaryMethod } from './calls.js';
import { type CompressionLevel, ResponseCompressor } from './compression.js';
import { Connection, type ConnectionOptions } from './connection.js';
import { type MessageEncoding, MessageReader, type MessageReceiver } from './message-reader.js';
import { type CallStatus, statusCode, toCallError, toCallStatus } from './status.js';
import { StreamWriter } from './stream-writer.js';

export interface CarrierOptions extends ConnectionOptions {
  /** An IPv4 or IPv6 address or a name, or `unix:` and a path. */
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** `--reuse-grpc-port`. */
  readonly isPortReused: boolean;
  readonly tls: TlsFiles | undefined;
  /** `--grpc-infer-response-compression-level`. */
  readonly compressionLevel: CompressionLevel;
}

/** What a path such as `/inference.GRPCInferenceService/ModelInfer` does. */
export type Method =
  | { readonly type: 'unary'; readonly isCompressed: boolean; readonly run: UnaryMethod }
  | { readonly type: 'stream'; readonly isCompressed: boolean; readonly open: StreamMethod };

/** First Node versions that can share a port. */
const reusePortSince = ['22.12', '23.1'];

/** Bytes that a client may send ahead on one call: some of those that it may on its connection. */
const callWindowBytes = 262_144;

const ok: CallStatus = { code: statusCode.ok, details: '' };

/** Carries calls over HTTP/2, by the rules of gRPC. */
export class Carrier {
  readonly #options: CarrierOptions;
  readonly #methods: ReadonlyMap<string, Method>;
  readonly #logger: Logger;
  readonly #server: Http2Server | Http2SecureServer;
  readonly #compressor: ResponseCompressor;
  readonly #plain = new ResponseCompressor('none');
  readonly #connections = new Set<Connection>();
  readonly #streams = new Set<StreamHandler>();
  #isDraining = false;
  #onDrained: () => void = () => undefined;

  /** Throws where the certificates cannot be used. */
  constructor(options: CarrierOptions, methods: ReadonlyMap<string, Method>, logger: Logger) {
    this.#options = options;
    this.#methods = methods;
    this.#logger = logger;
    this.#compressor = new ResponseCompressor(options.compressionLevel);
    this.#server = openServer(options.tls);
    this.#server.on('session', (session) => {
      const connection = new Connection(session, options, () => {
        this.#connections.delete(connection);
        if (this.#connections.size === 0) this.#onDrained();
      });
      this.#connections.add(connection);
      if (this.#isDraining) connection.close();
    });
    this.#server.on('stream', (stream, headers) => this.#take(stream, headers));
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
      this.#server.once('error', (cause: Error) => {
        reject(unavailable(`cannot listen on ${address} port ${port}: ${cause.message}`, cause));
      });
      this.#server.listen(place, () => {
        const bound = this.#server.address();
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
    this.#server.close();
    for (const stream of [...this.#streams]) stream.onDrain();
    return new Promise((resolve) => {
      this.#onDrained = resolve;
      if (this.#connections.size === 0) resolve();
      for (const connection of [...this.#connections]) connection.close();
    });
  }

  destroy(): void {
    this.#isDraining = true;
    this.#server.close();
    for (const connection of [...this.#connections]) connection.destroy();
  }

  #take(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const call = new CallStream(stream);
    // Node tells of a call a little after it came: its client may have taken it back.
    if (call.isEnded) return;
    if (!isGrpc(headers)) {
      stream.respond({ ':status': 415 }, { endStream: true });
      return;
    }
    const path = headers[':path'] ?? '';
    const method = this.#methods.get(path);
    const terms = readCallTerms(headers);
    if (method === undefined) {
      call.end(unimplemented(`The server does not implement the method ${path}`));
    } else if (terms === undefined) {
      call.end({ code: statusCode.internal, details: 'Invalid grpc-timeout value' });
    } else if (terms.encoding === undefined) {
      const encoding = headers['grpc-encoding'];
      call.end(unimplemented(`${encoding} is not among the encodings ${acceptedEncodings}`));
    } else {
      if (terms.timeoutMs !== undefined) call.startDeadline(terms.timeoutMs);
      const compressor = method.isCompressed ? this.#compressor : this.#plain;
      const opened = new OpenedCall(call, path, headers, compressor, this.#logger);
      if (this.#isDraining) opened.fail(shuttingDown());
      else if (method.type === 'unary') read(stream, terms.encoding, opened.unary(method.run));
      else this.#open(stream, terms.encoding, opened, method.open);
    }
  }

  #open(
    stream: ServerHttp2Stream,
    encoding: MessageEncoding,
    opened: OpenedCall,
    open: StreamMethod,
  ): void {
    let receiver: MessageReceiver | undefined;
    const reader = read(stream, encoding, {
      onMessage: (message) => receiver?.onMessage(message),
      onEnd: () => receiver?.onEnd(),
      onRefusal: (status) => receiver?.onRefusal(status),
    });
    receiver = opened.stream(open, reader, this.#streams);
  }
}

/** A call of a known method, with all that answers it. */
class OpenedCall {
  readonly #call: CallStream;
  readonly #path: string;
  readonly #headers: IncomingHttpHeaders;
  readonly #compressor: ResponseCompressor;
  readonly #logger: Logger;

  constructor(
    call: CallStream,
    path: string,
    headers: IncomingHttpHeaders,
    compressor: ResponseCompressor,
    logger: Logger,
  ) {
    this.#call = call;
    this.#path = path;
    this.#headers = headers;
    this.#compressor = compressor;
    this.#logger = logger;
  }

  readonly fail = (thrown: unknown): void => {
    if (!this.#call.isEnded) this.#call.end(this.#statusOf(thrown));
  };

  /** The method runs when the client has sent its one message and no more follows. */
  unary(run: UnaryMethod): MessageReceiver {
    const call = this.#call;
    let message: Buffer | undefined;
    return {
      onMessage: (received) => {
        if (message !== undefined) call.end(unimplemented('a second message of a unary call'));
        message = received;
      },
      onEnd: () => {
        if (message === undefined) call.end(unimplemented('a unary call without a message'));
        else if (!call.isEnded) this.#run(run, message);
      },
      onRefusal: (status) => call.end(status),
    };
  }

  /** `streams` holds the handler for as long as the call is open. */
  stream(open: StreamMethod, reader: MessageReader, streams: Set<StreamHandler>): MessageReceiver {
    const out = new StreamWriter(this.#call, this.#compressor);
    const finish = (status: CallStatus): void => {
      streams.delete(handler);
      reader.destroy();
      out.end(status);
    };
    const fail = (thrown: unknown): void => finish(this.#statusOf(thrown));
    let handler: StreamHandler = silent;
    try {
      handler = open({
        headers: clientHeaders(this.#headers),
        send: (message, onSent) => out.send(message, onSent),
        end: () => finish(ok),
        fail,
        pauseReading: () => reader.pause(),
        resumeReading: () => reader.resume(),
      });
    } catch (thrown) {
      fail(thrown);
      return silentReceiver;
    }
    // The compressed form of all messages is announced before the first is known.
    if (this.#compressor.isOn) this.#call.sendHead(true);
    streams.add(handler);
    this.#call.onCancel = () => {
      streams.delete(handler);
      reader.destroy();
      handler.onCancel();
    };
    return {
      onMessage: (message) => guard(fail, () => handler.onMessage(message)),
      onEnd: () => guard(fail, () => handler.onHalfClose()),
      onRefusal: finish,
    };
  }

  #run(run: UnaryMethod, message: Buffer): void {
    const call = this.#call;
    guard(this.fail, () =>
      run({
        message,
        headers: clientHeaders(this.#headers),
        reply: (reply) => this.#compressor.compress(reply, (outgoing) => call.sendLast(outgoing)),
        fail: this.fail,
        onCancel: (cancel) => {
          call.onCancel = cancel;
        },
      }),
    );
  }

  #statusOf(thrown: unknown): CallStatus {
    return toCallStatus(toCallError(thrown, this.#path, this.#logger));
  }
}

const silent: StreamHandler = {
  onMessage: () => undefined,
  onHalfClose: () => undefined,
  onCancel: () => undefined,
  onDrain: () => undefined,
};
const silentReceiver: MessageReceiver = {
  onMessage: () => undefined,
  onEnd: () => undefined,
  onRefusal: () => undefined,
};

function openServer(tls: TlsFiles | undefined): Http2Server | Http2SecureServer {
  const options = {
    // What clients leave unread is bounded where it is written, call by call.
    maxSessionMemory: 1_048_576,
    settings: { initialWindowSize: callWindowBytes },
  };
  if (tls === undefined) return createServer(options);
  const { key, cert, ca } = readTlsFiles(tls, 'gRPC over TLS');
  const hasAuthority = ca !== undefined;
  return createSecureServer({
    ...options,
    key,
    cert,
    ...(hasAuthority && { ca }),
    requestCert: hasAuthority,
    rejectUnauthorized: hasAuthority,
  });
}

function read(
  stream: ServerHttp2Stream,
  encoding: MessageEncoding,
  receiver: MessageReceiver,
): MessageReader {
  const reader = new MessageReader(encoding, stream, receiver);
  stream.on('data', (piece: Buffer) => reader.push(piece));
  stream.on('end', () => reader.end());
  return reader;
}

function isGrpc(headers: IncomingHttpHeaders): boolean {
  return (
    headers[':method'] === 'POST' &&
    headers['content-type']?.startsWith('application/grpc') === true
  );
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

function unimplemented(details: string): CallStatus {
  return { code: statusCode.unimplemented, details };
}

function shuttingDown(): Error {
  return unavailable('GRPC server is shutting down and has stopped accepting new requests.');
}
