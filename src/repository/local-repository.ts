import { readdir, readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Clock } from '../clock.js';
import { InferenceServerError, invalidArg, notFound, unavailable } from '../errors.js';
import { configBytesMax, configTooLong } from './config-file.js';
import { DirectoryWatch, type WatchMode } from './directory-watch.js';
import { FileMemory } from './file-memory.js';
import { configCandidates, folderRole, isModelFolderName } from './file-names.js';
import { makeListing } from './fingerprint.js';
import { misplacementMessage } from './misplacement.js';
import { errorCode, isMissing, type ListedFolder, listModelFolder } from './model-folder.js';
import type {
  ConfigFile,
  LocalizedModel,
  ModelListing,
  ModelRepository,
  RepositoryScan,
} from './model-repository.js';
import type { RepositoryEvents } from './repository-events.js';

/** Models read at the same time during a scan; enough to keep libuv's threads busy. */
const parallelModels = 16;
/** Files of one folder mostly follow one another at once. */
const settleNs = 500e6;
/** Folders looked into, on each of two levels, when no model was found and a hint is wanted. */
const nestedFoldersMax = 20;

export interface LocalRepositoryOptions {
  readonly clock: Clock;
  readonly events: RepositoryEvents;
  readonly watchMode: WatchMode;
}

/** A directory whose folders are models. */
export class LocalRepository implements ModelRepository {
  readonly location: string;
  readonly settleNs = settleNs;
  readonly #root: string;
  readonly #options: LocalRepositoryOptions;
  readonly #memory = new FileMemory();
  /** As last read, by name. */
  readonly #folders = new Map<string, ListedFolder>();
  readonly #watches: DirectoryWatch[] = [];
  /** The last listing of each model, kept for folders that cannot be read for a while. */
  #last: RepositoryScan | undefined;
  /** The file system that the root was on when it was last read. */
  #device: number | undefined;
  readonly #unreadable = new Set<string>();

  /** Rejects with NOT_FOUND where there is no directory at `location`. */
  static async open(location: string, options: LocalRepositoryOptions): Promise<LocalRepository> {
    const root = resolve(location);
    try {
      if (!(await stat(root)).isDirectory()) {
        throw invalidArg(`model repository '${location}' is not a directory`);
      }
    } catch (error) {
      throw rootError(location, error, isMissing(error) ? notFound : unavailable);
    }
    return new LocalRepository(location, root, options);
  }

  private constructor(location: string, root: string, options: LocalRepositoryOptions) {
    this.location = location;
    this.#root = root;
    this.#options = options;
  }

  /** Rejects with INVALID_ARG, but only the first time, where the location is misplaced. */
  async scan(): Promise<RepositoryScan> {
    const isFirst = this.#last === undefined;
    this.#memory.beginScan();
    const root = await this.#readRoot();
    const found = new Map<string, ModelListing>();
    let isComplete = true;
    let next = 0;
    const readModels = async (): Promise<void> => {
      for (let name = root.names[next++]; name !== undefined; name = root.names[next++]) {
        const listing = await this.#tryList(name);
        isComplete &&= !this.#unreadable.has(name);
        if (listing !== undefined) {
          found.set(name, listing);
        }
      }
    };
    await Promise.all(Array.from({ length: parallelModels }, readModels));
    if (isFirst) {
      await this.#checkPlace(root, found);
    }
    if (isComplete) {
      this.#memory.forgetUnseen();
    }
    this.#device = root.device;
    for (const name of this.#folders.keys()) {
      if (!found.has(name)) {
        this.#folders.delete(name);
      }
    }
    this.#last = found;
    return found;
  }

  async look(name: string): Promise<ModelListing | undefined> {
    if (!isModelFolderName(name)) {
      return undefined;
    }
    try {
      return await this.#list(name);
    } catch (error) {
      throw unavailable(
        `failed to read model '${name}' in ${this.location}: ${errorCode(error)}`,
        error,
      );
    }
  }

