/**
 * What a repository tells while it works, for the log and the metrics. The callbacks are called on
 * the main thread, must not throw and must not take long.
 */
export interface RepositoryEvents {
  /** Something that the operator should read and that does not stop the repository. */
  warned(message: string): void;
  /** A file was fetched from a store; a directory never calls this. */
  downloaded(download: Download): void;
  /** A request to the store failed for good, after its retries. */
  failed(operation: StoreOperation, error: Error): void;
  /** Called when files are about to be fetched, with every piece that comes, and at the end. */
  progressed(progress: DownloadProgress): void;
}

export type StoreOperation = 'list' | 'get';

export interface Download {
  readonly bytes: number;
  readonly durationNs: number;
}

/** How far a model's copy is. Files that the cache already holds are not counted. */
export interface DownloadProgress {
  /** Tells this fetch from others of the same model. */
  readonly fetch: symbol;
  readonly model: string;
  readonly filesDone: number;
  readonly filesTotal: number;
  readonly bytesDone: number;
  readonly bytesTotal: number;
  /** Everything is here, or something failed: the last report of this fetch. */
  readonly isOver: boolean;
}

/** For callers that want to hear nothing. */
export const silentEvents: RepositoryEvents = {
  warned() {},
  downloaded() {},
  failed() {},
  progressed() {},
};
