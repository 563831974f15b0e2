import type { ObjectBody, ObjectStore, StoredObject } from './object-store.js';
import type { S3Access } from './s3-credentials.js';
import { storeFailure } from './store-error.js';

/** How to find out whom to ask as, and how to reach the store so. */
export interface S3Connector {
  readAccess(): Promise<S3Access>;
  connect(access: S3Access): Promise<ObjectStore>;
}

/**
 * A store whose credentials may be changed while the server runs: after a refusal they are read
 * once more, and where they differ the call is tried again with the new ones.
 */
export class S3Connection implements ObjectStore {
  readonly #connector: S3Connector;
  #current: Promise<Connected> | undefined;

  constructor(connector: S3Connector) {
    this.#connector = connector;
  }

  list(prefix: string, signal: AbortSignal): Promise<readonly StoredObject[]> {
    return this.#ask((store) => store.list(prefix, signal));
  }

  get(object: StoredObject, signal: AbortSignal): Promise<ObjectBody> {
    return this.#ask((store) => store.get(object, signal));
  }

  destroy(): void {
    // A connection that never came to be has nothing to destroy, and its error went to the caller.
    this.#current?.then(({ store }) => store.destroy()).catch(() => {});
    this.#current = undefined;
  }

  async #ask<Answer>(call: (store: ObjectStore) => Promise<Answer>): Promise<Answer> {
    const connected = await this.#connected();
    try {
      return await call(connected.store);
    } catch (error) {
      if (storeFailure(error) !== 'refused') {
        throw error;
      }
      const renewed = await this.#renew(connected);
      if (renewed === undefined) {
        throw error;
      }
      return await call(renewed.store);
    }
  }

  async #connected(): Promise<Connected> {
    this.#current ??= this.#connect();
    try {
      return await this.#current;
    } catch (error) {
      this.#current = undefined;
      throw error;
    }
  }

  async #connect(): Promise<Connected> {
    const access = await this.#connector.readAccess();
    return { access, store: await this.#connector.connect(access) };
  }

  /** A connection with other credentials; undefined where they are still those of `refused`. */
  async #renew(refused: Connected): Promise<Connected | undefined> {
    const current = await this.#connected();
    if (current !== refused) {
      return current;
    }
    const access = await this.#connector.readAccess();
    if (JSON.stringify(access) === JSON.stringify(refused.access)) {
      return undefined;
    }
    const renewed = { access, store: await this.#connector.connect(access) };
    this.#current = Promise.resolve(renewed);
    // Downloads that run over the old connection end by themselves; it holds no timers.
    return renewed;
  }
}

interface Connected {
  readonly access: S3Access;
  readonly store: ObjectStore;
}
