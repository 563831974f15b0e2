import { Worker } from 'node:worker_threads';
import { nowNs } from '../clock.js';
import type { Pacer } from './open-loop.js';

/** Sleeps shorter than this are not worth a wake-up: all that is due meanwhile goes out at once. */
const sleepNsMin = 100_000;

/**
 * Wakes through a thread that sleeps in `Atomics.wait`, to a tenth of a millisecond. Timers of
 * Node.js are a millisecond coarse, which would count as latency, and to spin instead would take a
 * core from a server on the same machine.
 */
export class ThreadPacer implements Pacer {
  readonly #thread: Worker;
  #callback: (() => void) | undefined;

  constructor() {
    this.#thread = new Worker(new URL('./pacing-thread.js', import.meta.url));
    this.#thread.on('message', () => {
      const callback = this.#callback;
      this.#callback = undefined;
      callback?.();
    });
  }

  wakeAt(dueNs: number, callback: () => void): void {
    this.#callback = callback;
    this.#thread.postMessage(Math.max(dueNs, nowNs() + sleepNsMin));
  }

  async close(): Promise<void> {
    this.#callback = undefined;
    await this.#thread.terminate();
  }
}
