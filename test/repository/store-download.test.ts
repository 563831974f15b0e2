import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type RepositoryEvents, silentEvents } from '../../src/repository/repository-events.js';
import { StoreDownloads } from '../../src/repository/store-download.js';
import { FakeClock } from '../support/fake-clock.js';
import { MemoryStore, storedObject } from './memory-store.js';
import { ScratchFolder } from './model-files.js';

const contents = 'all of the weights';
const object = storedObject('m/1/model.onnx', contents);

let scratch: ScratchFolder;
let store: MemoryStore;
let clock: FakeClock;
let told: string[];
let downloads: StoreDownloads;

beforeEach(async () => {
  scratch = await ScratchFolder.create();
  store = new MemoryStore({ [object.key]: contents });
  clock = new FakeClock();
  told = [];
  const events: RepositoryEvents = {
    ...silentEvents,
    downloaded: ({ bytes, durationNs }) => told.push(`${bytes} bytes in ${durationNs / 1e6} ms`),
    failed: (operation, error) => told.push(`${operation} failed: ${error.message}`),
  };
  downloads = new StoreDownloads(store, clock, events);
});

afterEach(() => scratch.remove());

function target(): string {
  return join(scratch.path, 'file');
}

function fetchObject(
  signal = new AbortController().signal,
  received: (n: number) => void = () => {},
) {
  return downloads.fetch(object, target(), received, signal);
}

/** Lets waiting for another try pass at once, until the promise has settled. */
async function withoutWaiting<Result>(promise: Promise<Result>): Promise<Result> {
  let isSettled = false;
  const settled = promise.finally(() => {
    isSettled = true;
  });
  settled.catch(() => {});
  while (!isSettled) {
    await new Promise((resolve) => setImmediate(resolve));
    clock.advanceMs(100);
  }
  return settled;
}

function endingAfter(text: string): Readable {
  return Readable.from([Buffer.from(text)]);
}

function breakingAfter(text: string): Readable {
  return Readable.from(
    (async function* () {
      yield Buffer.from(text);
      throw new Error('socket hang up');
    })(),
  );
}

describe('StoreDownloads', () => {
  it('writes the object to a file and tells how much has come', async () => {
    const counts: number[] = [];
    store.nextBodies.push(() =>
      Readable.from([Buffer.from('all of '), Buffer.from('the weights')]),
    );
    store.onGet = () => clock.advanceMs(7);
    await fetchObject(undefined, (bytes) => counts.push(bytes));
    expect(await readFile(target(), 'utf8')).toBe(contents);
    expect(counts).toEqual([7, 18]);
    expect(told).toEqual(['18 bytes in 7 ms']);
  });

  it('writes an empty file for an empty object', async () => {
    const empty = storedObject('m/1/empty', '');
    store.put({ 'm/1/empty': '' });
    await downloads.fetch(empty, target(), () => {}, new AbortController().signal);
    expect(await readFile(target(), 'utf8')).toBe('');
  });

  it('tries again, from the start, where the contents break off', async () => {
    store.nextBodies.push(
      () => breakingAfter('all of the'),
      () => endingAfter('all of'),
      () => endingAfter(`${contents} and more`),
    );
    await withoutWaiting(fetchObject());
    expect(await readFile(target(), 'utf8')).toBe(contents);
    expect(store.takeGets()).toHaveLength(4);
    expect(told).toHaveLength(1);
  });

  it('waits longer before each further try', async () => {
    const triedAtMs: number[] = [];
    const startMs = clock.wallMs();
    store.onGet = () => {
      triedAtMs.push(clock.wallMs() - startMs);
      store.nextBodies.push(() => endingAfter(''));
    };
    await withoutWaiting(fetchObject()).catch(() => {});
    const waits = triedAtMs.slice(1).map((atMs, index) => atMs - (triedAtMs[index] ?? 0));
    // A hundred milliseconds pass at a time, so a try may come that much late.
    [200, 400, 800].forEach((leastMs, index) => {
      expect(waits[index]).toBeGreaterThanOrEqual(leastMs);
    });
  });

  it('gives up after four tries with the last reason', async () => {
    store.onGet = () => {
      store.nextBodies.push(() => breakingAfter('all'));
    };
    await expect(withoutWaiting(fetchObject())).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: "S3 get of 'm/1/model.onnx' broke off 4 times: socket hang up",
    });
    expect(told).toEqual([
      "get failed: S3 get of 'm/1/model.onnx' broke off 4 times: socket hang up",
    ]);
  });

  it('says how many bytes came where they are too few', async () => {
    store.onGet = () => {
      store.nextBodies.push(() => endingAfter('all'));
    };
    await expect(withoutWaiting(fetchObject())).rejects.toMatchObject({
      message: expect.stringContaining('3 of 18 bytes came'),
    });
  });

  it('does not try again where the object is another one by now', async () => {
    store.put({ [object.key]: 'changed' });
    await expect(fetchObject()).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(store.takeGets()).toHaveLength(1);
  });

  it('notices another tag in an answer of a store that ignores conditions', async () => {
    const body = endingAfter(contents);
    const careless = { get: async () => ({ etag: 'other', stream: body }) };
    const others = new StoreDownloads(
      Object.assign(new MemoryStore(), careless),
      clock,
      silentEvents,
    );
    await expect(
      others.fetch(object, target(), () => {}, new AbortController().signal),
    ).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: "'m/1/model.onnx' changed in the store while it was read",
    });
    expect(body.destroyed).toBe(true);
  });

  it('tells a disk that cannot be written from a store that breaks off', async () => {
    const path = join(scratch.path, 'no/such/folder/file');
    await expect(
      downloads.fetch(object, path, () => {}, new AbortController().signal),
    ).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: "failed to write 'm/1/model.onnx' to the disk: ENOENT",
    });
    expect(store.takeGets()).toHaveLength(1);
  });

  it('ends when it is given up, in the middle of contents and between tries', async () => {
    const giveUp = new AbortController();
    const stalled = new Readable({ read() {} });
    store.nextBodies.push(() => stalled);
    const fetched = fetchObject(giveUp.signal);
    await new Promise((resolve) => setImmediate(resolve));
    giveUp.abort();
    await expect(fetched).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(stalled.destroyed).toBe(true);

    const again = new AbortController();
    store.nextBodies.push(() => endingAfter(''));
    const waiting = fetchObject(again.signal);
    while (clock.pendingTimers === 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    again.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(clock.pendingTimers).toBe(0);
    // Giving up is no failure of the store.
    expect(told).toEqual([]);
  });

  it('fetches at most eight objects at a time', async () => {
    const names = Array.from({ length: 20 }, (_, index) => `m/1/${index}`);
    store.put(Object.fromEntries(names.map((name) => [name, name])));
    let running = 0;
    let most = 0;
    store.onGet = async () => {
      running++;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
    };
    const signal = new AbortController().signal;
    await Promise.all(
      names.map((name, index) =>
        downloads.fetch(
          storedObject(name, name),
          join(scratch.path, String(index)),
          () => {},
          signal,
        ),
      ),
    );
    expect(most).toBeLessThanOrEqual(8);
    expect(most).toBeGreaterThan(1);
  });
});
