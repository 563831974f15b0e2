/** One answer, whole. */
export interface HttpResponse {
  readonly status: number;
  /** The head, up to its empty line, in latin1. */
  readonly head: string;
  /** Undefined where nobody wanted it. */
  readonly body: Buffer | undefined;
  /** False where the server will close the connection. */
  readonly isReusable: boolean;
}

/** Says whether the body of a response is kept, or only counted. */
export type KeepsBody = (status: number) => boolean;

/** A head or a chunk line longer than this is no HTTP. */
const headBytesMax = 65_536;
const headEnd = Buffer.from('\r\n\r\n');

/** How the body of the response that is being read ends. */
type Framing =
  | { readonly kind: 'head' }
  | { readonly kind: 'length'; left: number }
  | { readonly kind: 'chunk-line' }
  | { readonly kind: 'chunk'; left: number }
  | { readonly kind: 'trailer' }
  | { readonly kind: 'close' };

/**
 * Reads HTTP/1.1 responses (RFC 9112) from the pieces in which they arrive. Bodies that nobody keeps
 * are counted and not copied. Throws where the bytes are no HTTP.
 */
export class ResponseReader {
  readonly #keepsBody: KeepsBody;
  readonly #onResponse: (response: HttpResponse) => void;
  #framing: Framing = { kind: 'head' };
  /** The beginning of a head or a line that has not ended; empty otherwise. */
  #rest: Buffer = Buffer.alloc(0);
  #status = 0;
  #head = '';
  #isReusable = true;
  #kept: Buffer[] | undefined;

  constructor(keepsBody: KeepsBody, onResponse: (response: HttpResponse) => void) {
    this.#keepsBody = keepsBody;
    this.#onResponse = onResponse;
  }

  /** `bytes` may be overwritten by the caller afterwards. */
  read(bytes: Buffer): void {
    let left = this.#rest.byteLength === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#rest = Buffer.alloc(0);
    while (left.byteLength > 0) {
      const taken = this.#take(left);
      if (taken === 0) {
        if (left.byteLength > headBytesMax) throw new Error('the answer has a line without end');
        // A copy: the caller's memory is used again.
        this.#rest = Buffer.from(left);
        return;
      }
      left = left.subarray(taken);
    }
  }

  /** The connection has ended; false where that cut a response off. */
  end(): boolean {
    if (this.#framing.kind === 'close') this.#finish();
    return this.#framing.kind === 'head' && this.#rest.byteLength === 0;
  }

  /** Bytes used; 0 where more are needed. */
  #take(bytes: Buffer): number {
    const framing = this.#framing;
    switch (framing.kind) {
      case 'head':
        return this.#takeHead(bytes);
      case 'length':
      case 'chunk': {
        const taken = Math.min(framing.left, bytes.byteLength);
        this.#keep(bytes.subarray(0, taken));
        framing.left -= taken;
        if (framing.left > 0) return taken;
        if (framing.kind === 'chunk') this.#framing = { kind: 'chunk-line' };
        else this.#finish();
        return taken;
      }
      case 'chunk-line':
        return this.#takeChunkLine(bytes);
      case 'trailer':
        return this.#takeTrailerLine(bytes);
      case 'close':
        this.#keep(bytes);
        return bytes.byteLength;
    }
  }

  #takeHead(bytes: Buffer): number {
    const end = bytes.indexOf(headEnd);
    if (end < 0) return 0;
    const head = bytes.toString('latin1', 0, end);
    const status = /^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1];
    if (status === undefined) throw new Error(`not an HTTP answer: ${head.slice(0, 60)}`);
    this.#status = Number(status);
    this.#head = head;
    // An interim answer (100, 103) stands before the real one.
    if (this.#status < 200) return end + headEnd.byteLength;
    this.#isReusable =
      head.startsWith('HTTP/1.1') && !/^connection:[ \t]*close[ \t]*$/im.test(head);
    this.#kept = this.#keepsBody(this.#status) ? [] : undefined;
    this.#beginBody(head);
    return end + headEnd.byteLength;
  }

  #beginBody(head: string): void {
    if (/^transfer-encoding:.*\bchunked[ \t]*$/im.test(head)) {
      this.#framing = { kind: 'chunk-line' };
      return;
    }
    const isBodiless = this.#status === 204 || this.#status === 304;
    const length = isBodiless ? '0' : /^content-length:[ \t]*(\d+)[ \t]*$/im.exec(head)?.[1];
    if (length === undefined) {
      this.#isReusable = false;
      this.#framing = { kind: 'close' };
      return;
    }
    if (Number(length) === 0) this.#finish();
    else this.#framing = { kind: 'length', left: Number(length) };
  }

  /** `1a;extension`, behind the line end of the chunk before it. */
  #takeChunkLine(bytes: Buffer): number {
    const start = bytes[0] === 13 ? 2 : 0;
    const end = bytes.indexOf('\r\n', start);
    if (end < 0) return 0;
    const text = /^[0-9a-f]+/i.exec(bytes.toString('latin1', start, end))?.[0];
    if (text === undefined) throw new Error('the answer has a chunk without a size');
    const left = Number.parseInt(text, 16);
    this.#framing = left === 0 ? { kind: 'trailer' } : { kind: 'chunk', left };
    return end + 2;
  }

  #takeTrailerLine(bytes: Buffer): number {
    const end = bytes.indexOf('\r\n');
    if (end < 0) return 0;
    if (end === 0) this.#finish();
    return end + 2;
  }

  #keep(bytes: Buffer): void {
    this.#kept?.push(Buffer.from(bytes));
  }

  #finish(): void {
    this.#framing = { kind: 'head' };
    this.#onResponse({
      status: this.#status,
      head: this.#head,
      body: this.#kept === undefined ? undefined : Buffer.concat(this.#kept),
      isReusable: this.#isReusable,
    });
  }
}
