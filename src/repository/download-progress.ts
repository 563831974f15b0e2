import type { DownloadProgress } from './repository-events.js';
import type { StoreFile } from './store-listing.js';

/** Adds up what has come of one model's files. */
export class ProgressCounter {
  readonly #fetch: symbol;
  readonly #model: string;
  readonly #filesTotal: number;
  readonly #bytesTotal: number;
  readonly #report: (progress: DownloadProgress) => void;
  /** Bytes of files on their way or done, by path; a try that starts again sets its file back. */
  readonly #bytes = new Map<string, number>();
  #bytesDone = 0;
  #filesDone = 0;
  #isOver = false;

  /** Reports at once, so that what only waits for its turn counts too. */
  constructor(
    model: string,
    files: readonly StoreFile[],
    report: (progress: DownloadProgress) => void,
  ) {
    this.#fetch = Symbol(model);
    this.#model = model;
    this.#filesTotal = files.length;
    this.#bytesTotal = files.reduce((sum, { object }) => sum + object.bytes, 0);
    this.#report = report;
    this.#tell();
  }

  received(path: string, bytes: number): void {
    this.#bytesDone += bytes - (this.#bytes.get(path) ?? 0);
    this.#bytes.set(path, bytes);
    this.#tell();
  }

  /** The file is here, whether it was fetched for this copy or for another one. */
  finished({ path, object }: StoreFile): void {
    this.#filesDone++;
    this.received(path, object.bytes);
  }

  /** Nothing comes any more, whatever has come. */
  end(): void {
    this.#isOver = true;
    this.#tell();
  }

  #tell(): void {
    this.#report({
      fetch: this.#fetch,
      model: this.#model,
      filesDone: this.#filesDone,
      filesTotal: this.#filesTotal,
      bytesDone: this.#bytesDone,
      bytesTotal: this.#bytesTotal,
      isOver: this.#isOver,
    });
  }
}
