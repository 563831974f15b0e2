import { createWriteStream, type WriteStream } from 'node:fs';

/** Bytes that may wait for a slow disk; traces beyond them are dropped, never held. */
const pendingBytesMax = 16 * 1024 * 1024;

/**
 * A JSON array that grows entry by entry. Entries are written as they come, so that memory stays
 * flat; the array is closed, and the file is valid JSON, after `close`.
 */
export class TraceFile {
  readonly #stream: WriteStream;
  #isEmpty = true;
  #droppedEntries = 0;

  /** `onError` hears once of a file that cannot be written; entries then vanish. */
  constructor(path: string, onError: (error: Error) => void) {
    this.#stream = createWriteStream(path);
    this.#stream.once('error', onError);
    this.#stream.write('[');
  }

  /** Entries that did not fit into the buffer of a slow disk. */
  get droppedEntries(): number {
    return this.#droppedEntries;
  }

  write(entry: object): void {
    if (this.#stream.writableLength > pendingBytesMax) {
      this.#droppedEntries += 1;
      return;
    }
    this.#stream.write(`${this.#isEmpty ? '' : ','}\n${JSON.stringify(entry)}`);
    this.#isEmpty = false;
  }

  /** Resolves when everything is on disk, or can never be. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#stream.closed || this.#stream.destroyed) {
        resolve();
        return;
      }
      this.#stream.once('close', resolve);
      this.#stream.end('\n]\n');
    });
  }
}
