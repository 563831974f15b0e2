import { internal } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import type {
  ModelListing,
  ModelRepository,
  RepositoryScan,
} from '../repository/model-repository.js';

/** Where one model's files are. */
export interface ModelSource {
  readonly repository: ModelRepository;
  readonly listing: ModelListing;
}

/** A model name as the repositories have it: once, or in several of them. */
export type FoundModel =
  | { readonly type: 'unique'; readonly source: ModelSource }
  | { readonly type: 'duplicate'; readonly locations: readonly string[] };

/**
 * All `--model-repository` folders as one. A repository that cannot be read keeps the listing of
 * its last good scan: a store that is down unloads nothing.
 */
export class RepositorySet {
  readonly repositories: readonly ModelRepository[];
  readonly #logger: Logger;
  readonly #lastScans = new Map<ModelRepository, RepositoryScan>();

  constructor(repositories: readonly ModelRepository[], logger: Logger) {
    this.repositories = repositories;
    this.#logger = logger;
  }

  /** Rejects only where a repository has never been read. */
  async scan(): Promise<ReadonlyMap<string, FoundModel>> {
    await Promise.all(this.repositories.map((repository) => this.#scanOne(repository)));
    return this.lastScan();
  }

  /** As of the last scan, updated by later `find` calls. */
  lastScan(): ReadonlyMap<string, FoundModel> {
    const found = new Map<string, FoundModel>();
    for (const repository of this.repositories) {
      for (const listing of this.#lastScans.get(repository)?.values() ?? []) {
        found.set(listing.name, join(found.get(listing.name), { repository, listing }));
      }
    }
    return found;
  }

  /** One model as of now; undefined where no repository has it. */
  async find(name: string): Promise<FoundModel | undefined> {
    const listings = await Promise.all(
      this.repositories.map(async (repository) => {
        const listing = await repository.look(name);
        this.#remember(repository, name, listing);
        return listing === undefined ? [] : [{ repository, listing }];
      }),
    );
    let found: FoundModel | undefined;
    for (const source of listings.flat()) found = join(found, source);
    return found;
  }

  /** What a poller saw of one repository, once it had settled. */
  accept(repository: ModelRepository, scan: RepositoryScan): void {
    this.#lastScans.set(repository, scan);
  }

  lastScanOf(repository: ModelRepository): RepositoryScan {
    return this.#lastScans.get(repository) ?? new Map();
  }

  async close(): Promise<void> {
    await Promise.all(this.repositories.map((repository) => repository.close()));
  }

  async #scanOne(repository: ModelRepository): Promise<void> {
    try {
      this.#lastScans.set(repository, await repository.scan());
    } catch (error) {
      if (!this.#lastScans.has(repository)) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      this.#logger.warning(
        `model repository '${repository.location}' could not be read, its models stay as they are: ${reason}`,
      );
    }
  }

  #remember(repository: ModelRepository, name: string, listing: ModelListing | undefined): void {
    const scan = new Map(this.#lastScans.get(repository));
    if (listing === undefined) scan.delete(name);
    else scan.set(name, listing);
    this.#lastScans.set(repository, scan);
  }
}

/** The one source of a found model; INTERNAL where several repositories have it. */
export function uniqueSource(name: string, found: FoundModel): ModelSource {
  if (found.type === 'unique') return found.source;
  throw internal(
    `model '${name}' appears in two or more repositories: ${found.locations.join(', ')}`,
  );
}

function join(present: FoundModel | undefined, source: ModelSource): FoundModel {
  if (present === undefined) return { type: 'unique', source };
  const locations =
    present.type === 'unique' ? [present.source.repository.location] : present.locations;
  return { type: 'duplicate', locations: [...locations, source.repository.location] };
}
