import { internal } from '../../src/errors.js';
import type { Tensor } from '../../src/inference/tensor.js';
import type { PendingRequest } from '../../src/scheduling/pending-request.js';
import type { BatchExecutor } from '../../src/scheduling/scheduler.js';

/** Instances that run until a test ends them. */
export class FakeExecutor implements BatchExecutor {
  /** Every batch that was handed over, in order. */
  readonly batches: (readonly PendingRequest[])[] = [];
  /** Called for each batch as it starts. */
  onBatch: (batch: readonly PendingRequest[]) => void = () => {};
  /** A test may change it. */
  bundleSizeMax = 1;
  readonly #running = new Map<number, readonly PendingRequest[]>();
  readonly #instances: number;
  readonly #aheadRowsMin: number;
  #listener: () => void = () => {};
  #returnedListener: (requests: readonly PendingRequest[]) => void = () => {};

  /** `aheadRowsMin`: what one batch behind those that run must have. */
  constructor(instances = 1, aheadRowsMin = Number.POSITIVE_INFINITY) {
    this.#instances = instances;
    this.#aheadRowsMin = aheadRowsMin;
  }

  get idleInstances(): number {
    return Math.max(0, this.#instances - this.#running.size);
  }

  get aheadRowsMin(): number {
    return this.#running.size === this.#instances ? this.#aheadRowsMin : Number.POSITIVE_INFINITY;
  }

  get runningBatches(): readonly number[] {
    return [...this.#running.keys()];
  }

  execute(batch: readonly PendingRequest[]): void {
    const isAhead = this.aheadRowsMin !== Number.POSITIVE_INFINITY;
    if (this.idleInstances <= 0 && !isAhead) throw internal('execute without an idle instance');
    if (batch.length === 0) throw internal('execute of an empty batch');
    this.#running.set(this.batches.length, batch);
    this.batches.push(batch);
    this.onBatch(batch);
  }

  onIdle(listener: () => void): void {
    this.#listener = listener;
  }

  onReturned(listener: (requests: readonly PendingRequest[]) => void): void {
    this.#returnedListener = listener;
  }

  /** Gives requests of the batch with this index back; the others are answered. */
  giveBack(index: number, from = 0): void {
    const batch = this.#take(index);
    for (const pending of batch.slice(0, from)) pending.complete();
    this.#returnedListener(batch.slice(from));
    this.#listener();
  }

  /** Answers the batch with this index; `outputsOf` gives each request's outputs. */
  complete(
    index: number,
    outputsOf: (pending: PendingRequest) => readonly Tensor[] = () => [],
  ): void {
    for (const pending of this.#take(index)) {
      pending.respond({
        modelName: pending.request.modelName,
        modelVersion: '1',
        id: pending.request.id,
        parameters: new Map(),
        outputs: outputsOf(pending),
      });
      pending.complete();
    }
    this.#listener();
  }

  /** Fails the batch with this index, as an instance that died would. */
  fail(index: number, message = 'instance failed'): void {
    for (const pending of this.#take(index)) pending.fail(internal(message), 'BACKEND');
    this.#listener();
  }

  /** Hands the requests of the batch back to be run once more. */
  reschedule(index: number): void {
    for (const pending of this.#take(index)) pending.reschedule();
    this.#listener();
  }

  #take(index: number): readonly PendingRequest[] {
    const batch = this.#running.get(index);
    if (batch === undefined) throw internal(`batch ${index} is not running`);
    this.#running.delete(index);
    return batch;
  }
}
