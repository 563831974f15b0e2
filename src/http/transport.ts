/**
 * What handlers see of HTTP, so that they need not know which library carries it. There are two
 * carriers: uWebSockets.js (`uws-transport.ts`) and Node's own (`node-transport.ts`). Both pass
 * the same tests.
 */
import type { ReplyHead } from './reply-head.js';

/**
 * Bytes of a target with its query, and of all headers together, beyond which a request is refused
 * with 414 and 431. The reference server closes the connection at 8 KiB for either.
 */
export const targetBytesMax = 8192;
export const headerBytesMax = 12_288;

/** Limits of one request body, counted while it arrives. */
export interface BodyLimits {
  readonly bytesMax: number;
  /** Non-empty chunks of a chunked body. */
  readonly chunksMax: number;
}

export type BodyRefusal =
  | {
      readonly reason: 'too-many-bytes';
      readonly bytesMax: number;
      readonly bytes: number;
    }
  | { readonly reason: 'too-many-chunks'; readonly chunksMax: number }
  | { readonly reason: 'no-memory-for-uploads' };

/** Who waits for a body. Exactly one of the three methods is called, once. */
export interface BodyReceiver {
  /** `body` is owned by the receiver from now on. */
  receiveBody(body: Uint8Array): void;
  /** A limit was reached. What is left of the body is unread: answer with `replyAndClose`. */
  refuseBody(refusal: BodyRefusal): void;
  /** The client went away; nothing can be answered. */
  abortBody(): void;
}

/** Who wants to know what becomes of the connection while an answer is being prepared or sent. */
export interface ExchangeWatcher {
  /** The client went away before the last byte of the answer. Called at most once. */
  onAbort(): void;
  /** After `writeChunk` returned false: the connection takes more. */
  onDrain(): void;
}

/**
 * One request and its answer. Everything about the request is valid until the handler returns;
 * reply methods may be called later, once, and do nothing after the client went away.
 */
export interface Exchange {
  /** As sent, so `GET` and not `get`. */
  readonly method: string;
  /** The target without its query, percent-escapes untouched. */
  readonly path: string;
  readonly isAborted: boolean;
  /** First value of a header, '' where it is absent. `name` is lower case. */
  header(name: string): string;
  /** Each header line in order; names in lower case. */
  visitHeaders(visit: (name: string, value: string) => void): void;
  /**
   * Collects the body into one buffer in which byte `alignAt` lies on an 8-byte boundary.
   * Called at most once, before the handler returns.
   */
  collectBody(limits: BodyLimits, alignAt: number, receiver: BodyReceiver): void;
  /** Takes back a body that nobody reads any more: its memory serves another request. */
  recycleBody(body: Uint8Array): void;
  /** Replaces the body's receiver as the one who hears of the connection. */
  watch(watcher: ExchangeWatcher): void;
  /** Answers; a HEAD request gets the body's length only. `body` must not change afterwards. */
  reply(head: ReplyHead, body: Uint8Array): void;
  /**
   * {@link reply} with a body in pieces of `byteLength` bytes together. `onSent` is called when they
   * are not read any more; never where the client went away before.
   */
  replyParts(
    head: ReplyHead,
    parts: readonly Uint8Array[],
    byteLength: number,
    onSent: (() => void) | undefined,
  ): void;
  /**
   * Answers while the client still sends, drops what it sends for a while so that it sees the
   * answer, then closes the connection.
   */
  replyAndClose(head: ReplyHead, body: Uint8Array): void;
  /** Begins an answer of unknown length, sent chunked. */
  startChunks(head: ReplyHead): void;
  /** False where the connection is full: stop until the watcher's `onDrain`. */
  writeChunk(chunk: Uint8Array): boolean;
  endChunks(): void;
}

export type ExchangeHandler = (exchange: Exchange) => void;

export interface TlsOptions {
  readonly keyFile: string;
  readonly certFile: string;
  /** Clients must show a certificate that one of these signed; '' asks for none. */
  readonly clientRootFile: string;
}

export interface TransportOptions {
  /** An IPv4 or IPv6 address, or `unix:` and a path. */
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** True lets several processes listen on the port; false refuses one that is taken. */
  readonly isPortReused: boolean;
  readonly tls: TlsOptions | undefined;
  /** Bytes that all bodies being received may hold together. */
  readonly uploadBytesMax: number;
}

/** A listening carrier. */
export interface Transport {
  readonly kind: 'uws' | 'node';
  readonly port: number;
  readonly connections: number;
  /** Requests whose answer is not fully handed to the connection yet. */
  readonly inFlightRequests: number;
  /** Takes no new connections. Resolves when the last open one has ended. */
  drain(): Promise<void>;
  /** Ends every connection now. */
  destroy(): void;
}
