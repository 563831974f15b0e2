import { connect as connectTcp, type OnReadOpts, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { type HttpResponse, type KeepsBody, ResponseReader } from './response-reader.js';

/** Where requests go. */
export interface HttpTarget {
  readonly host: string;
  readonly port: number;
  /** Undefined for plain HTTP. */
  readonly tls: TlsSettings | undefined;
}

export interface TlsSettings {
  /** Certificates of authorities in PEM form; undefined for those that Node.js knows. */
  readonly authorities: string | undefined;
  readonly verifiesPeer: boolean;
}

/** How one request ended. */
export type Outcome =
  | { readonly kind: 'response'; readonly response: HttpResponse }
  /** No answer: refused, closed, or not HTTP. */
  | { readonly kind: 'failed'; readonly reason: string };

const readBufferBytes = 65_536;

/**
 * One connection with one request at a time, opened by the first one and again after the server
 * has closed it. Written over `node:net`, because on few cores the client takes from the server:
 * one write and one read a request, into memory that is used again.
 */
export class HttpConnection {
  readonly #target: HttpTarget;
  readonly #keepsBody: KeepsBody;
  #socket: Socket | undefined;
  #settle: ((outcome: Outcome) => void) | undefined;

  constructor(target: HttpTarget, keepsBody: KeepsBody) {
    this.#target = target;
    this.#keepsBody = keepsBody;
  }

  get isBusy(): boolean {
    return this.#settle !== undefined;
  }

  /** Sends the bytes of a whole request. `settle` is called once, and may send the next one. */
  send(request: Uint8Array, settle: (outcome: Outcome) => void): void {
    if (this.#settle !== undefined) throw new Error('two requests at once: this is a bug');
    this.#settle = settle;
    this.#socket ??= this.#open();
    this.#socket.write(request);
  }

  /** Ends the connection; a request that waits fails. */
  destroy(): void {
    this.#drop(this.#socket, 'the connection was closed by this client');
  }

  #open(): Socket {
    const reader = new ResponseReader(this.#keepsBody, (response) => {
      if (!response.isReusable) this.#forget(socket);
      this.#end({ kind: 'response', response });
    });
    const read = (bytes: Buffer): void => {
      try {
        reader.read(bytes);
      } catch (error) {
        this.#drop(socket, error instanceof Error ? error.message : String(error));
      }
    };
    const { host, port, tls } = this.#target;
    const onread: OnReadOpts = {
      buffer: Buffer.allocUnsafe(readBufferBytes),
      callback: (length, buffer) => {
        read(Buffer.from(buffer.buffer, buffer.byteOffset, length));
        return true;
      },
    };
    const socket: Socket =
      tls === undefined
        ? connectTcp({ host, port, noDelay: true, onread })
        : connectTls({
            host,
            port,
            servername: host,
            rejectUnauthorized: tls.verifiesPeer,
            ...(tls.authorities !== undefined && { ca: tls.authorities }),
          }).on('data', read);
    socket.setNoDelay(true);
    socket.on('error', (error) => this.#drop(socket, error.message));
    socket.on('end', () => reader.end());
    socket.on('close', () => this.#drop(socket, 'the server closed the connection'));
    return socket;
  }

  /** The next request opens a connection of its own. */
  #forget(socket: Socket | undefined): void {
    if (this.#socket === socket) this.#socket = undefined;
    socket?.destroy();
  }

  #drop(socket: Socket | undefined, reason: string): void {
    const isCurrent = socket !== undefined && this.#socket === socket;
    this.#forget(socket);
    // The end of a connection that was replaced says nothing of the request on the new one.
    if (isCurrent) this.#end({ kind: 'failed', reason });
  }

  #end(outcome: Outcome): void {
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.(outcome);
  }
}
