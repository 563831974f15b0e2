import type { Readable } from 'node:stream';

/** One object as a listing shows it. */
export interface StoredObject {
  readonly key: string;
  readonly bytes: number;
  /** Without quotes; '' where the store gives none. Equal tags of one key mean equal contents. */
  readonly etag: string;
  /** Milliseconds since the Unix epoch; 0 where the store does not say. */
  readonly modifiedMs: number;
}

/** An object's contents. Whoever gets it must read the stream to its end or destroy it. */
export interface ObjectBody {
  readonly etag: string;
  readonly stream: Readable;
}

/**
 * What a repository needs of an object store. Every call tries again by itself where that may
 * help, and rejects with a {@link StoreError}.
 */
export interface ObjectStore {
  /** All objects whose keys begin with `prefix`, of all pages, in the store's order. */
  list(prefix: string, signal: AbortSignal): Promise<readonly StoredObject[]>;
  /** The object as listed: fails with the reason `changed` where it is another one by now. */
  get(object: StoredObject, signal: AbortSignal): Promise<ObjectBody>;
  destroy(): void;
}
