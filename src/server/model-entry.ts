import { type InferenceServerError, notFound, unavailable } from '../errors.js';
import type { RepositoryIndexEntry } from '../inference/model-metadata.js';

/** A loaded model version, as far as its entry handles it. */
export interface LoadedVersion {
  readonly version: string;
  /** Finishes the requests it has accepted, then frees everything. Never rejects. */
  retire(): Promise<void>;
}

/** Loads one version; a rejection's message becomes the version's reason. */
export type VersionLoad<T extends LoadedVersion> = () => Promise<T>;

/** What an update wants: versions that stay as they are, and versions to load. */
export interface EntryUpdate<T extends LoadedVersion> {
  readonly keep: ReadonlySet<string>;
  readonly load: ReadonlyMap<string, VersionLoad<T>>;
}

/** Why a version is not ready; `error` is what its load threw. */
export interface VersionFailure {
  readonly version: string;
  readonly error: unknown;
}

/**
 * States of one version, and what moves it. `old` is an earlier load of the same version.
 *
 * | state       | update begins      | load succeeded   | load failed                | dropped    | drained     |
 * | ----------- | ------------------ | ---------------- | -------------------------- | ---------- | ----------- |
 * | (none)      | LOADING            |                  |                            |            |             |
 * | LOADING     |                    | READY            | UNAVAILABLE, its reason    |            |             |
 * | READY       | READY (old serves) | READY, old drains| READY (old serves)         | UNLOADING  |             |
 * | UNLOADING   | LOADING, old drains|                  |                            |            | UNAVAILABLE |
 * | UNAVAILABLE | LOADING            |                  |                            |            |             |
 */
type VersionState<T> =
  | { readonly state: 'LOADING' }
  | { readonly state: 'READY'; readonly loaded: T }
  | { readonly state: 'UNLOADING'; readonly loaded: T }
  | { readonly state: 'UNAVAILABLE'; readonly reason: string; readonly isFailure: boolean };

/**
 * One model's versions: which of them requests reach, and how a set of versions replaces another
 * without a request in between finding none. Updates of one entry must not overlap: the caller
 * serialises them.
 */
export class ModelEntry<T extends LoadedVersion> {
  readonly name: string;
  readonly #states = new Map<string, VersionState<T>>();
  readonly #describeFailure: (error: unknown) => string;
  /** Highest READY version: what a request without a version runs on. */
  #latest: T | undefined = undefined;

  constructor(name: string, describeFailure: (error: unknown) => string) {
    this.name = name;
    this.#describeFailure = describeFailure;
  }

