import { createHash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import {
  copyFile,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { errorCode, isMissing } from './model-folder.js';
import type { StoredObject } from './object-store.js';
import type { StoreFile } from './store-listing.js';

/** Unfinished downloads and copies older than this belong to no process any more. */
const leftoverMs = 24 * 60 * 60 * 1000;
/** Of the times that mark cached files as complete: the start of 2001. */
const markBaseSeconds = 978_307_200;

/**
 * Objects of one repository on the local disk:
 *
 *     ROOT/objects/MODEL/OBJECT     contents, named by key, tag and size; written under another
 *                                   name first, so that a file of this name is complete
 *     ROOT/copies/OWNER/N/model/..  folders that models are loaded from: hard links to objects
 *     ROOT/listing.json             what the store held when it last answered
 *
 * A cached file's modification time is derived from its name. A model that writes into its own
 * files changes that time, and the file is then fetched again instead of being trusted.
 *
 * Several processes may share a folder: objects only ever appear whole, and each process has
 * copies of its own.
 */
export class ObjectCache {
  readonly #root: string;
  readonly #isTemporary: boolean;
  readonly #owner = newOwner();
  /** Downloads on their way, so that two models' loads share one. */
  readonly #pending = new Map<string, Promise<void>>();
  #copies = 0;

  /** A cache that outlives the process. Removes what processes left behind that have ended. */
  static open(root: string): Promise<ObjectCache> {
    return ObjectCache.#prepare(new ObjectCache(root, false));
  }

  /** A cache in a new folder of the system's temporary folder, which `close` removes. */
  static async openTemporary(): Promise<ObjectCache> {
    const root = await mkdtemp(join(tmpdir(), 'nereid-models-'));
    return ObjectCache.#prepare(new ObjectCache(root, true));
  }

  static async #prepare(cache: ObjectCache): Promise<ObjectCache> {
    await mkdir(join(cache.#root, 'objects'), { recursive: true });
    await mkdir(cache.#ownCopies, { recursive: true });
    await cache.#removeLeftovers();
    return cache;
  }

  private constructor(root: string, isTemporary: boolean) {
    this.#root = root;
    this.#isTemporary = isTemporary;
  }

  /** Where an object's contents are, or will be. */
  pathOf(model: string, object: StoredObject): string {
    return join(this.#modelFolder(model), objectName(object));
  }

  async has(model: string, object: StoredObject): Promise<boolean> {
    const path = this.pathOf(model, object);
    try {
      const { size, mtimeMs } = await stat(path);
      return size === object.bytes && Math.round(mtimeMs / 1000) === markSeconds(path);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') {
        return false;
      }
      throw error;
    }
  }

  /**
   * Makes sure that the object is here. `download` writes a whole file to the path it is given, or
   * rejects; it is not called where the object is here or on its way for somebody else.
   */
  async ensure(
    model: string,
    object: StoredObject,
    download: (path: string) => Promise<void>,
  ): Promise<void> {
    const path = this.pathOf(model, object);
    // Whoever fetches it may be given up for reasons of its own, and then it is the next one's turn.
    for (;;) {
      const pending = this.#pending.get(path);
      if (pending === undefined) {
        break;
      }
      await pending.catch(() => {});
    }
    const fetched = this.#ensure(model, object, download);
    this.#pending.set(path, fetched);
    try {
      await fetched;
    } finally {
      this.#pending.delete(path);
    }
  }

  async #ensure(
    model: string,
    object: StoredObject,
    download: (path: string) => Promise<void>,
  ): Promise<void> {
    if (await this.has(model, object)) {
      return;
    }
    const path = this.pathOf(model, object);
    const partial = `${path}.${this.#owner}.partial`;
    await mkdir(dirname(path), { recursive: true });
    try {
      await download(partial);
      await utimes(partial, markSeconds(path), markSeconds(path));
      await rename(partial, path);
    } catch (error) {
      await rm(partial, { force: true });
      throw error;
    }
  }

  /** A folder with the files, all of which {@link ensure} has seen. Appears whole or not at all. */
  async assemble(
    model: string,
    files: readonly StoreFile[],
    folders: readonly string[],
  ): Promise<AssembledCopy> {
    const holder = join(this.#ownCopies, String(this.#copies++));
    const partial = `${holder}.partial`;
    try {
      for (const folder of ['', ...folders]) {
        await mkdir(join(partial, model, folder), { recursive: true });
      }
      for (const file of files) {
        const target = join(partial, model, file.path);
        await mkdir(dirname(target), { recursive: true });
        await linkOrCopy(this.pathOf(model, file.object), target);
      }
      await rename(partial, holder);
    } catch (error) {
      await rm(partial, { recursive: true, force: true });
      throw error;
    }
    return {
      directory: join(holder, model),
      remove: () => rm(holder, { recursive: true, force: true }),
    };
  }

  /** Removes a model's cached objects except those in `kept`. */
  async prune(model: string, kept: readonly StoredObject[]): Promise<void> {
    const names = new Set(kept.map(objectName));
    const folder = this.#modelFolder(model);
    for (const name of await namesIn(folder)) {
      if (!names.has(name) && !name.endsWith('.partial')) {
        await rm(join(folder, name), { force: true });
      }
    }
  }

  /** Removes cached objects of all models but these. */
  async pruneModels(models: Iterable<string>): Promise<void> {
    const kept = new Set([...models].map(modelFolderName));
    for (const name of await namesIn(join(this.#root, 'objects'))) {
      if (!kept.has(name)) {
        await rm(join(this.#root, 'objects', name), { recursive: true, force: true });
      }
    }
  }

  async writeListing(objects: readonly StoredObject[]): Promise<void> {
    const path = join(this.#root, 'listing.json');
    const partial = `${path}.${this.#owner}.partial`;
    await writeFile(partial, JSON.stringify({ format: 1, objects }));
    await rename(partial, path);
  }

  /** Undefined where there is none, or one that this release does not understand. */
  async readListing(): Promise<readonly StoredObject[] | undefined> {
    try {
      const text = await readFile(join(this.#root, 'listing.json'), 'utf8');
      return parseListing(JSON.parse(text));
    } catch {
      // A cache that cannot be read is an empty cache; the store remains the truth.
      return undefined;
    }
  }

  /** Removes this cache's copies, and a temporary cache as a whole. */
  async close(): Promise<void> {
    const folder = this.#isTemporary ? this.#root : this.#ownCopies;
    await rm(folder, { recursive: true, force: true });
  }

  get #ownCopies(): string {
    return join(this.#root, 'copies', this.#owner);
  }

  #modelFolder(model: string): string {
    return join(this.#root, 'objects', modelFolderName(model));
  }

  async #removeLeftovers(): Promise<void> {
    const copies = join(this.#root, 'copies');
    for (const owner of await namesIn(copies)) {
      if (owner !== this.#owner && (await isAbandoned(join(copies, owner), owner))) {
        await rm(join(copies, owner), { recursive: true, force: true });
      }
    }
    for (const model of await namesIn(join(this.#root, 'objects'))) {
      const folder = join(this.#root, 'objects', model);
      for (const name of (await namesIn(folder)).filter((each) => each.endsWith('.partial'))) {
        const owner = name.slice(name.indexOf('.') + 1, -'.partial'.length);
        if (await isAbandoned(join(folder, name), owner)) {
          await rm(join(folder, name), { force: true });
        }
      }
    }
  }
}

/** A model's local copy. */
export interface AssembledCopy {
  readonly directory: string;
  remove(): Promise<void>;
}

function objectName(object: StoredObject): string {
  const { key, etag, bytes, modifiedMs } = object;
  const hash = createHash('sha256');
  hash.update(`${key}\0${bytes}\0${etag === '' ? `at ${modifiedMs}` : etag}`);
  return hash.digest('hex').slice(0, 40);
}

/** Names of models may be longer than those of files, and differ by case alone. */
function modelFolderName(model: string): string {
  return createHash('sha256').update(model).digest('hex').slice(0, 24);
}

function markSeconds(path: string): number {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return markBaseSeconds + Number.parseInt(name.slice(0, 7), 16);
}

async function linkOrCopy(source: string, target: string): Promise<void> {
  try {
    await link(source, target);
  } catch {
    // File systems without hard links, and with too many of them, get a copy instead.
    await copyFile(source, target, constants.COPYFILE_FICLONE);
  }
}

/** Of a folder that may not be there. */
async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (isMissing(error)) {
      return [];
    }
    throw error;
  }
}

/** `host.pid.start.random`: names a cache of one run of one process, and one cache among its own. */
function newOwner(): string {
  const startMs = Math.round(performance.timeOrigin);
  return `${hostname()}.${process.pid}.${startMs}.${randomBytes(4).toString('hex')}`;
}

/**
 * True where the owner of a copy or download cannot be running any more. Of another host nothing is
 * known but when it last gave a sign of life.
 */
async function isAbandoned(path: string, owner: string): Promise<boolean> {
  const [, host, pid, startMs] = /^(.*)\.([0-9]+)\.([0-9]+)\.[0-9a-f]+$/.exec(owner) ?? [];
  if (host === hostname()) {
    // The same number with another start: a container that was started again.
    return Number(pid) === process.pid
      ? Number(startMs) !== Math.round(performance.timeOrigin)
      : !isRunning(Number(pid));
  }
  const facts = await stat(path).catch(() => undefined);
  return facts !== undefined && Date.now() - facts.mtimeMs > leftoverMs;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs, but belongs to somebody else.
    return errorCode(error) === 'EPERM';
  }
}

/** Throws where the document is not a listing of this release's form. */
function parseListing(document: unknown): readonly StoredObject[] {
  if (field(document, 'format') !== 1) {
    throw new TypeError('not a listing');
  }
  const objects = field(document, 'objects');
  if (!Array.isArray(objects)) {
    throw new TypeError('not a listing');
  }
  return objects.map((object: unknown) => {
    const key = field(object, 'key');
    const bytes = field(object, 'bytes');
    const etag = field(object, 'etag');
    const modifiedMs = field(object, 'modifiedMs');
    if (
      typeof key !== 'string' ||
      typeof bytes !== 'number' ||
      typeof etag !== 'string' ||
      typeof modifiedMs !== 'number'
    ) {
      throw new TypeError('not a listing');
    }
    return { key, bytes, etag, modifiedMs };
  });
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
