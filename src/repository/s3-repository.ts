import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../clock.js';
import {
  InferenceServerError,
  invalidArg,
  toInferenceServerError,
  unavailable,
} from '../errors.js';
import { configBytesMax, configTooLong } from './config-file.js';
import { ProgressCounter } from './download-progress.js';
import { configCandidates, isModelFolderName } from './file-names.js';
import { isSameListing } from './fingerprint.js';
import { misplacementMessage } from './misplacement.js';
import { ModelCopies } from './model-copies.js';
import { errorCode } from './model-folder.js';
import type {
  ConfigFile,
  LocalizedModel,
  ModelListing,
  ModelRepository,
  RepositoryScan,
} from './model-repository.js';
import { ObjectCache } from './object-cache.js';
import type { ObjectStore, StoredObject } from './object-store.js';
import type { RepositoryEvents } from './repository-events.js';
import { canonicalS3Location, type S3Location } from './s3-location.js';
import { StoreDownloads } from './store-download.js';
import { storeFailure } from './store-error.js';
import {
  filesOf,
  readStoreListing,
  type StoreFile,
  type StoreListing,
  type StoreModel,
} from './store-listing.js';

/** An object shows when all of it has come, so a large one is a long pause between two others. */
const settleNs = 5e9;

export interface S3RepositoryOptions {
  readonly clock: Clock;
  readonly events: RepositoryEvents;
  /** Where fetched objects stay for the next start; undefined keeps them for this run only. */
  readonly cacheDirectory: string | undefined;
}

/** A prefix in an S3 store, whose "folders" are models. */
export class S3Repository implements ModelRepository {
  readonly location: string;
  readonly settleNs = settleNs;
  readonly #place: S3Location;
  readonly #store: ObjectStore;
  readonly #cache: ObjectCache;
  readonly #copies: ModelCopies;
  readonly #downloads: StoreDownloads;
  readonly #options: S3RepositoryOptions;
  readonly #closing = new AbortController();
  /** The objects behind the listings that were handed out. */
  readonly #models = new WeakMap<ModelListing, StoreModel>();
  readonly #warned = new Set<string>();
  /** What the store last answered; undefined until it has answered once. */
  #last: LastAnswer | undefined;

  /** Sends nothing. `store` belongs to the repository from now on. */
  static async open(
    place: S3Location,
    store: ObjectStore,
    options: S3RepositoryOptions,
  ): Promise<S3Repository> {
    const { cacheDirectory } = options;
    const cache =
      cacheDirectory === undefined
        ? await ObjectCache.openTemporary()
        : await ObjectCache.open(join(cacheDirectory, folderNameOf(place)));
    return new S3Repository(place, store, cache, options);
  }

  private constructor(
    place: S3Location,
    store: ObjectStore,
    cache: ObjectCache,
    options: S3RepositoryOptions,
  ) {
    this.location = place.text;
    this.#place = place;
    this.#store = store;
    this.#cache = cache;
    this.#copies = new ModelCopies(cache);
    this.#downloads = new StoreDownloads(store, options.clock, options.events);
    this.#options = options;
  }

