import { notFound } from '../errors.js';
import type { Model } from './model.js';
import { ModelEntry } from './model-entry.js';
import { describeLoadFailure } from './model-loader.js';
import type { ModelRevision } from './model-revision.js';

/** Everything known of one model name. Kept after an unload, as its index rows are. */
export class ModelRecord {
  readonly name: string;
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

  constructor(name: string) {
    this.name = name;
    this.entry = new ModelEntry(name, describeLoadFailure);
  }

  /** Served, loading, failed or unusable: something that its removal would change. */
  get isPresent(): boolean {
    return (
      this.served !== undefined ||
      this.problem !== undefined ||
      this.entry.isServing ||
      this.entry.hasUnreadyVersion
    );
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

/** Name → model, and which version a request reaches. */
export class ModelRegistry {
  readonly #records = new Map<string, ModelRecord>();
  readonly #retiring = new Set<Promise<void>>();

  resolve(name: string, version: string): Model {
    const record = this.#records.get(name);
    if (record === undefined || !(record.entry.isKnown || record.isWithoutVersions)) {
      throw notFound(`Request for unknown model: '${name}' is not found`);
    }
    return record.entry.resolve(version);
  }

  record(name: string): ModelRecord | undefined {
    return this.#records.get(name);
  }

  ensureRecord(name: string): ModelRecord {
    let record = this.#records.get(name);
    if (record === undefined) {
      record = new ModelRecord(name);
      this.#records.set(name, record);
    }
    return record;
  }

  records(): IterableIterator<ModelRecord> {
    return this.#records.values();
  }

  /** In order of names. */
  readyModels(): readonly Model[] {
    const records = [...this.#records.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
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
}
