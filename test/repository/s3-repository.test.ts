import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.js';
import type { ModelListing } from '../../src/repository/model-repository.js';
import { silentEvents } from '../../src/repository/repository-events.js';
import { parseS3Location } from '../../src/repository/s3-location.js';
import { S3Repository } from '../../src/repository/s3-repository.js';
import { storeError } from '../../src/repository/store-error.js';
import { MemoryStore } from './memory-store.js';
import { ScratchFolder } from './model-files.js';

const models = {
  'p/a/config.pbtxt': 'a',
  'p/a/configs/h100.pbtxt': 'h100',
  'p/a/labels.txt': 'labels',
  'p/a/1/model.onnx': 'one',
  'p/a/2/model.onnx': 'two',
  'p/b/1/model.py': 'b',
};

let scratch: ScratchFolder;
let store: MemoryStore;
let warnings: string[];
let failures: string[];
const opened: S3Repository[] = [];

beforeEach(async () => {
  scratch = await ScratchFolder.create();
  store = new MemoryStore(models);
});

afterEach(async () => {
  await Promise.all(opened.splice(0).map((repository) => repository.close()));
  await scratch.remove();
});

async function open(cacheDirectory: string | undefined = scratch.path): Promise<S3Repository> {
  warnings = [];
  failures = [];
  const repository = await S3Repository.open(parseS3Location('s3://bucket/p'), store, {
    clock: systemClock,
    events: {
      ...silentEvents,
      warned: (message) => warnings.push(message),
      failed: (operation, error) => failures.push(`${operation}: ${error.message}`),
    },
    cacheDirectory,
  });
  opened.push(repository);
  return repository;
}

async function listed(repository: S3Repository, name = 'a'): Promise<ModelListing> {
  const listing = (await repository.scan()).get(name);
  if (listing === undefined) {
    throw new Error(`${name} is listed`);
  }
  return listing;
}

