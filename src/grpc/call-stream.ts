import type { OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { OutgoingMessage } from './compression.js';
import { type CallStatus, statusCode } from './status.js';

/** From this size on a message is not copied to stand behind its length. */
const copiedBytesMax = 16_384;

/** Node's timers hold no more. A deadline beyond is none. */
const timerMsMax = 0x7fffffff;

const contentType = 'application/grpc+proto';
export const acceptedEncodings = 'identity,deflate,gzip';

const plainHead: OutgoingHttpHeaders = {
  ':status': 200,
  'content-type': contentType,
  'grpc-accept-encoding': acceptedEncodings,
};
const compressedHead: OutgoingHttpHeaders = { ...plainHead, 'grpc-encoding': 'gzip' };

const waitForTrailers = { waitForTrailers: true };
const endStream = { endStream: true };

/**
 * The way of one call's answer to the client:
 * ```
 *  open ──▶ headers sent ──▶ ended by a status
 *    └──────────┴──────────▶ ended by the client, its connection or the deadline: `onCancel`
 * ```
 * Whatever is asked of it after its end goes nowhere.
 */
export class CallStream {
  /** Called once where the call does not end by a status of the handler's. */
  onCancel: () => void = () => undefined;
  readonly #stream: ServerHttp2Stream;
  #hasHead = false;
  #isEnded = false;
  #deadline: NodeJS.Timeout | undefined = undefined;

  constructor(stream: ServerHttp2Stream) {
    this.#stream = stream;
    stream.on('error', () => {
      // `close` follows.
    });
    stream.on('close', () => this.#cancel());
  }

  /** True from the moment that the client is known to be gone, a little before `onCancel`. */
  get isEnded(): boolean {
    return this.#isEnded || this.#stream.closed || this.#stream.destroyed;
  }

  /** Ends the call by itself after that time. */
  startDeadline(timeoutMs: number): void {
    if (timeoutMs > timerMsMax) return;
    this.#deadline = setTimeout(() => {
      const { onCancel } = this;
      this.end({ code: statusCode.deadlineExceeded, details: 'Deadline exceeded' });
      onCancel();
    }, timeoutMs);
  }

  /** The headers before the first message, which otherwise sends them; at most once. */
  sendHead(isCompressed: boolean): void {
    if (this.isEnded || this.#hasHead) return;
    this.#hasHead = true;
    this.#stream.respond(isCompressed ? compressedHead : plainHead, waitForTrailers);
  }

  /** `onSent` runs when the message left the process's memory; not where the call ended before. */
  send(outgoing: OutgoingMessage, onSent: () => void): void {
    if (this.isEnded) return;
    this.sendHead(outgoing.isCompressed);
    this.#write(outgoing, onSent);
  }

  /** Ends the call with its only message. */
  sendLast(outgoing: OutgoingMessage): void {
    this.send(outgoing, () => undefined);
    this.end({ code: statusCode.ok, details: '' });
  }

  end({ code, details }: CallStatus): void {
    if (this.isEnded) return;
    this.#settle();
    const trailers: OutgoingHttpHeaders = { 'grpc-status': String(code) };
    if (details !== '') trailers['grpc-message'] = encodeURI(details);
    const stream = this.#stream;
    if (!this.#hasHead) {
      stream.respond({ ...plainHead, ...trailers }, endStream);
      return;
    }
    stream.on('wantTrailers', () => {
      if (!stream.closed) stream.sendTrailers(trailers);
    });
    stream.end();
  }

  #write({ message, isCompressed }: OutgoingMessage, onSent: () => void): void {
    const stream = this.#stream;
    const { byteLength } = message;
    const written = (error: Error | null | undefined): void => {
      if (error === null || error === undefined) onSent();
    };
    if (byteLength <= copiedBytesMax) {
      const frame = Buffer.allocUnsafe(5 + byteLength);
      writePrefix(frame, byteLength, isCompressed);
      frame.set(message, 5);
      stream.write(frame, written);
      return;
    }
    const prefix = Buffer.allocUnsafe(5);
    writePrefix(prefix, byteLength, isCompressed);
    stream.cork();
    stream.write(prefix);
    stream.write(message, written);
    stream.uncork();
  }

  #cancel(): void {
    if (this.#isEnded) return;
    this.#settle();
    this.onCancel();
  }

  #settle(): void {
    this.#isEnded = true;
    clearTimeout(this.#deadline);
  }
}

function writePrefix(frame: Buffer, messageBytes: number, isCompressed: boolean): void {
  frame[0] = isCompressed ? 1 : 0;
  frame.writeUInt32BE(messageBytes, 1);
}
