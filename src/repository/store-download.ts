import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { Clock } from '../clock.js';
import { cancelled, toInferenceServerError, unavailable } from '../errors.js';
import { errorCode } from './model-folder.js';
import type { ObjectStore, StoredObject } from './object-store.js';
import { ParallelLimit } from './parallel-limit.js';
import type { RepositoryEvents } from './repository-events.js';
import { storeError } from './store-error.js';

/** Objects on their way at the same time: well below the sockets that the SDK opens. */
const parallelDownloads = 8;
/** Tries of one object whose contents broke off; the request itself is tried again by the store. */
const attemptsMax = 4;
/** Doubles from one try to the next. */
const firstWaitNs = 200e6;

/** Streams objects to files, a few at a time, each whole and of the size that was listed. */
export class StoreDownloads {
  readonly #store: ObjectStore;
  readonly #clock: Clock;
  readonly #events: RepositoryEvents;
  readonly #limit = new ParallelLimit(parallelDownloads);

  constructor(store: ObjectStore, clock: Clock, events: RepositoryEvents) {
    this.#store = store;
    this.#clock = clock;
    this.#events = events;
  }

  /**
   * Writes `object` to a new file at `path`. `received` is told the bytes of this try so far, from
   * 0 again with every try. What is left at `path` after a failure is the caller's to remove.
   */
  fetch(
    object: StoredObject,
    path: string,
    received: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    return this.#limit.run(async () => {
      const startNs = this.#clock.nowNs();
      try {
        await this.#fetchWithRetries(object, path, received, signal);
      } catch (error) {
        if (signal.aborted) {
          throw cancelled(`S3 get of '${object.key}' was given up`, error);
        }
        const failure = toInferenceServerError(
          error,
          `failed to write '${object.key}' to the disk`,
        );
        this.#events.failed('get', failure);
        throw failure;
      }
      this.#events.downloaded({
        bytes: object.bytes,
        durationNs: this.#clock.nowNs() - startNs,
      });
    });
  }

  async #fetchWithRetries(
    object: StoredObject,
    path: string,
    received: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    let reason = '';
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      if (attempt > 0) {
        await this.#wait(firstWaitNs * 2 ** (attempt - 1), signal);
      }
      const outcome = await this.#fetchOnce(object, path, received, signal);
      if (outcome.kind === 'whole') {
        return;
      }
      reason = outcome.reason;
    }
    throw storeError(
      'unreachable',
      `S3 get of '${object.key}' broke off ${attemptsMax} times: ${reason}`,
    );
  }

  async #fetchOnce(
    object: StoredObject,
    path: string,
    received: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<FetchOutcome> {
    const body = await this.#store.get(object, signal);
    if (body.etag !== '' && object.etag !== '' && body.etag !== object.etag) {
      body.stream.destroy();
      throw storeError('changed', `'${object.key}' changed in the store while it was read`);
    }
    const file = createWriteStream(path);
    let diskError: Error | undefined;
    file.once('error', (error) => {
      diskError = error;
    });
    let bytes = 0;
    // An async generator between the two keeps the disk's pace: nothing is read ahead of it.
    const count = async function* (chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        if (bytes > object.bytes) {
          throw new Error(`more than the ${object.bytes} bytes that were listed`);
        }
        received(bytes);
        yield chunk;
      }
    };
    try {
      await pipeline(body.stream, count, file, { signal });
    } catch (error) {
      if (signal.aborted) {
        throw error;
      }
      if (diskError !== undefined && diskError === error) {
        const code = errorCode(error);
        throw unavailable(`failed to write '${object.key}' to the disk: ${code}`, error);
      }
      const message = error instanceof Error ? error.message : String(error);
      return { kind: 'broken', reason: message };
    }
    return bytes === object.bytes
      ? { kind: 'whole' }
      : { kind: 'broken', reason: `${bytes} of ${object.bytes} bytes came` };
  }

  #wait(delayNs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.setTimer(delayNs, () => {
        signal.removeEventListener('abort', abort);
        resolve();
      });
      const abort = (): void => {
        cancel();
        reject(cancelled('the repository is closing'));
      };
      signal.addEventListener('abort', abort, { once: true });
    });
  }
}

type FetchOutcome =
  | { readonly kind: 'whole' }
  /** The contents ended early or differ in size; another try may help. */
  | { readonly kind: 'broken'; readonly reason: string };
