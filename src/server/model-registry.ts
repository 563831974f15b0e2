import { invalidArg, notFound } from '../errors.js';
import { type ModelId, modelKey } from '../inference/model-key.js';
import type { Model } from './model.js';
import { ModelEntry } from './model-entry.js';
import { describeLoadFailure } from './model-loader.js';
import type { ModelRevision } from './model-revision.js';

/** Everything known of one model. Kept after an unload, as its index rows are. */
export class ModelRecord {
  readonly id: ModelId;
  readonly key: string;
  readonly entry: ModelEntry<Model>;
  /** What the loaded versions were made from. */
  served: ModelRevision | undefined = undefined;
  /** Why its files could not be read or its ensemble not be formed, as of the last try. */
  problem: string | undefined = undefined;
  /** What a poll's load under way works towards. */
  attempted: ModelRevision | undefined = undefined;
  /** Read without fault, with no version that its policy serves. */
  isWithoutVersions = false;
  /** Asked for by name or by the mode, not only as a step of an ensemble. */
  isWanted = false;
  #lastOperation: Promise<void> = Promise.resolve();

  constructor(id: ModelId) {
    this.id = id;
    this.key = modelKey(id);
    this.entry = new ModelEntry(id.name, describeLoadFailure);
  }

  /** Served, loading, failed or unusable: something that its removal would change. */
  get isPresent(): boolean {
    return this.problem !== undefined || this.isTried;
  }

  /** Served, loading or failed: its files could be read. */
  get isTried(): boolean {
    return this.served !== undefined || this.entry.isServing || this.entry.hasUnreadyVersion;
  }

  /** Runs `operation` after all earlier ones on this model, whatever became of them. */
  serialize(operation: () => Promise<void>): Promise<void> {
    const result = this.#lastOperation.then(operation);
    this.#lastOperation = result.catch(() => {
      // The caller of this operation gets the failure; the next operation starts regardless.
    });
    return result;
  }
}

/** Which model, and which version of it, a request reaches. */
export class ModelRegistry {
  /** By their keys. */
  readonly #records = new Map<string, ModelRecord>();
  /** Those in a namespace, by their names. */
  readonly #namespaced = new Map<string, ModelRecord[]>();
  readonly #retiring = new Set<Promise<void>>();

  /**
   * `name`: as a client gives it, or a model's key. INVALID_ARG where several repositories have a
   * model of that name, NOT_FOUND where none has.
   */
  resolve(name: string, version: string): Model {
    const record = this.lookUp(name);
    if (record === undefined || !(record.entry.isKnown || record.isWithoutVersions)) {
      throw notFound(`Request for unknown model: '${name}' is not found`);
    }
    return record.entry.resolve(version);
  }

  /** The one that `resolve` takes its versions from; undefined where there is none. */
  lookUp(name: string): ModelRecord | undefined {
    return this.#namespaced.size === 0 ? this.#records.get(name) : this.#onlyOneNamed(name);
  }

  record(key: string): ModelRecord | undefined {
    return this.#records.get(key);
  }

  /** Without namespacing at most one. */
  recordsNamed(name: string): readonly ModelRecord[] {
    const record = this.#records.get(name);
    const namespaced = this.#namespaced.get(name) ?? [];
    return record === undefined ? namespaced : [record, ...namespaced];
  }

  ensureRecord(id: ModelId): ModelRecord {
    const present = this.#records.get(modelKey(id));
    if (present !== undefined) return present;
    const record = new ModelRecord(id);
    this.#records.set(record.key, record);
    if (id.namespace !== '') {
      this.#namespaced.set(id.name, [...(this.#namespaced.get(id.name) ?? []), record]);
    }
    return record;
  }

  records(): IterableIterator<ModelRecord> {
    return this.#records.values();
  }

  /** In order of names. */
  readyModels(): readonly Model[] {
    const records = [...this.#records.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
    return records.flatMap((record) => record.entry.readyVersions());
  }

  /** Remembers a retirement under way, so that a shutdown waits for it. */
  track(retirement: Promise<void>): void {
    this.#retiring.add(retirement);
    void retirement.finally(() => this.#retiring.delete(retirement));
  }

  async settleRetirements(): Promise<void> {
    await Promise.all(this.#retiring);
  }

  #onlyOneNamed(name: string): ModelRecord | undefined {
    const exact = this.#records.get(name);
    if (exact !== undefined && exact.id.namespace !== '') return exact;
    const records = this.recordsNamed(name);
    const tried = records.filter((record) => record.isTried);
    if (tried.length > 1) {
      throw invalidArg(
        `There are ${tried.length} identifiers of model '${name}' in global map, model namespace must be provided to resolve ambiguity.`,
      );
    }
    return tried[0] ?? records[0];
  }
}
