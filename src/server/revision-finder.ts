import { type InferenceServerError, internal } from '../errors.js';
import { type ModelId, modelKey } from '../inference/model-key.js';
import type { Logger } from '../observability/logger.js';
import type { LoadOverride } from './inference-server.js';
import { describeLoadFailure } from './model-loader.js';
import type { ModelRegistry } from './model-registry.js';
import type { ModelRevision } from './model-revision.js';
import { type FoundModel, type RepositorySet, uniqueSource } from './repository-set.js';
import type { RevisionReader } from './revision-reader.js';
import { type NamespacesOf, StepNamespaces } from './step-namespaces.js';

/**
 * Finds what there is to load in the repositories, and which models the steps of ensembles mean. A
 * model that cannot be read keeps the reason as its record's problem.
 */
export class RevisionFinder {
  readonly #repositories: RepositorySet;
  readonly #reader: RevisionReader;
  readonly #registry: ModelRegistry;
  readonly #logger: Logger;
  readonly #stepNamespaces = new StepNamespaces();

  constructor(
    repositories: RepositorySet,
    reader: RevisionReader,
    registry: ModelRegistry,
    logger: Logger,
  ) {
    this.#repositories = repositories;
    this.#reader = reader;
    this.#registry = registry;
    this.#logger = logger;
  }

  /** Those of `found` that can be read, by their keys. */
  async readAll(
    found: ReadonlyMap<string, FoundModel>,
  ): Promise<ReadonlyMap<string, ModelRevision>> {
    const revisions: ModelRevision[] = [];
    await Promise.all(
      [...found].map(async ([key, model]) => {
        try {
          revisions.push(await this.#reader.read(uniqueSource(model)));
        } catch (error) {
          const reason = describeLoadFailure(error);
          if (this.#registry.record(key)?.problem !== reason) {
            this.#logger.error(`Poll failed for model directory '${key}': ${reason}`);
          }
          this.#registry.ensureRecord(model.id).problem = reason;
        }
      }),
    );
    const namespacesOf = this.#namespacesAmong(revisions.map(({ id }) => id));
    return new Map(
      revisions.map((revision) => [
        modelKey(revision.id),
        this.#stepNamespaces.resolve(revision, namespacesOf),
      ]),
    );
  }

  /** The models that a load call of that name means, at least one. Looks only with namespacing. */
  async idsToLoad(name: string, override: LoadOverride): Promise<readonly ModelId[]> {
    const unnamed = { namespace: '', name };
    if (override.files.size > 0) return [unnamed];
    try {
      const ids = await this.#repositories.idsNamed(name);
      return ids.length === 0 ? [unnamed] : ids;
    } catch (error) {
      throw this.#failedPoll(unnamed, error);
    }
  }

  /** INTERNAL with the reference server's text where the model cannot be had. */
  async readForLoad(id: ModelId, override: LoadOverride): Promise<ModelRevision> {
    try {
      const found = (await this.#repositories.findNamed(id.name)).get(modelKey(id));
      const source = found === undefined ? undefined : uniqueSource(found);
      return await this.#withStepsFound(await this.#reader.readForLoad(id, source, override));
    } catch (error) {
      throw this.#failedPoll(id, error);
    }
  }

  /** True for the model of a step that is not in the ensemble's repository and in several others. */
  async isAmbiguous({ namespace, name }: ModelId): Promise<boolean> {
    return namespace === '' && (await this.#repositories.idsNamed(name)).length > 1;
  }

  async #withStepsFound(revision: ModelRevision): Promise<ModelRevision> {
    const steps = revision.config.ensemble_scheduling?.step ?? [];
    const names = new Set(steps.map((step) => step.model_name));
    const ids = await Promise.all([...names].map((name) => this.#repositories.idsNamed(name)));
    return this.#stepNamespaces.resolve(revision, this.#namespacesAmong(ids.flat()));
  }

  /** Of `ids` and of what is served or was tried. */
  #namespacesAmong(ids: readonly ModelId[]): NamespacesOf {
    const byName = new Map<string, Set<string>>();
    const tried = [...this.#registry.records()].filter((record) => record.isTried);
    for (const { namespace, name } of [...ids, ...tried.map((record) => record.id)]) {
      byName.set(name, (byName.get(name) ?? new Set()).add(namespace));
    }
    return (name) => [...(byName.get(name) ?? [])];
  }

  #failedPoll(id: ModelId, error: unknown): InferenceServerError {
    const reason = describeLoadFailure(error);
    this.#logger.error(`failed to poll model '${modelKey(id)}': ${reason}`);
    this.#registry.ensureRecord(id).problem = reason;
    return internal(`failed to load '${id.name}', failed to poll from model repository`, error);
  }
}