  /** The version that a request runs on. `version` '' is the highest READY one. */
  resolve(version: string): T {
    if (version === '') {
      if (this.#latest !== undefined) return this.#latest;
      throw this.#noAvailableVersions();
    }
    const entry = this.#states.get(version);
    if (entry?.state === 'READY') return entry.loaded;
    throw this.#missing(version, entry !== undefined);
  }

  readyVersions(): readonly T[] {
    const ready: T[] = [];
    for (const version of this.#sortedVersions()) {
      const entry = this.#states.get(version);
      if (entry?.state === 'READY') ready.push(entry.loaded);
    }
    return ready;
  }

  /** False where no load was ever asked for. */
  get isKnown(): boolean {
    return this.#states.size > 0;
  }

  get isServing(): boolean {
    return this.#latest !== undefined;
  }

  /** True while a version that was asked for is loading or has failed to load. */
  get hasUnreadyVersion(): boolean {
    for (const entry of this.#states.values()) {
      if (entry.state === 'LOADING') return true;
      if (entry.state === 'UNAVAILABLE' && entry.isFailure) return true;
    }
    return false;
  }

  indexRows(): readonly RepositoryIndexEntry[] {
    return this.#sortedVersions().flatMap((version) => {
      const entry = this.#states.get(version);
      if (entry === undefined) return [];
      const row = { name: this.name, version, state: entry.state };
      return entry.state === 'UNAVAILABLE' ? [{ ...row, reason: entry.reason }] : [row];
    });
  }

  /**
   * Loads what `update` wants while the present versions serve. When all loads have succeeded the
   * new set takes over in one step and the rest retires. When one fails, a model that served goes on
   * with the versions it had; one that did not keeps what could be loaded.
   */
  async update(update: EntryUpdate<T>): Promise<readonly VersionFailure[]> {
    const wasServing = this.isServing;
    for (const version of update.load.keys()) {
      if (this.#states.get(version)?.state !== 'READY') {
        this.#states.set(version, { state: 'LOADING' });
      }
    }
    const loads = [...update.load].map(async ([version, load]) => {
      try {
        return { version, loaded: await load() };
      } catch (error) {
        return { version, error };
      }
    });
    const results = await Promise.all(loads);
    const failures = results.flatMap((result) =>
      'error' in result ? [{ version: result.version, error: result.error }] : [],
    );
    const isKeepingOld = wasServing && failures.length > 0;
    for (const result of results) {
      if ('error' in result) this.#recordFailure(result.version, result.error, isKeepingOld);
      else if (isKeepingOld) this.#discard(result.version, result.loaded);
      else this.#install(result.version, result.loaded);
    }
    if (!isKeepingOld) this.#dropAllBut(update);
    this.#chooseLatest();
    return failures;
  }

  /** Takes every version out of service at once; resolves when all have retired. */
  async unload(): Promise<void> {
    const retirements = [...this.#states.keys()].map((version) => this.#drop(version));
    this.#chooseLatest();
    await Promise.all(retirements);
  }

  #recordFailure(version: string, error: unknown, isKeepingOld: boolean): void {
    if (this.#states.get(version)?.state === 'READY') return;
    this.#states.set(version, {
      state: 'UNAVAILABLE',
      reason: this.#describeFailure(error),
      isFailure: !isKeepingOld,
    });
  }

  #discard(version: string, loaded: T): void {
    if (this.#states.get(version)?.state !== 'READY') this.#setUnloaded(version);
    void loaded.retire();
  }

  #install(version: string, loaded: T): void {
    const previous = this.#states.get(version);
    this.#states.set(version, { state: 'READY', loaded });
    if (previous?.state === 'READY') void previous.loaded.retire();
  }

  #dropAllBut(update: EntryUpdate<T>): void {
    for (const version of this.#states.keys()) {
      if (!update.keep.has(version) && !update.load.has(version)) void this.#drop(version);
    }
  }

  async #drop(version: string): Promise<void> {
    const entry = this.#states.get(version);
    if (entry === undefined) return;
    if (entry.state === 'UNAVAILABLE') {
      this.#setUnloaded(version);
      return;
    }
    if (entry.state !== 'READY') return;
    const unloading = { state: 'UNLOADING', loaded: entry.loaded } as const;
    this.#states.set(version, unloading);
    await entry.loaded.retire();
    // A load may have begun while the old instance drained: then its state stands.
    if (this.#states.get(version) === unloading) this.#setUnloaded(version);
  }

  #setUnloaded(version: string): void {
    this.#states.set(version, { state: 'UNAVAILABLE', reason: 'unloaded', isFailure: false });
  }

  #chooseLatest(): void {
    this.#latest = this.readyVersions().at(-1);
  }

  #sortedVersions(): readonly string[] {
    return [...this.#states.keys()].sort((a, b) => Number(a) - Number(b));
  }

  #missing(version: string, isKnown: boolean): InferenceServerError {
    const model = `Request for unknown model: '${this.name}' version ${version}`;
    return isKnown
      ? unavailable(`${model} is not at ready state`)
      : notFound(`${model} is not found`);
  }

  #noAvailableVersions(): InferenceServerError {
    return notFound(`Request for unknown model: '${this.name}' has no available versions`);
  }
}
