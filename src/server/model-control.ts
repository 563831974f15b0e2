import { InferenceServerError, internal, invalidArg } from '../errors.js';
import type { RepositoryIndexEntry } from '../inference/model-metadata.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { noVersionMessage } from '../model-config/version-policy.js';
import type { Logger } from '../observability/logger.js';
import { dependentEnsembles, loadOrder, stepModels } from './ensemble-dependencies.js';
import type { LoadOverride } from './inference-server.js';
import type { Model } from './model.js';
import { describeLoadFailure } from './model-loader.js';
import type { ModelRecord, ModelRegistry } from './model-registry.js';
import { compareRevisions, type ModelRevision } from './model-revision.js';
import { type FoundModel, type RepositorySet, uniqueSource } from './repository-set.js';
import type { RevisionReader } from './revision-reader.js';

/** Loads one version of a revision; rejects with the reason. */
export interface VersionLoader {
  load(revision: ModelRevision, version: string): Promise<Model>;
}

/**
 * Brings the registry to what the repositories hold and what load and unload calls ask for.
 * Operations on one model run one after the other; on different models in parallel.
 *
 * ```
 *  load call ─┐                        ┌─▶ compareRevisions ─▶ none | in place | versions | all
 *  start-up ──┼─▶ RevisionReader.read ─┤                              │
 *  poll ──────┘   (config.pbtxt,       └─▶ unusable: nothing changes, the reason is kept
 *                  version policy)                    ModelEntry.update ─▶ switch or keep the old
 * ```
 */
export class ModelControl {
  readonly #registry: ModelRegistry;
  readonly #repositories: RepositorySet;
  readonly #reader: RevisionReader;
  readonly #loader: VersionLoader;
  readonly #logger: Logger;

  constructor(
    registry: ModelRegistry,
    repositories: RepositorySet,
    reader: RevisionReader,
    loader: VersionLoader,
    logger: Logger,
  ) {
    this.#registry = registry;
    this.#repositories = repositories;
    this.#reader = reader;
    this.#loader = loader;
    this.#logger = logger;
  }

  /** Start-up in modes none and poll, and `--load-model=*`: everything that the repositories hold. */
  async loadAll(): Promise<void> {
    await this.#repositories.scan();
    await this.reconcile();
  }

