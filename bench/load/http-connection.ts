import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** What comes of a request. */
export type ResponseListener = (isOk: boolean) => void;

const headEnd = Buffer.from('\r\n\r\n');

/**
 * A kept-alive HTTP/1.1 connection that sends prepared bytes and only looks at the status and the
 * length of what comes back: a client that costs the machine little beside the server it loads.
 */
export class HttpConnection {
  readonly #socket: Socket;
  #listener: ResponseListener | undefined;
  /** Bytes of the head so far, where it came in parts. */
  #head: Buffer = Buffer.alloc(0);
  #bodyBytesLeft = 0;
  #isOk = false;

  static async open(url: string): Promise<HttpConnection> {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    await once(socket, 'connect');
    return new HttpConnection(socket);
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('error', () => this.#settle(false));
    socket.on('close', () => this.#settle(false));
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed;
  }

  /** One request at a time: the listener is called once, before the next `send`. */
  send(requestBytes: Buffer, listener: ResponseListener): void {
    this.#listener = listener;
    this.#socket.write(requestBytes);
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    let rest = chunk;
    if (this.#bodyBytesLeft === 0) {
      this.#head = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk]);
      const end = this.#head.indexOf(headEnd);
      if (end < 0) return;
      const head = this.#head.toString('latin1', 0, end);
      const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
      if (length === undefined) {
        this.#socket.destroy(new Error('a response without Content-Length'));
        return;
      }
      this.#isOk = head.startsWith('HTTP/1.1 200');
      this.#bodyBytesLeft = Number(length);
      rest = this.#head.subarray(end + headEnd.length);
      this.#head = Buffer.alloc(0);
    }
    this.#bodyBytesLeft -= rest.length;
    if (this.#bodyBytesLeft <= 0) {
      this.#bodyBytesLeft = 0;
      this.#settle(this.#isOk);
    }
  }

  #settle(isOk: boolean): void {
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.(isOk);
  }
}
