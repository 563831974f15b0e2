import { internal } from '../errors.js';
import { type ModelId, modelKey } from '../inference/model-key.js';
import type { Logger } from '../observability/logger.js';
import type {
  ModelListing,
  ModelRepository,
  RepositoryScan,
} from '../repository/model-repository.js';

/** Where one model's files are. */
export interface ModelSource {
  readonly id: ModelId;
  readonly repository: ModelRepository;
  readonly listing: ModelListing;
}

/** A model as the repositories have it: once, or in several of them without namespacing. */
export type FoundModel =
  | { readonly type: 'unique'; readonly id: ModelId; readonly source: ModelSource }
  | { readonly type: 'duplicate'; readonly id: ModelId; readonly locations: readonly string[] };

/** Whether a model name belongs to all repositories, or to each (`--model-namespacing`). */
export type Namespacing = 'off' | 'by-repository';

/**
 * All `--model-repository` folders as one; models are found by their keys. A repository that cannot
 * be read keeps the listing of its last good scan: a store that is down unloads nothing.
 */
export class RepositorySet {
  readonly repositories: readonly ModelRepository[];
  readonly #namespacing: Namespacing;
  readonly #logger: Logger;
  readonly #lastScans = new Map<ModelRepository, RepositoryScan>();

  constructor(repositories: readonly ModelRepository[], namespacing: Namespacing, logger: Logger) {
    this.repositories = repositories;
    this.#namespacing = namespacing;
    this.#logger = logger;
  }

  /** Rejects only where a repository has never been read. */
  async scan(): Promise<ReadonlyMap<string, FoundModel>> {
    await Promise.all(this.repositories.map((repository) => this.#scanOne(repository)));
    return this.lastScan();
  }

  /** As of the last scan, updated by later `findNamed` calls. */
  lastScan(): ReadonlyMap<string, FoundModel> {
    const found = new Map<string, FoundModel>();
    for (const repository of this.repositories) {
      for (const listing of this.#lastScans.get(repository)?.values() ?? []) {
        this.#add(found, repository, listing);
      }
    }
    return found;
  }

  /** The models of that name as of now: at most one without namespacing. */
  async findNamed(name: string): Promise<ReadonlyMap<string, FoundModel>> {
    const listings = await Promise.all(
      this.repositories.map(async (repository) => {
        const listing = await repository.look(name);
        this.#remember(repository, name, listing);
        return { repository, listing };
      }),
    );
    const found = new Map<string, FoundModel>();
    for (const { repository, listing } of listings) {
      if (listing !== undefined) this.#add(found, repository, listing);
    }
    return found;
  }

  /** The ids under which a load call finds that name; without namespacing one, found or not. */
  async idsNamed(name: string): Promise<readonly ModelId[]> {
    if (this.#namespacing === 'off') return [{ namespace: '', name }];
    return [...(await this.findNamed(name)).values()].map(({ id }) => id);
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

  #add(found: Map<string, FoundModel>, repository: ModelRepository, listing: ModelListing): void {
    const namespace = this.#namespacing === 'off' ? '' : repository.location;
    const id = { namespace, name: listing.name };
    const key = modelKey(id);
    found.set(key, join(found.get(key), { id, repository, listing }));
  }

  async #scanOne(repository: ModelRepository): Promise<void> {
    try {
      const scan = await repository.scan();
      if (scan.size === 0 && !this.#lastScans.has(repository)) {
        this.#logger.warning(
          `model repository '${repository.location}' holds no models: each folder in it would be one`,
        );
      }
      this.#lastScans.set(repository, scan);
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
export function uniqueSource(found: FoundModel): ModelSource {
  if (found.type === 'unique') return found.source;
  throw internal(
    `model '${found.id.name}' appears in two or more repositories: ${found.locations.join(', ')}`,
  );
}

function join(present: FoundModel | undefined, source: ModelSource): FoundModel {
  const { id } = source;
  if (present === undefined) return { type: 'unique', id, source };
  const locations =
    present.type === 'unique' ? [present.source.repository.location] : present.locations;
  return { type: 'duplicate', id, locations: [...locations, source.repository.location] };
}
