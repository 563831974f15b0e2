import { createHash } from 'node:crypto';
import type { LocalizedModel } from './model-repository.js';
import type { AssembledCopy, ObjectCache } from './object-cache.js';
import type { StoredObject } from './object-store.js';
import type { StoreFile } from './store-listing.js';

/** What a local copy is made of. */
export interface CopyContents {
  readonly model: string;
  readonly files: readonly StoreFile[];
  /** Folders that have to be there although nothing may be in them. */
  readonly folders: readonly string[];
}

interface Copy {
  readonly contents: CopyContents;
  /** Later copies of a model have higher numbers. */
  readonly number: number;
  readonly assembled: Promise<AssembledCopy>;
  holders: number;
}

/**
 * Local copies of models in use. Equal contents share one copy, which is removed when its last
 * holder has released it. With an old copy go the cached objects that no copy in use needs; the
 * objects of a model's latest copy stay, so that loading it again, or starting again, fetches
 * nothing.
 */
export class ModelCopies {
  readonly #cache: ObjectCache;
  readonly #copies = new Map<string, Copy>();
  #made = 0;

  constructor(cache: ObjectCache) {
    this.#cache = cache;
  }

  /** `fetch` makes sure that all files are in the cache; it runs once for several holders. */
  async hold(contents: CopyContents, fetch: () => Promise<void>): Promise<LocalizedModel> {
    const id = identify(contents);
    let copy = this.#copies.get(id);
    if (copy === undefined) {
      const { model, files, folders } = contents;
      const assembled = fetch().then(() => this.#cache.assemble(model, files, folders));
      copy = { contents, number: this.#made++, assembled, holders: 0 };
      this.#copies.set(id, copy);
    }
    copy.holders++;
    const held = copy;
    let isReleased = false;
    const release = async (): Promise<void> => {
      if (!isReleased) {
        isReleased = true;
        await this.#release(id, held);
      }
    };
    try {
      return { directory: (await held.assembled).directory, release };
    } catch (error) {
      await release();
      throw error;
    }
  }

  /** True where a copy of the model is in use or being made. */
  isHeld(model: string): boolean {
    return this.#copiesOf(model).length > 0;
  }

  heldModels(): ReadonlySet<string> {
    return new Set([...this.#copies.values()].map(({ contents }) => contents.model));
  }

  async #release(id: string, copy: Copy): Promise<void> {
    copy.holders--;
    if (copy.holders > 0) {
      return;
    }
    this.#copies.delete(id);
    const assembled = await copy.assembled.catch(() => undefined);
    await assembled?.remove();
    const others = this.#copiesOf(copy.contents.model);
    if (others.some((other) => other.number > copy.number)) {
      await this.#cache.prune(copy.contents.model, others.flatMap(objectsOf));
    }
  }

  #copiesOf(model: string): readonly Copy[] {
    return [...this.#copies.values()].filter(({ contents }) => contents.model === model);
  }
}

function objectsOf({ contents }: Copy): readonly StoredObject[] {
  return contents.files.map(({ object }) => object);
}

function identify({ model, files, folders }: CopyContents): string {
  const lines = files.map(({ path, object }) =>
    JSON.stringify([path, object.key, object.bytes, object.etag, object.modifiedMs]),
  );
  const hash = createHash('sha256');
  hash.update(JSON.stringify([model, [...folders].sort(), lines.sort()]));
  return hash.digest('hex');
}
