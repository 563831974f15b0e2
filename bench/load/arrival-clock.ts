import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** Arrivals that are due: numbers `from` up to, not including, `to`. */
export interface DueArrivals {
  readonly from: number;
  readonly to: number;
  /** When number 0 was due, in the time of `nowMs`. */
  readonly startMs: number;
}

/** Says when requests are due. */
export interface ArrivalClock {
  nowMs(): number;
  /** Resolves behind the last arrival. Waits for nothing that `onDue` causes. */
  run(
    requestsPerSec: number,
    seconds: number,
    onDue: (arrivals: DueArrivals) => void,
  ): Promise<void>;
}

/** What the clock's thread is started with. */
export interface ArrivalOrder {
  readonly requestsPerSec: number;
  readonly seconds: number;
}

/**
 * A clock in a thread of its own (bench/load/arrival-thread.ts): timers of an event loop come a
 * millisecond late, while that thread's sleep is exact to about a tenth of one.
 */
export const threadClock: ArrivalClock = {
  // Threads count from moments of their own; the sum is the same in all of them.
  nowMs: () => performance.timeOrigin + performance.now(),
  async run(requestsPerSec, seconds, onDue) {
    const order: ArrivalOrder = { requestsPerSec, seconds };
    const thread = new Worker(new URL('./arrival-thread.js', import.meta.url), {
      workerData: order,
    });
    thread.on('message', onDue);
    await once(thread, 'exit');
  },
};
