import type { Clock } from '../clock.js';
import type { DownloadProgress } from './repository-events.js';
import type { StoreFile } from './store-listing.js';

/** The shortest time between two reports of one model's copy. */
const reportNs = 250e6;

/** Adds up what has come of one model's files and reports it now and then. */
export class ProgressCounter {
  readonly #model: string;
  readonly #filesTotal: number;
  readonly #bytesTotal: number;
  readonly #clock: Clock;
  readonly #report: (progress: DownloadProgress) => void;
  /** Bytes of files on their way or done, by path; a try that starts again sets its file back. */
  readonly #bytes = new Map<string, number>();
  #bytesDone = 0;
  #filesDone = 0;
  #reportedNs: number;

  constructor(
    model: string,
    files: readonly StoreFile[],
    clock: Clock,
    report: (progress: DownloadProgress) => void,
  ) {
    this.#model = model;
    this.#filesTotal = files.length;
    this.#bytesTotal = files.reduce((sum, { object }) => sum + object.bytes, 0);
    this.#clock = clock;
    this.#report = report;
    this.#reportedNs = clock.nowNs();
  }

  received(path: string, bytes: number): void {
    this.#bytesDone += bytes - (this.#bytes.get(path) ?? 0);
    this.#bytes.set(path, bytes);
    this.#reportAt(this.#reportedNs + reportNs);
  }

  /** The file is here, whether it was fetched for this copy or for another one. */
  finished({ path, object }: StoreFile): void {
    this.#filesDone++;
    this.received(path, object.bytes);
    if (this.#filesDone === this.#filesTotal) {
      this.#reportAt(0);
    }
  }

  #reportAt(dueNs: number): void {
    const nowNs = this.#clock.nowNs();
    if (nowNs < dueNs) {
      return;
    }
    this.#reportedNs = nowNs;
    this.#report({
      model: this.#model,
      filesDone: this.#filesDone,
      filesTotal: this.#filesTotal,
      bytesDone: this.#bytesDone,
      bytesTotal: this.#bytesTotal,
    });
  }
}
