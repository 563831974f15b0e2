import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { ObjectBody, ObjectStore, StoredObject } from '../../src/repository/object-store.js';
import { storeError } from '../../src/repository/store-error.js';

/** An object store in memory that counts what it is asked for and fails as it is told. */
export class MemoryStore implements ObjectStore {
  readonly #contents = new Map<string, string>();
  readonly asked: string[] = [];
  isDown = false;
  isDestroyed = false;
  /** Replaces the contents of the next answers, one each. */
  readonly nextBodies: (() => Readable)[] = [];
  /** Called at the start of every get. */
  onGet: (key: string) => Promise<void> | void = () => {};

  constructor(contents: Readonly<Record<string, string>> = {}) {
    this.put(contents);
  }

  put(contents: Readonly<Record<string, string>>): void {
    for (const [key, text] of Object.entries(contents)) {
      this.#contents.set(key, text);
    }
  }

  remove(prefix: string): void {
    for (const key of [...this.#contents.keys()].filter((each) => each.startsWith(prefix))) {
      this.#contents.delete(key);
    }
  }

  async list(prefix: string): Promise<readonly StoredObject[]> {
    this.asked.push(`list ${prefix}`);
    this.#checkUp();
    return [...this.#contents]
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, text]) => storedObject(key, text))
      .sort((left, right) => (left.key < right.key ? -1 : 1));
  }

  async get(object: StoredObject, signal: AbortSignal): Promise<ObjectBody> {
    this.asked.push(`get ${object.key}`);
    await this.onGet(object.key);
    signal.throwIfAborted();
    this.#checkUp();
    const text = this.#contents.get(object.key);
    if (text === undefined || storedObject(object.key, text).etag !== object.etag) {
      throw storeError('changed', `'${object.key}' changed`);
    }
    const body = this.nextBodies.shift();
    return { etag: object.etag, stream: body?.() ?? Readable.from([Buffer.from(text)]) };
  }

  destroy(): void {
    this.isDestroyed = true;
  }

  /** What was fetched since the last call. */
  takeGets(): readonly string[] {
    const gets = this.asked.filter((each) => each.startsWith('get ')).map((each) => each.slice(4));
    this.asked.length = 0;
    return gets.sort();
  }

  #checkUp(): void {
    if (this.isDown) {
      throw storeError('unreachable', 'the store is down');
    }
  }
}

/** An object as a listing shows it, whose tag follows from its contents. */
export function storedObject(key: string, text: string): StoredObject {
  const etag = createHash('md5').update(text).digest('hex');
  return { key, bytes: Buffer.byteLength(text), etag, modifiedMs: 1_700_000_000_000 };
}
