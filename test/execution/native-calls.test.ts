import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { enterNativeCall, leaveNativeCall, NativeCalls } from '../../src/execution/native-calls.js';

it('waits for nobody where nobody is in native code', () => {
  const calls = new NativeCalls();
  const flag = calls.newFlag();
  enterNativeCall(flag);
  leaveNativeCall(flag);
  calls.wait(60_000);
  expect(flag[0]).toBe(0);
});

it('waits until another thread has left native code', async () => {
  const calls = new NativeCalls();
  const flag = calls.newFlag();
  enterNativeCall(flag);
  const leave = `
    const { workerData: flag } = require('node:worker_threads');
    Atomics.store(flag, 0, 0);
    Atomics.notify(flag, 0);
  `;
  const worker = new Worker(leave, { eval: true, workerData: flag });
  await new Promise((resolve) => worker.once('online', resolve));
  calls.wait(60_000);
  expect(Atomics.load(flag, 0)).toBe(0);
  await worker.terminate();
});

it('gives up after the time it is given, and forgets threads that have ended', () => {
  const calls = new NativeCalls();
  const flag = calls.newFlag();
  enterNativeCall(flag);
  calls.wait(1);
  expect(flag[0]).toBe(1);
  calls.forget(flag);
  calls.wait(60_000);
});