describe('S3Repository.scan', () => {
  it('asks only for a listing and gives the same answer where nothing changed', async () => {
    const repository = await open();
    const first = await repository.scan();
    expect([...first.keys()]).toEqual(['a', 'b']);
    expect(await repository.scan()).toBe(first);
    expect(store.asked).toEqual(['list p/', 'list p/']);
  });

  it('warns once of each key that it cannot use', async () => {
    store.put({ 'p/a/../x': 'x' });
    const repository = await open();
    await repository.scan();
    store.put({ 'p/a/..': 'x', 'p/a/new': 'x' });
    await repository.scan();
    expect(warnings).toEqual([
      "s3://bucket/p: ignore object 'p/a/../x', whose key cannot be the path of a file",
      "s3://bucket/p: ignore object 'p/a/..', whose key cannot be the path of a file",
    ]);
  });

  it('reports a store that fails, and does not fall back to the cache once it has answered', async () => {
    const repository = await open();
    await repository.scan();
    store.isDown = true;
    await expect(repository.scan()).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    await expect(repository.look('a')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(failures).toEqual(['list: the store is down', 'list: the store is down']);
  });

  it('has nothing to serve from an empty cache', async () => {
    store.isDown = true;
    const repository = await open();
    await expect(repository.scan()).rejects.toMatchObject({ message: 'the store is down' });
  });

  it('does not serve from the cache what the store refuses', async () => {
    const first = await open();
    await (await first.localize(await listed(first), ['2'])).release();
    await first.close();
    store.list = async () => {
      throw storeError('refused', 'access denied');
    };
    const second = await open();
    await expect(second.scan()).rejects.toMatchObject({ message: 'access denied' });
  });

  it('serves from the cache what it has whole', async () => {
    const first = await open();
    await (await first.localize(await listed(first), ['2'])).release();
    await first.readConfig(await listed(first), '');
    await first.close();
    store.isDown = true;
    const second = await open();
    const scan = await second.scan();
    expect([...scan].map(([name, { versions }]) => [name, [...versions.keys()]])).toEqual([
      ['a', ['2']],
    ]);
    const { versions } = (await second.look('a')) ?? { versions: new Map() };
    expect([...versions.keys()]).toEqual(['2']);
    expect(await second.look('b')).toBeUndefined();
    expect(warnings[0]).toBe(
      's3://bucket/p: serving 1 models from the cache, because the store does not answer: the store is down',
    );
  });

  it('tells of a misplaced location only while nothing was served from it', async () => {
    const repository = await open();
    await repository.scan();
    store.remove('p/');
    store.put({ 'p/config.pbtxt': 'x', 'p/1/model.onnx': 'x' });
    expect([...(await repository.scan()).keys()]).toEqual(['1']);
    const misplaced = await open(undefined);
    await expect(misplaced.scan()).rejects.toMatchObject({ code: 'INVALID_ARG' });
  });
});

describe('S3Repository.look', () => {
  it('asks for one model alone', async () => {
    const repository = await open();
    expect([...((await repository.look('a'))?.versions.keys() ?? [])]).toEqual(['1', '2']);
    expect(store.asked).toEqual(['list p/a/']);
    expect(await repository.look('nope')).toBeUndefined();
  });

  it.each(['', '..', 'a/1', '.hidden'])('does not ask for %j', async (name) => {
    const repository = await open();
    expect(await repository.look(name)).toBeUndefined();
    expect(store.asked).toEqual([]);
  });
});

describe('S3Repository.localize', () => {
  it('fetches what the versions need, and nothing that is here already', async () => {
    const repository = await open();
    const listing = await listed(repository);
    const first = await repository.localize(listing, ['2']);
    expect(store.takeGets()).toEqual([
      'p/a/2/model.onnx',
      'p/a/config.pbtxt',
      'p/a/configs/h100.pbtxt',
      'p/a/labels.txt',
    ]);
    expect((await readdir(first.directory)).sort()).toEqual([
      '2',
      'config.pbtxt',
      'configs',
      'labels.txt',
    ]);
    const both = await repository.localize(listing, ['1', '2']);
    expect(store.takeGets()).toEqual(['p/a/1/model.onnx']);
    await first.release();
    await both.release();
  });

  it('shares a copy among its holders until the last one has released it', async () => {
    const repository = await open();
    const listing = await listed(repository);
    const [first, second] = await Promise.all([
      repository.localize(listing, ['2']),
      repository.localize(listing, ['2']),
    ]);
    expect(first.directory).toBe(second.directory);
    await first.release();
    await first.release();
    expect(await readFile(join(second.directory, '2/model.onnx'), 'utf8')).toBe('two');
    await second.release();
    await expect(stat(second.directory)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('fails where the model changed since it was listed', async () => {
    const repository = await open();
    const listing = await listed(repository);
    store.onGet = (key) => {
      if (key === 'p/a/2/model.onnx') {
        store.put({ 'p/a/labels.txt': 'of another state' });
      }
    };
    await expect(repository.localize(listing, ['2'])).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    });
    store.onGet = () => {};
    const model = await repository.localize(await listed(repository), ['2']);
    expect(await readFile(join(model.directory, 'labels.txt'), 'utf8')).toBe('of another state');
    await model.release();
  });

  it('fails where a file came while the others were fetched', async () => {
    const repository = await open();
    const listing = await listed(repository);
    store.onGet = () => store.put({ 'p/a/2/weights.bin': 'new' });
    await expect(repository.localize(listing, ['2'])).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: "model 'a' changed in the store while it was read; try again",
    });
  });

  it('does not mind a new version beside those that it copies', async () => {
    const repository = await open();
    const listing = await listed(repository);
    store.onGet = () => store.put({ 'p/a/3/model.onnx': 'three' });
    const model = await repository.localize(listing, ['2']);
    expect(await readdir(join(model.directory))).not.toContain('3');
    await model.release();
  });

  it('needs no store for what the cache holds', async () => {
    const repository = await open();
    const listing = await listed(repository);
    await (await repository.localize(listing, ['2'])).release();
    store.isDown = true;
    const model = await repository.localize(listing, ['2']);
    expect(await readFile(join(model.directory, '2/model.onnx'), 'utf8')).toBe('two');
    await model.release();
  });

  it('keeps cached objects of the latest copy and drops those of older ones', async () => {
    const repository = await open();
    const old = await repository.localize(await listed(repository), ['2']);
    store.put({ 'p/a/2/model.onnx': 'two again' });
    const current = await repository.localize(await listed(repository), ['2']);
    await old.release();
    await current.release();
    store.takeGets();
    await (await repository.localize(await listed(repository), ['2'])).release();
    expect(store.takeGets()).toEqual([]);
    store.put({ 'p/a/2/model.onnx': 'two' });
    await (await repository.localize(await listed(repository), ['2'])).release();
    expect(store.takeGets()).toEqual(['p/a/2/model.onnx']);
  });

  it('gives up the other downloads of a model when one fails', async () => {
    const repository = await open();
    const listing = await listed(repository);
    const stalled = new Readable({ read() {} });
    store.nextBodies.push(() => stalled);
    store.onGet = (key) => {
      if (key === 'p/a/labels.txt') {
        throw storeError('refused', 'access denied');
      }
    };
    await expect(repository.localize(listing, ['2'])).rejects.toMatchObject({
      message: 'access denied',
    });
    expect(stalled.destroyed).toBe(true);
  });

  it('finds the files of a listing that it did not hand out itself', async () => {
    const repository = await open();
    const copied = { ...(await listed(repository)) };
    const model = await repository.localize(copied, ['1']);
    expect(await readFile(join(model.directory, '1/model.onnx'), 'utf8')).toBe('one');
    await model.release();
    await expect(
      repository.localize({ ...copied, restFingerprint: 'other' }, ['1']),
    ).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('says why a copy cannot be written', async () => {
    const name = 'x'.repeat(300);
    store.put({ [`p/${name}/1/model.onnx`]: 'x' });
    const repository = await open();
    await expect(repository.localize(await listed(repository, name), ['1'])).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: `model '${name}': failed to write its copy: ENAMETOOLONG`,
    });
  });
});

