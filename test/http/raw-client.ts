import { connect, type Socket } from 'node:net';

/** One answer as it came over the wire. */
export interface WireReply {
  readonly status: number;
  readonly reason: string;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

/** A connection on which a test writes what it likes, well-formed or not. */
export class RawClient {
  readonly #socket: Socket;
  #received = Buffer.alloc(0);
  #isClosed = false;
  #onChange: (() => void)[] = [];

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#changed();
    });
    // A reset is a way of closing.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#isClosed = true;
      this.#changed();
    });
  }

  static open(port: number, host = '127.0.0.1'): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host, noDelay: true });
      const client = new RawClient(socket);
      socket.once('error', reject);
      socket.once('connect', () => resolve(client));
    });
  }

  /** Resolves when the operating system has taken all of it. */
  write(bytes: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      this.#socket.write(bytes, () => resolve());
    });
  }

  halfClose(): void {
    this.#socket.end();
  }

  close(): void {
    this.#socket.destroy();
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** The next answer; `method` HEAD has no body. Undefined when the server closes instead. */
  async reply(method = 'GET'): Promise<WireReply | undefined> {
    for (;;) {
      const parsed = parseReply(this.#received, method, this.#isClosed);
      if (parsed !== undefined) {
        this.#received = this.#received.subarray(parsed.end);
        return parsed.reply;
      }
      if (this.#isClosed) return undefined;
      await this.#change();
    }
  }

  /** Resolves when the connection is closed; what was not read as an answer is the result. */
  async closed(): Promise<string> {
    while (!this.#isClosed) await this.#change();
    return this.#received.toString('latin1');
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#onChange.push(resolve);
    });
  }

  #changed(): void {
    const waiting = this.#onChange;
    this.#onChange = [];
    for (const wake of waiting) wake();
  }
}

function parseReply(
  received: Buffer,
  method: string,
  isClosed: boolean,
): { reply: WireReply; end: number } | undefined {
  const headEnd = received.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const [statusLine = '', ...lines] = received.toString('latin1', 0, headEnd).split('\r\n');
  const [, status = '', reason = ''] = /^HTTP\/1\.1 (\d+) ?(.*)$/.exec(statusLine) ?? [];
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  const start = headEnd + 4;
  const body = readBody(received, start, headers, method, isClosed);
  if (body === undefined) return undefined;
  return { reply: { status: Number(status), reason, headers, body: body.bytes }, end: body.end };
}

function readBody(
  received: Buffer,
  start: number,
  headers: ReadonlyMap<string, string>,
  method: string,
  isClosed: boolean,
): { bytes: Buffer; end: number } | undefined {
  if (method === 'HEAD') return { bytes: Buffer.alloc(0), end: start };
  if (headers.get('transfer-encoding') === 'chunked') return readChunks(received, start);
  const length = headers.get('content-length');
  if (length === undefined) {
    return isClosed ? { bytes: received.subarray(start), end: received.length } : undefined;
  }
  const end = start + Number(length);
  return received.length < end ? undefined : { bytes: received.subarray(start, end), end };
}

function readChunks(received: Buffer, start: number): { bytes: Buffer; end: number } | undefined {
  const chunks: Buffer[] = [];
  let at = start;
  for (;;) {
    const lineEnd = received.indexOf('\r\n', at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(received.toString('latin1', at, lineEnd), 16);
    const dataEnd = lineEnd + 2 + size;
    if (received.length < dataEnd + 2) return undefined;
    chunks.push(received.subarray(lineEnd + 2, dataEnd));
    at = dataEnd + 2;
    if (size === 0) return { bytes: Buffer.concat(chunks), end: at };
  }
}