  /**
   * Brings the registry to the last scan: loads what is new, changed or failed before, unloads what
   * is gone. Failures stay with their model; this never rejects. Calls may overlap: a slow load
   * holds nothing up but its own model and the ensembles over it.
   */
  async reconcile(): Promise<void> {
    const found = this.#repositories.lastScan();
    const gone = [...this.#registry.records()].filter(
      (record) => !found.has(record.name) && record.isPresent,
    );
    await Promise.all(gone.map((record) => this.#remove(record)));
    const revisions = await this.#readAll(found);
    const configs = new Map([...revisions].map(([name, revision]) => [name, revision.config]));
    const order = loadOrder(configs);
    for (const name of order.circular) {
      this.#setProblem(name, `circular dependency between ensembles: ${order.circular.join(', ')}`);
    }
    for (const group of order.groups) {
      await Promise.all(
        group.map(async (name) => {
          const revision = revisions.get(name);
          if (revision !== undefined) await this.#tryApply(revision);
        }),
      );
    }
  }

  /** All models that the repositories hold and that can be read, after a new look. Loads nothing. */
  async catalogue(): Promise<ReadonlyMap<string, ModelRevision>> {
    return this.#readAll(await this.#repositories.scan());
  }

  servedRevision(name: string): ModelRevision | undefined {
    return this.#registry.record(name)?.served;
  }

  /** A load call, or one name of `--load-model`. Rejects with the text that the client gets. */
  async load(name: string, override: LoadOverride): Promise<void> {
    checkModelName(name);
    const record = this.#registry.ensureRecord(name);
    await record.serialize(async () => {
      const revision = await this.#readForLoad(name, override);
      await this.#loadSteps(revision, [name]);
      record.isWanted = true;
      await this.#apply(record, revision);
    });
  }

  /** Resolves when no new request reaches the model; what runs finishes in the background. */
  async unload(name: string, unloadDependents: boolean): Promise<void> {
    const record = this.#registry.record(name);
    if (record === undefined) return;
    const steps = record.served === undefined ? [] : stepModels(record.served.config);
    record.isWanted = false;
    await this.#remove(record);
    if (!unloadDependents) return;
    for (const step of steps) {
      const stepRecord = this.#registry.record(step);
      const isUsed = dependentEnsembles(step, this.#servedConfigs()).length > 0;
      if (stepRecord !== undefined && !stepRecord.isWanted && !isUsed)
        await this.unload(step, true);
    }
  }

  /** True while a model could not be loaded: the next poll tries again. */
  get hasFailures(): boolean {
    return !this.isReady || this.problems().size > 0;
  }

  /** True where nothing that should be served is loading or has failed. */
  get isReady(): boolean {
    return [...this.#registry.records()].every((record) => !record.entry.hasUnreadyVersion);
  }

  /** Models that could not even be read or started: name → reason. */
  problems(): ReadonlyMap<string, string> {
    const problems = new Map<string, string>();
    for (const record of this.#registry.records()) {
      if (record.problem !== undefined) problems.set(record.name, record.problem);
    }
    return problems;
  }

  /** Rows in order of names; what no repository holds has left the index. */
  async index(isFresh: boolean): Promise<readonly RepositoryIndexEntry[]> {
    const found = isFresh ? await this.#repositories.scan() : this.#repositories.lastScan();
    const names = [...found.keys()].sort();
    return names.flatMap((name): readonly RepositoryIndexEntry[] => {
      if (found.get(name)?.type === 'duplicate') {
        const reason = 'model appears in two or more repositories';
        return [{ name, state: 'UNAVAILABLE', reason }];
      }
      const record = this.#registry.record(name);
      const rows = record?.entry.indexRows() ?? [];
      // The reference server leaves out a model that was read and has no version to serve.
      if (rows.length === 0 && record?.isWithoutVersions !== true) return [{ name }];
      return rows;
    });
  }

  async #readForLoad(name: string, override: LoadOverride): Promise<ModelRevision> {
    try {
      const found = await this.#repositories.find(name);
      const source = found === undefined ? undefined : uniqueSource(name, found);
      return await this.#reader.readForLoad(name, source, override);
    } catch (error) {
      const reason = describeLoadFailure(error);
      this.#logger.error(`failed to poll model '${name}': ${reason}`);
      this.#setProblem(name, reason);
      throw internal(`failed to load '${name}', failed to poll from model repository`, error);
    }
  }

  async #readAll(
    found: ReadonlyMap<string, FoundModel>,
  ): Promise<ReadonlyMap<string, ModelRevision>> {
    const revisions = new Map<string, ModelRevision>();
    await Promise.all(
      [...found].map(async ([name, model]) => {
        try {
          revisions.set(name, await this.#reader.read(uniqueSource(name, model)));
        } catch (error) {
          const reason = describeLoadFailure(error);
          if (this.#registry.record(name)?.problem !== reason) {
            this.#logger.error(`Poll failed for model directory '${name}': ${reason}`);
          }
          this.#setProblem(name, reason);
        }
      }),
    );
    return revisions;
  }

  async #tryApply(revision: ModelRevision): Promise<void> {
    const record = this.#registry.ensureRecord(revision.name);
    record.isWanted = true;
    // An earlier call is still at it: trying the same once more would only queue up.
    if (record.attempted === revision) return;
    record.attempted = revision;
    await record.serialize(async () => {
      try {
        await this.#apply(record, revision);
      } catch (error) {
        this.#logger.error(describeLoadFailure(error));
      } finally {
        if (record.attempted === revision) record.attempted = undefined;
      }
    });
  }

  /** `path`: the ensembles on the way here; waiting for one of them again would never end. */
  async #loadSteps(revision: ModelRevision, path: readonly string[]): Promise<void> {
    for (const step of stepModels(revision.config)) {
      const record = this.#registry.ensureRecord(step);
      if (record.entry.isServing) continue;
      if (path.includes(step)) {
        throw invalidArg(`circular dependency between ensembles: ${[...path, step].join(', ')}`);
      }
      await record.serialize(async () => {
        const noOverride = { config: undefined, files: new Map() };
        const stepRevision = await this.#readForLoad(step, noOverride);
        await this.#loadSteps(stepRevision, [...path, step]);
        await this.#apply(record, stepRevision);
      });
    }
  }

  /** Loads what differs from what is served. Rejects where a version failed. */
  async #apply(record: ModelRecord, revision: ModelRevision): Promise<void> {
    this.#checkSteps(revision);
    record.isWithoutVersions = revision.versions.length === 0;
    if (record.isWithoutVersions) {
      this.#registry.track(record.entry.unload());
      record.problem = noVersionMessage(revision.name);
      throw invalidArg(record.problem);
    }
    const isFixed = record.entry.readyVersions().some((model) => model.hasFixedInstances);
    const change = compareRevisions(record.served, revision, isFixed ? 'fixed' : 'changeable');
    const wasServing = record.entry.isServing;
    record.problem = undefined;
    if (change.type === 'keeps-override') return;
    const keep = new Set<string>();
    const load = new Map<string, () => Promise<Model>>();
    const loaded = new Set(record.entry.readyVersions().map((model) => model.version));
    for (const version of revision.versions) {
      const isChanged =
        change.type === 'all' || (change.type === 'versions' && change.changed.has(version));
      if (loaded.has(version) && !isChanged) keep.add(version);
      else load.set(version, () => this.#loader.load(revision, version));
    }
    if (change.type === 'none' && load.size === 0) {
      record.served = revision;
      return;
    }
    const failures = await record.entry.update({ keep, load });
    if (failures.length > 0) {
      if (!wasServing && record.entry.isServing) record.served = revision;
      const list = failures.map(
        ({ version, error }) =>
          `version ${version} is at UNAVAILABLE state: ${describeLoadFailure(error)};\n`,
      );
      throw invalidArg(`load failed for model '${revision.name}': ${list.join('')}`);
    }
    for (const model of record.entry.readyVersions()) {
      if (keep.has(model.version)) await model.updateInPlace(revision.config);
    }
    record.served = revision;
    this.#logger.info(`successfully loaded '${revision.name}'`);
  }

  #checkSteps(revision: ModelRevision): void {
    const missing = stepModels(revision.config).filter(
      (step) => this.#registry.record(step)?.entry.isServing !== true,
    );
    if (missing.length === 0) return;
    const reason = `ensemble ${revision.name} contains models that are not available or ambiguous: ${missing.join(', ')}`;
    this.#setProblem(revision.name, reason);
    throw invalidArg(reason);
  }

