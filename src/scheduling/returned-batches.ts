import { cancelled, type InferenceServerError } from '../errors.js';
import type { PendingRequest } from './pending-request.js';

/**
 * Batches that an executor took and gave back before they ran, because the instance that they waited
 * in was lost or had no time. They are first when an instance is idle. There are at most as many as
 * instances.
 */
export class ReturnedBatches {
  #batches: (readonly PendingRequest[])[] = [];

  get requests(): number {
    let requests = 0;
    for (const batch of this.#batches) requests += batch.length;
    return requests;
  }

  give(batch: readonly PendingRequest[]): void {
    this.#batches.push(batch);
  }

  /** The oldest one, less what was cancelled meanwhile; undefined where there is none. */
  take(): readonly PendingRequest[] | undefined {
    for (let batch = this.#batches.shift(); batch !== undefined; batch = this.#batches.shift()) {
      const wanted = batch.filter(({ isCancelled }) => !isCancelled);
      for (const pending of batch) {
        if (pending.isCancelled) pending.fail(cancelled('request was cancelled'), 'CANCELED');
      }
      if (wanted.length > 0) return wanted;
    }
    return undefined;
  }

  failAll(error: InferenceServerError): void {
    const batches = this.#batches;
    this.#batches = [];
    for (const pending of batches.flat()) pending.fail(error, 'OTHER');
  }
}