  async localize(listing: ModelListing): Promise<LocalizedModel> {
    const directory = join(this.#root, listing.name);
    try {
      await stat(directory);
    } catch (error) {
      throw notFound(`model '${listing.name}' is not in ${this.location} any more`, error);
    }
    // The files are the user's own: there is nothing to remove.
    return { directory, release: async () => {} };
  }

  async versionFiles(listing: ModelListing, version: string): Promise<readonly string[]> {
    try {
      return (await readdir(join(this.#root, listing.name, version))).sort();
    } catch (error) {
      throw notFound(`model '${listing.name}' has no version ${version} any more`, error);
    }
  }

  async readConfig(listing: ModelListing, configName: string): Promise<ConfigFile | undefined> {
    for (const fileName of configCandidates(configName)) {
      const path = join(this.#root, listing.name, fileName);
      try {
        const { size } = await stat(path);
        if (size > configBytesMax) {
          throw configTooLong(listing.name, fileName, size);
        }
        return { fileName, text: await readFile(path, 'utf8') };
      } catch (error) {
        if (error instanceof InferenceServerError) {
          throw error;
        }
        if (!isMissing(error)) {
          const name = listing.name;
          throw unavailable(
            `model '${name}': failed to read ${fileName}: ${errorCode(error)}`,
            error,
          );
        }
      }
    }
    return undefined;
  }

  async watch(listener: () => void): Promise<void> {
    const { watchMode, events } = this.#options;
    if (watchMode === 'off') {
      return;
    }
    const warn = (text: string): void => events.warned(`${this.location}: ${text}`);
    this.#watches.push(await DirectoryWatch.start(this.#root, watchMode, listener, warn));
  }

  async close(): Promise<void> {
    await Promise.all(this.#watches.splice(0).map((watch) => watch.close()));
  }

  async #readRoot(): Promise<RootFolder> {
    try {
      const [entries, facts] = await Promise.all([
        readdir(this.#root, { withFileTypes: true }),
        stat(this.#root),
      ]);
      // A volume that is gone leaves an empty folder behind, on another file system. Nothing may
      // be concluded from it; a folder that its owner emptied stays on the same one.
      if (entries.length === 0 && this.#device !== undefined && facts.dev !== this.#device) {
        throw unavailable(
          `model repository '${this.location}' is empty and on another file system than before: was its volume unmounted?`,
        );
      }
      const names: string[] = [];
      let hasConfig = false;
      for (const entry of entries) {
        hasConfig ||= entry.name === 'config.pbtxt';
        if ((entry.isDirectory() || entry.isSymbolicLink()) && isModelFolderName(entry.name)) {
          names.push(entry.name);
        }
      }
      return { names, hasConfig, device: facts.dev };
    } catch (error) {
      throw rootError(this.location, error, unavailable);
    }
  }

  /**
   * A model's listing during a scan. A folder that cannot be read just now keeps its last one: one
   * bad disk block must neither unload a model nor hide changes of the others.
   */
  async #tryList(name: string): Promise<ModelListing | undefined> {
    try {
      const listing = await this.#list(name);
      this.#unreadable.delete(name);
      return listing;
    } catch (error) {
      if (!this.#unreadable.has(name)) {
        this.#unreadable.add(name);
        this.#options.events.warned(
          `failed to read model '${name}' in ${this.location}: ${errorCode(error)}; its last known state stays`,
        );
      }
      const reason = { path: 'unreadable', fingerprint: errorCode(error) };
      return this.#last?.get(name) ?? makeListing(name, [reason], []);
    }
  }

  async #list(name: string): Promise<ModelListing | undefined> {
    const wallNs = BigInt(this.#options.clock.wallMs()) * 1_000_000n;
    const directory = join(this.#root, name);
    const before = this.#folders.get(name);
    const folder = await listModelFolder(directory, name, this.#memory, wallNs, before);
    if (folder === undefined) {
      this.#folders.delete(name);
    } else {
      this.#folders.set(name, folder);
    }
    return folder?.listing;
  }

  async #checkPlace(root: RootFolder, found: RepositoryScan): Promise<void> {
    const folders = [...found.values()].map((listing) => ({
      name: listing.name,
      isModel: listing.configFingerprint !== '' || listing.versions.size > 0,
    }));
    const isModelThere = folders.some((folder) => folder.isModel);
    const message = misplacementMessage(this.location, {
      hasConfig: root.hasConfig,
      folders,
      nestedRepository: isModelThere ? undefined : await findNested(this.#root, root.names),
    });
    if (message !== undefined) {
      throw invalidArg(message);
    }
  }
}

interface RootFolder {
  readonly names: readonly string[];
  readonly hasConfig: boolean;
  readonly device: number;
}

/** The first of the folders that has a folder with a configuration or a version in it. */
async function findNested(root: string, names: readonly string[]): Promise<string | undefined> {
  for (const name of names.slice(0, nestedFoldersMax)) {
    for (const child of (await namesIn(join(root, name))).slice(0, nestedFoldersMax)) {
      const grandchildren = await namesIn(join(root, name, child));
      if (grandchildren.some((each) => each === 'config.pbtxt' || isVersion(each))) {
        return name;
      }
    }
  }
  return undefined;
}

/** Names in a folder; none where it is no folder or cannot be read, as this only serves a hint. */
async function namesIn(directory: string): Promise<readonly string[]> {
  return readdir(directory).catch(() => []);
}

function isVersion(name: string): boolean {
  return folderRole(name).kind === 'version';
}

function rootError(
  location: string,
  error: unknown,
  makeError: (message: string, cause: unknown) => InferenceServerError,
): InferenceServerError {
  return error instanceof InferenceServerError
    ? error
    : makeError(`failed to open model repository '${location}': ${openFault(error)}`, error);
}

function openFault(error: unknown): string {
  const code = errorCode(error);
  if (code === 'ENOENT') return 'there is no such folder';
  return code === 'EACCES' ? 'this user may not read it' : code;
}