describe('S3Repository.versionFiles', () => {
  it('knows the names in a version without fetching them', async () => {
    store.put({ 'p/a/2/variables/v.bin': 'x', 'p/a/2/variables/w.bin': 'x' });
    const repository = await open();
    const listing = await listed(repository);
    expect(await repository.versionFiles(listing, '2')).toEqual(['model.onnx', 'variables']);
    expect(await repository.versionFiles(listing, '3')).toEqual([]);
    expect(store.takeGets()).toEqual([]);
  });
});

describe('S3Repository.readConfig', () => {
  it('fetches one configuration, once', async () => {
    const repository = await open();
    const listing = await listed(repository);
    expect(await repository.readConfig(listing, 'h100')).toEqual({
      fileName: 'configs/h100.pbtxt',
      text: 'h100',
    });
    expect(await repository.readConfig(listing, 'other')).toEqual({
      fileName: 'config.pbtxt',
      text: 'a',
    });
    expect(store.takeGets()).toEqual(['p/a/config.pbtxt', 'p/a/configs/h100.pbtxt']);
    await repository.readConfig(listing, '');
    expect(store.takeGets()).toEqual([]);
    expect(await repository.readConfig(await listed(repository, 'b'), '')).toBeUndefined();
  });

  it('refuses a configuration over 4 MiB without fetching it', async () => {
    store.put({ 'p/a/config.pbtxt': '#'.repeat(4 * 1024 * 1024 + 1) });
    const repository = await open();
    await expect(repository.readConfig(await listed(repository), '')).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: "model 'a': config.pbtxt has 4194305 bytes, allowed are 4194304",
    });
    expect(store.takeGets()).toEqual([]);
  });
});

describe('S3Repository.close', () => {
  it('gives up what is on its way and ends the connection', async () => {
    const repository = await open();
    const listing = await listed(repository);
    store.nextBodies.push(() => new Readable({ read() {} }));
    const localizing = repository.localize(listing, ['2']);
    localizing.catch(() => {});
    while (store.takeGets().length === 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    await repository.close();
    await expect(localizing).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(store.isDestroyed).toBe(true);
  });
});