  /** Ensembles that need the model go first. */
  async #remove(record: ModelRecord): Promise<void> {
    for (const ensemble of dependentEnsembles(record.name, this.#servedConfigs())) {
      const dependent = this.#registry.record(ensemble);
      if (dependent !== undefined) await this.#retire(dependent);
    }
    await this.#retire(record);
  }

  async #retire(record: ModelRecord): Promise<void> {
    await record.serialize(async () => {
      record.served = undefined;
      record.problem = undefined;
      this.#registry.track(record.entry.unload());
    });
  }

  #servedConfigs(): ReadonlyMap<string, ModelConfig> {
    const configs = new Map<string, ModelConfig>();
    for (const record of this.#registry.records()) {
      if (record.served !== undefined) configs.set(record.name, record.served.config);
    }
    return configs;
  }

  #setProblem(name: string, reason: string): void {
    this.#registry.ensureRecord(name).problem = reason;
  }
}

/** Names that a load call refuses before it looks anywhere. */
function checkModelName(name: string): void {
  if (name.trim() === '') {
    throw invalidArg('Model name cannot be empty. Please enter a valid name to deploy.');
  }
  if (name.trim() === '..' || name.includes('/')) {
    throw new InferenceServerError(
      'INVALID_ARG',
      `invalid model name '${name}', model name must not contain path traversal characters`,
    );
  }
}
