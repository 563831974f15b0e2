import { parentPort } from 'node:worker_threads';
import { nowNs } from '../clock.js';

/** Nobody writes to it: a wait on it ends with its time. */
const cell = new Int32Array(new SharedArrayBuffer(4));

// Each message is a time in nanoseconds at which it is to be answered.
parentPort?.on('message', (dueNs: number) => {
  const leftNs = dueNs - nowNs();
  if (leftNs > 0) Atomics.wait(cell, 0, 0, leftNs / 1e6);
  parentPort?.postMessage(undefined);
});
