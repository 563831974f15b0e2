import { InferenceServerError, invalidArg } from '../errors.js';
import { type ModelId, modelKey } from '../inference/model-key.js';
import type { RepositoryIndexEntry } from '../inference/model-metadata.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { noVersionMessage } from '../model-config/version-policy.js';
import type { Logger } from '../observability/logger.js';
import {
  dependentEnsembles,
  loadOrder,
  stepModels,
  stepsByModel,
} from './ensemble-dependencies.js';
import type { LoadOverride } from './inference-server.js';
import type { Model } from './model.js';
import { describeLoadFailure } from './model-loader.js';
import type { ModelRecord, ModelRegistry } from './model-registry.js';
import { compareRevisions, type ModelRevision } from './model-revision.js';
import type { FoundModel, RepositorySet } from './repository-set.js';
import type { RevisionFinder } from './revision-finder.js';

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
 *  start-up ──┼─▶ RevisionFinder.read ─┤                              │
 *  poll ──────┘   (config.pbtxt,       └─▶ unusable: nothing changes, the reason is kept
 *                  version policy)                    ModelEntry.update ─▶ switch or keep the old
 * ```
 */
export class ModelControl {
  readonly #registry: ModelRegistry;
  readonly #repositories: RepositorySet;
  readonly #finder: RevisionFinder;
  readonly #loader: VersionLoader;
  readonly #logger: Logger;

  constructor(
    registry: ModelRegistry,
    repositories: RepositorySet,
    finder: RevisionFinder,
    loader: VersionLoader,
    logger: Logger,
  ) {
    this.#registry = registry;
    this.#repositories = repositories;
    this.#finder = finder;
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
   * is gone or no longer unique. Failures stay with their model; this never rejects. Calls may overlap: a slow load
   * holds nothing up but its own model and the ensembles over it.
   */
  async reconcile(): Promise<void> {
    const found = this.#repositories.lastScan();
    const gone = [...this.#registry.records()].filter((record) =>
      found.get(record.key)?.type === 'duplicate' ? record.isTried : isGone(record, found),
    );
    await Promise.all(gone.map((record) => this.#remove(record)));
    const revisions = await this.#finder.readAll(found);
    const configs = new Map([...revisions].map(([key, revision]) => [key, revision.config]));
    const order = loadOrder(configs);
    for (const key of order.circular) {
      const revision = revisions.get(key);
      if (revision === undefined) continue;
      const reason = `circular dependency between ensembles: ${order.circular.join(', ')}`;
      this.#registry.ensureRecord(revision.id).problem = reason;
    }
    for (const group of order.groups) {
      await Promise.all(
        group.map(async (key) => {
          const revision = revisions.get(key);
          if (revision !== undefined) await this.#tryApply(revision);
        }),
      );
    }
  }

  /** All models that the repositories hold and that can be read, after a new look. Loads nothing. */
  async catalogue(): Promise<ReadonlyMap<string, ModelRevision>> {
    return this.#finder.readAll(await this.#repositories.scan());
  }

  servedRevision(key: string): ModelRevision | undefined {
    return this.#registry.record(key)?.served;
  }

  /**
   * A load call, or one name of `--load-model`: loads the models of that name in every namespace.
   * Rejects with the text that the client gets.
   */
  async load(name: string, override: LoadOverride): Promise<void> {
    checkModelName(name);
    const ids = await this.#finder.idsToLoad(name, override);
    const loads = await Promise.allSettled(ids.map((id) => this.#loadOne(id, override)));
    const failures = loads.flatMap((load) => (load.status === 'rejected' ? [load.reason] : []));
    if (failures.length > 1) {
      throw invalidArg(failures.map((failure) => describeLoadFailure(failure)).join('\n'));
    }
    if (failures.length === 1) throw failures[0];
  }

  async #loadOne(id: ModelId, override: LoadOverride): Promise<void> {
    const record = this.#registry.ensureRecord(id);
    await record.serialize(async () => {
      const revision = await this.#finder.readForLoad(id, override);
      await this.#loadSteps(revision, [record.key]);
      record.isWanted = true;
      await this.#apply(record, revision);
    });
  }

  /** Resolves when no new request reaches the model; what runs finishes in the background. */
  async unload(name: string, unloadDependents: boolean): Promise<void> {
    for (const record of this.#registry.recordsNamed(name)) {
      await this.#unloadOne(record, unloadDependents);
    }
  }

  async #unloadOne(record: ModelRecord, unloadDependents: boolean): Promise<void> {
    const steps = record.served === undefined ? [] : stepModels(record.served.config);
    record.isWanted = false;
    await this.#remove(record);
    if (!unloadDependents) return;
    for (const step of steps) {
      const stepRecord = this.#registry.record(step);
      const isUsed = dependentEnsembles(step, this.#servedConfigs()).length > 0;
      if (stepRecord !== undefined && !stepRecord.isWanted && !isUsed) {
        await this.#unloadOne(stepRecord, true);
      }
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

  /** Models that could not even be read or started: key → reason. */
  problems(): ReadonlyMap<string, string> {
    const problems = new Map<string, string>();
    for (const record of this.#registry.records()) {
      if (record.problem !== undefined) problems.set(record.key, record.problem);
    }
    return problems;
  }

  /** Rows in order of names; what no repository holds has left the index. */
  async index(isFresh: boolean): Promise<readonly RepositoryIndexEntry[]> {
    const found = isFresh ? await this.#repositories.scan() : this.#repositories.lastScan();
    const sorted = [...found].sort(([a], [b]) => (a < b ? -1 : 1));
    return sorted.flatMap(([key, { type, id }]): readonly RepositoryIndexEntry[] => {
      const model = id.namespace === '' ? { name: id.name } : id;
      if (type === 'duplicate') {
        const reason = 'model appears in two or more repositories';
        return [{ ...model, state: 'UNAVAILABLE', reason }];
      }
      const record = this.#registry.record(key);
      const rows = record?.entry.indexRows() ?? [];
      // The reference server leaves out a model that was read and has no version to serve.
      if (rows.length === 0 && record?.isWithoutVersions !== true) return [model];
      return rows.map((row) => ({ ...row, ...model }));
    });
  }

  async #tryApply(revision: ModelRevision): Promise<void> {
    const record = this.#registry.ensureRecord(revision.id);
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
    for (const [key, step] of stepsByModel(revision.config)) {
      const id = { namespace: step.model_namespace, name: step.model_name };
      if (await this.#finder.isAmbiguous(id)) continue;
      const record = this.#registry.ensureRecord(id);
      if (record.entry.isServing) continue;
      if (path.includes(key)) {
        throw invalidArg(`circular dependency between ensembles: ${[...path, key].join(', ')}`);
      }
      await record.serialize(async () => {
        const noOverride = { config: undefined, files: new Map() };
        const stepRevision = await this.#finder.readForLoad(id, noOverride);
        await this.#loadSteps(stepRevision, [...path, key]);
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
      record.problem = noVersionMessage(revision.id.name);
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
      throw invalidArg(`load failed for model '${record.key}': ${list.join('')}`);
    }
    for (const model of record.entry.readyVersions()) {
      if (keep.has(model.version)) await model.updateInPlace(revision.config);
    }
    record.served = revision;
    this.#logger.info(`successfully loaded '${record.key}'`);
  }

  #checkSteps(revision: ModelRevision): void {
    const missing = [...stepsByModel(revision.config)]
      .filter(([key]) => this.#registry.record(key)?.entry.isServing !== true)
      .map(([_, step]) => step.model_name);
    if (missing.length === 0) return;
    const reason = `ensemble ${modelKey(revision.id)} contains models that are not available or ambiguous: ${missing.join(', ')}`;
    this.#registry.ensureRecord(revision.id).problem = reason;
    throw invalidArg(reason);
  }

  /** Ensembles that need the model go first. */
  async #remove(record: ModelRecord): Promise<void> {
    for (const ensemble of dependentEnsembles(record.key, this.#servedConfigs())) {
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
      if (record.served !== undefined) configs.set(record.key, record.served.config);
    }
    return configs;
  }
}

function isGone(record: ModelRecord, found: ReadonlyMap<string, FoundModel>): boolean {
  return !found.has(record.key) && record.isPresent;
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
