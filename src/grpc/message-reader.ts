import { gunzip, inflate } from 'node:zlib';
import { type CallStatus, statusCode } from './status.js';

/** `grpc-encoding` of a request whose messages may be compressed. */
export type MessageEncoding = 'identity' | 'gzip' | 'deflate';

/** A flag, and the length of the message. */
const prefixBytes = 5;

/** Bytes of a message, decompressed or not: what a protobuf message may have at most. */
const messageBytesMax = 0x7fffffff;

const decompress = { gzip: gunzip, deflate: inflate } as const;

/** What becomes of what a {@link MessageReader} reads. Nothing follows `onEnd` and `onRefusal`. */
export interface MessageReceiver {
  /** A view of the bytes that came wherever one piece of them holds the message. */
  onMessage(message: Buffer): void;
  onEnd(): void;
  /** The bytes are not what they should be. */
  onRefusal(status: CallStatus): void;
}

/** Where the bytes come from. */
export interface PausableSource {
  pause(): unknown;
  resume(): unknown;
}

/** Cuts the body of a request into its messages, one at a time and in their order. */
export class MessageReader {
  readonly #encoding: MessageEncoding;
  readonly #source: PausableSource;
  readonly #receiver: MessageReceiver;
  #pieces: Buffer[] = [];
  #byteLength = 0;
  #isHeld = false;
  #isInflating = false;
  #isSourcePaused = false;
  #isAtEnd = false;
  /** Nothing is told any more. */
  #isDone = false;

  constructor(encoding: MessageEncoding, source: PausableSource, receiver: MessageReceiver) {
    this.#encoding = encoding;
    this.#source = source;
    this.#receiver = receiver;
  }

  push(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#byteLength += piece.byteLength;
    this.#continue();
  }

  /** No more bytes come. */
  end(): void {
    this.#isAtEnd = true;
    this.#continue();
  }

  /** Tells no more messages until `resume`, and asks for no more bytes. */
  pause(): void {
    this.#isHeld = true;
    this.#balance();
  }

  resume(): void {
    this.#isHeld = false;
    this.#continue();
  }

  /** Forgets what came and tells nothing any more. */
  destroy(): void {
    this.#isDone = true;
    this.#pieces = [];
    this.#byteLength = 0;
    // A stream ends only when all of it was read.
    this.#balance();
  }

  #continue(): void {
    while (!this.#isDone && !this.#isHeld && !this.#isInflating) {
      if (!this.#readOne()) break;
    }
    this.#balance();
  }

  /** False where no whole message is there. */
  #readOne(): boolean {
    const head = this.#byteLength < prefixBytes ? undefined : this.#peekPrefix();
    const messageBytes = head?.readUInt32BE(1) ?? 0;
    if (messageBytes > messageBytesMax) {
      this.#refuse(
        statusCode.resourceExhausted,
        `a message of ${messageBytes} bytes is larger than ${messageBytesMax}`,
      );
      return false;
    }
    if (head === undefined || this.#byteLength < prefixBytes + messageBytes) {
      if (this.#isAtEnd) this.#finish();
      return false;
    }
    this.#take(prefixBytes);
    const message = this.#take(messageBytes);
    if (head[0] === 0) this.#receiver.onMessage(message);
    else this.#inflate(message);
    return true;
  }

  #inflate(message: Buffer): void {
    if (this.#encoding === 'identity') {
      this.#refuse(statusCode.internal, 'a compressed message without grpc-encoding');
      return;
    }
    this.#isInflating = true;
    decompress[this.#encoding](message, { maxOutputLength: messageBytesMax }, (error, inflated) => {
      this.#isInflating = false;
      if (this.#isDone) return;
      if (error === null) this.#receiver.onMessage(inflated);
      else this.#refuse(statusCode.internal, `cannot decompress a message: ${error.message}`);
      this.#continue();
    });
  }

  #finish(): void {
    if (this.#byteLength > 0) {
      this.#refuse(statusCode.internal, 'the request ends in the middle of a message');
      return;
    }
    this.#isDone = true;
    this.#receiver.onEnd();
  }

  #refuse(code: number, details: string): void {
    this.destroy();
    this.#receiver.onRefusal({ code, details });
  }

  /** The first piece, made long enough to hold a prefix. */
  #peekPrefix(): Buffer {
    let [first] = this.#pieces;
    if (first === undefined || first.byteLength < prefixBytes) {
      first = Buffer.concat(this.#pieces);
      this.#pieces = [first];
    }
    return first;
  }

  /** Takes bytes that are there. */
  #take(byteLength: number): Buffer {
    this.#byteLength -= byteLength;
    const [first = Buffer.alloc(0)] = this.#pieces;
    if (first.byteLength < byteLength) {
      const all = Buffer.concat(this.#pieces);
      this.#pieces = [all.subarray(byteLength)];
      return all.subarray(0, byteLength);
    }
    if (first.byteLength === byteLength) this.#pieces.shift();
    else this.#pieces[0] = first.subarray(byteLength);
    return first.subarray(0, byteLength);
  }

  #balance(): void {
    const isPaused = !this.#isDone && (this.#isHeld || this.#isInflating);
    if (isPaused === this.#isSourcePaused) return;
    this.#isSourcePaused = isPaused;
    if (isPaused) this.#source.pause();
    else this.#source.resume();
  }
}
