import type { CallStream } from './call-stream.js';
import type { ResponseCompressor } from './compression.js';
import type { CallStatus } from './status.js';

/** Writes messages in order, though compressing one takes a while and another none. */
export class StreamWriter {
  readonly #call: CallStream;
  readonly #compressor: ResponseCompressor;
  /** What waits for a message that is being compressed. */
  readonly #waiting: (() => void)[] = [];
  #isCompressing = false;

  constructor(call: CallStream, compressor: ResponseCompressor) {
    this.#call = call;
    this.#compressor = compressor;
  }

  send(message: Uint8Array, onSent: () => void): void {
    this.#inOrder(() => {
      this.#isCompressing = true;
      this.#compressor.compress(message, (outgoing) => {
        this.#call.send(outgoing, onSent);
        this.#isCompressing = false;
        this.#continue();
      });
    });
  }

  end(status: CallStatus): void {
    this.#inOrder(() => this.#call.end(status));
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