  /**
   * Rejects with INVALID_ARG, but only the first time, where the location is misplaced. A store
   * that has not answered since the start is replaced by what the cache holds of it.
   */
  async scan(): Promise<RepositoryScan> {
    let objects: readonly StoredObject[];
    try {
      objects = await this.#list(this.#place.prefix);
    } catch (error) {
      return scanOf(await this.#fromCache(error));
    }
    if (this.#last !== undefined && isSameObjects(this.#last.objects, objects)) {
      return this.#last.scan;
    }
    const listing = readStoreListing(this.#place.prefix, objects);
    if (this.#last === undefined) {
      const message = misplacementMessage(this.location, listing.sketch);
      if (message !== undefined) {
        throw invalidArg(message);
      }
    }
    this.#remember(listing);
    await this.#keep(objects, listing);
    this.#last = { objects, scan: scanOf(listing) };
    return this.#last.scan;
  }

  async look(name: string): Promise<ModelListing | undefined> {
    if (!isModelFolderName(name)) {
      return undefined;
    }
    const prefix = `${this.#place.prefix}${name}/`;
    let listing: StoreListing;
    try {
      listing = readStoreListing(this.#place.prefix, await this.#list(prefix));
      this.#remember(listing);
    } catch (error) {
      listing = await this.#fromCache(error);
    }
    return listing.models.get(name)?.listing;
  }

  /**
   * Rejects with UNAVAILABLE where the store holds something else by now: the copy would be a mix
   * of two states.
   */
  async localize(listing: ModelListing, versions: readonly string[]): Promise<LocalizedModel> {
    const model = await this.#modelOf(listing);
    const files = filesOf(model, versions);
    const folders = model.folders.filter(
      (folder) => !listing.versions.has(folder) || versions.includes(folder),
    );
    try {
      return await this.#copies.hold({ model: listing.name, files, folders }, async () => {
        if (await this.#fetch(listing.name, files)) {
          await this.#checkUnchanged(listing, versions);
        }
      });
    } catch (error) {
      if (error instanceof InferenceServerError) {
        throw error;
      }
      const reason = errorCode(error);
      throw unavailable(`model '${listing.name}': failed to write its copy: ${reason}`, error);
    }
  }

  async versionFiles(listing: ModelListing, version: string): Promise<readonly string[]> {
    const model = await this.#modelOf(listing);
    const prefix = `${version}/`;
    const names = model.files
      .filter(({ path }) => path.startsWith(prefix))
      .map(({ path }) => path.slice(prefix.length).split('/')[0] ?? '');
    return [...new Set(names)].sort();
  }

  async readConfig(listing: ModelListing, configName: string): Promise<ConfigFile | undefined> {
    const model = await this.#modelOf(listing);
    for (const fileName of configCandidates(configName)) {
      const file = model.files.find(({ path }) => path === fileName);
      if (file === undefined) {
        continue;
      }
      if (file.object.bytes > configBytesMax) {
        throw configTooLong(listing.name, fileName, file.object.bytes);
      }
      await this.#fetch(listing.name, [file]);
      const text = await readFile(this.#cache.pathOf(listing.name, file.object), 'utf8');
      return { fileName, text };
    }
    return undefined;
  }

  /** A store sends no events: polls find everything. */
  async watch(): Promise<void> {}

  async close(): Promise<void> {
    this.#closing.abort();
    this.#store.destroy();
    await this.#cache.close();
  }

  async #list(prefix: string): Promise<readonly StoredObject[]> {
    try {
      return await this.#store.list(prefix, this.#closing.signal);
    } catch (error) {
      const failure = toInferenceServerError(error, `failed to list '${prefix}' in the store`);
      this.#options.events.failed('list', failure);
      throw failure;
    }
  }

  #remember(listing: StoreListing): void {
    for (const model of listing.models.values()) {
      this.#models.set(model.listing, model);
    }
    for (const warning of listing.warnings) {
      if (!this.#warned.has(warning) && this.#warned.size < warningsMax) {
        this.#warned.add(warning);
        this.#options.events.warned(`${this.location}: ${warning}`);
      }
    }
  }

