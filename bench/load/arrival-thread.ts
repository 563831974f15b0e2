import { parentPort, workerData } from 'node:worker_threads';
import type { ArrivalOrder, DueArrivals } from './arrival-clock.js';

/** Closer wake-ups than this cost the machine more than they make the arrivals even. */
const shortestSleepMs = 0.25;

function tick({ requestsPerSec, seconds }: ArrivalOrder): void {
  const neverWoken = new Int32Array(new SharedArrayBuffer(4));
  const total = Math.round(requestsPerSec * seconds);
  const startMs = performance.now();
  let from = 0;
  while (from < total) {
    const nextMs = startMs + (from / requestsPerSec) * 1000;
    Atomics.wait(neverWoken, 0, 0, Math.max(nextMs - performance.now(), shortestSleepMs));
    const elapsedSecs = (performance.now() - startMs) / 1000;
    const to = Math.min(total, Math.floor(elapsedSecs * requestsPerSec) + 1);
    if (to === from) continue;
    const due: DueArrivals = { from, to, startMs: performance.timeOrigin + startMs };
    parentPort?.postMessage(due);
    from = to;
  }
}

// workerData is what arrival-clock.ts passes.
tick(workerData as ArrivalOrder);