  /** Writes down what the store holds, and forgets models that it holds no more. */
  async #keep(objects: readonly StoredObject[], listing: StoreListing): Promise<void> {
    try {
      await this.#cache.pruneModels([...listing.models.keys(), ...this.#copies.heldModels()]);
      await this.#cache.writeListing(objects);
    } catch (error) {
      // The store did answer. Only the next start may have to do without the cache.
      const reason = error instanceof Error ? error.message : String(error);
      this.#options.events.warned(`${this.location}: failed to update the cache: ${reason}`);
    }
  }

  /**
   * What can be served without the store: models whose files the cache holds, with those versions
   * that it holds. Throws `error` where that is no answer to it.
   */
  async #fromCache(error: unknown): Promise<StoreListing> {
    if (this.#last !== undefined || storeFailure(error) !== 'unreachable') {
      throw error;
    }
    const objects = await this.#cache.readListing();
    if (objects === undefined) {
      throw error;
    }
    const listing = readStoreListing(this.#place.prefix, await this.#servable(objects));
    const reason = error instanceof Error ? error.message : String(error);
    this.#options.events.warned(
      `${this.location}: serving ${listing.models.size} models from the cache, because the store does not answer: ${reason}`,
    );
    this.#remember(listing);
    return listing;
  }

  async #servable(objects: readonly StoredObject[]): Promise<readonly StoredObject[]> {
    const { models } = readStoreListing(this.#place.prefix, objects);
    const lacking = new Set<string>();
    for (const [name, model] of models) {
      for (const file of model.files) {
        if (!(await this.#cache.has(name, file.object))) {
          const folder = file.path.slice(0, Math.max(file.path.indexOf('/'), 0));
          const isVersion = model.listing.versions.has(folder);
          lacking.add(isVersion ? `${name}/${folder}/` : `${name}/`);
        }
      }
    }
    return objects.filter(({ key }) => {
      const [name = '', folder = ''] = key.slice(this.#place.prefix.length).split('/');
      return !lacking.has(`${name}/`) && !lacking.has(`${name}/${folder}/`);
    });
  }

  async #modelOf(listing: ModelListing): Promise<StoreModel> {
    const known = this.#models.get(listing);
    if (known !== undefined) {
      return known;
    }
    const current = await this.look(listing.name);
    const model = current === undefined ? undefined : this.#models.get(current);
    if (model === undefined || !isSameListing(current, listing)) {
      throw changedMeanwhile(listing.name);
    }
    return model;
  }

  /** True where anything had to be fetched. */
  async #fetch(name: string, files: readonly StoreFile[]): Promise<boolean> {
    const missing: StoreFile[] = [];
    for (const file of files) {
      if (!(await this.#cache.has(name, file.object))) {
        missing.push(file);
      }
    }
    if (missing.length === 0) {
      return false;
    }
    const progress = new ProgressCounter(name, missing, (each) =>
      this.#options.events.progressed(each),
    );
    const giveUp = new AbortController();
    const signal = AbortSignal.any([giveUp.signal, this.#closing.signal]);
    const fetches = missing.map(async (file) => {
      await this.#cache.ensure(name, file.object, (path) =>
        this.#downloads.fetch(
          file.object,
          path,
          (bytes) => progress.received(file.path, bytes),
          signal,
        ),
      );
      progress.finished(file);
    });
    try {
      await Promise.all(fetches);
    } catch (error) {
      // The other files of the model are of no use; they must have ended before this does.
      giveUp.abort();
      await Promise.allSettled(fetches);
      throw error;
    } finally {
      progress.end();
    }
    return true;
  }

  async #checkUnchanged(listing: ModelListing, versions: readonly string[]): Promise<void> {
    const current = await this.look(listing.name);
    const isSame =
      current !== undefined &&
      current.configFingerprint === listing.configFingerprint &&
      current.restFingerprint === listing.restFingerprint &&
      versions.every((each) => current.versions.get(each) === listing.versions.get(each));
    if (!isSame) {
      throw changedMeanwhile(listing.name);
    }
  }
}

interface LastAnswer {
  readonly objects: readonly StoredObject[];
  readonly scan: RepositoryScan;
}

/** Most polls find nothing new, and then nothing is worked out again. */
function isSameObjects(left: readonly StoredObject[], right: readonly StoredObject[]): boolean {
  return (
    left.length === right.length &&
    left.every((object, index) => {
      const other = right[index];
      return (
        other !== undefined &&
        object.key === other.key &&
        object.etag === other.etag &&
        object.bytes === other.bytes &&
        object.modifiedMs === other.modifiedMs
      );
    })
  );
}

/** Different texts are remembered, so that a poll a second does not fill the log with one of them. */
const warningsMax = 1000;

function changedMeanwhile(model: string): Error {
  return unavailable(`model '${model}' changed in the store while it was read; try again`);
}

function scanOf(listing: StoreListing): RepositoryScan {
  return new Map([...listing.models].map(([name, model]) => [name, model.listing]));
}

/** The bucket's name for people, a hash for what else tells one repository from another. */
function folderNameOf(place: S3Location): string {
  const hash = createHash('sha256').update(canonicalS3Location(place)).digest('hex');
  return `s3-${place.bucket}-${hash.slice(0, 12)}`;
}
