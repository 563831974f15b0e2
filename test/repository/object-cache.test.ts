import { mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ObjectCache } from '../../src/repository/object-cache.js';
import { storedObject } from './memory-store.js';
import { ScratchFolder } from './model-files.js';

const object = storedObject('m/1/model.onnx', 'weights');

let scratch: ScratchFolder;
let cache: ObjectCache;

beforeEach(async () => {
  scratch = await ScratchFolder.create();
  cache = await ObjectCache.open(scratch.path);
});

afterEach(async () => {
  await cache.close();
  await scratch.remove();
});

function writing(text: string): (path: string) => Promise<void> {
  return (path) => writeFile(path, text);
}

async function never(): Promise<void> {
  throw new Error('not to be fetched');
}

describe('ObjectCache', () => {
  it('fetches an object once', async () => {
    expect(await cache.has('m', object)).toBe(false);
    await cache.ensure('m', object, writing('weights'));
    expect(await cache.has('m', object)).toBe(true);
    expect(await readFile(cache.pathOf('m', object), 'utf8')).toBe('weights');
    await cache.ensure('m', object, never);
  });

  it('lets those who ask at the same time share one download', async () => {
    let fetched = 0;
    const download = async (path: string): Promise<void> => {
      fetched++;
      await writing('weights')(path);
    };
    await Promise.all([1, 2, 3].map(() => cache.ensure('m', object, download)));
    expect(fetched).toBe(1);
  });

  it('lets the next one try where a download fails, and leaves nothing behind', async () => {
    const failing = cache.ensure('m', object, async (path) => {
      await writing('half')(path);
      throw new Error('broke off');
    });
    const waiting = cache.ensure('m', object, writing('weights'));
    await expect(failing).rejects.toThrow('broke off');
    await waiting;
    const [folder = ''] = await readdir(join(scratch.path, 'objects'));
    expect(await readdir(join(scratch.path, 'objects', folder))).toHaveLength(1);
  });

  it.each([
    ['of another tag', { etag: 'other' }],
    ['of another key', { key: 'm/2/model.onnx' }],
    ['of another size', { bytes: 8 }],
    ['without a tag', { etag: '' }],
  ])('keeps an object %s apart', async (_name, change) => {
    await cache.ensure('m', object, writing('weights'));
    expect(await cache.has('m', { ...object, ...change })).toBe(false);
    expect(await cache.has('other', object)).toBe(false);
  });

  it('takes the time for the tag only where there is none', async () => {
    await cache.ensure('m', object, writing('weights'));
    expect(await cache.has('m', { ...object, modifiedMs: 5 })).toBe(true);
    const untagged = { ...object, etag: '' };
    await cache.ensure('m', untagged, writing('weights'));
    expect(await cache.has('m', { ...untagged, modifiedMs: 5 })).toBe(false);
  });

  it('does not trust a file that was cut off or written to', async () => {
    await cache.ensure('m', object, writing('weights'));
    await writeFile(cache.pathOf('m', object), 'weight');
    expect(await cache.has('m', object)).toBe(false);
    await writeFile(cache.pathOf('m', object), 'wEights');
    expect(await cache.has('m', object)).toBe(false);
  });

  it('assembles a folder with files in folders, and with empty ones', async () => {
    await cache.ensure('m', object, writing('weights'));
    const files = [
      { path: '1/a/model.onnx', object },
      { path: 'same.onnx', object },
    ];
    const copy = await cache.assemble('m', files, ['1', '2']);
    expect(copy.directory.endsWith('/m')).toBe(true);
    expect((await readdir(copy.directory)).sort()).toEqual(['1', '2', 'same.onnx']);
    expect(await readFile(join(copy.directory, '1/a/model.onnx'), 'utf8')).toBe('weights');
    await copy.remove();
    await expect(stat(copy.directory)).rejects.toMatchObject({ code: 'ENOENT' });
    expect(await cache.has('m', object)).toBe(true);
  });

  it('leaves no half folder where a file is missing', async () => {
    await expect(cache.assemble('m', [{ path: 'x', object }], [])).rejects.toMatchObject({
      code: 'ENOENT',
    });
    const [owner = ''] = await readdir(join(scratch.path, 'copies'));
    expect(await readdir(join(scratch.path, 'copies', owner))).toEqual([]);
  });

  it('prunes objects of one model, and models as a whole', async () => {
    const other = storedObject('m/2/model.onnx', 'weights');
    for (const model of ['m', 'n']) {
      await cache.ensure(model, object, writing('weights'));
      await cache.ensure(model, other, writing('weights'));
    }
    await cache.prune('m', [other]);
    expect(await cache.has('m', object)).toBe(false);
    expect(await cache.has('m', other)).toBe(true);
    expect(await cache.has('n', object)).toBe(true);
    await cache.pruneModels(['m']);
    expect(await cache.has('m', other)).toBe(true);
    expect(await cache.has('n', object)).toBe(false);
    await cache.prune('never cached', []);
  });

  it('keeps objects and the listing for the next start, but no copies', async () => {
    await cache.ensure('m', object, writing('weights'));
    await cache.assemble('m', [{ path: 'x', object }], []);
    await cache.writeListing([object]);
    await cache.close();
    expect(await readdir(join(scratch.path, 'copies'))).toEqual([]);
    const next = await ObjectCache.open(scratch.path);
    expect(await next.has('m', object)).toBe(true);
    expect(await next.readListing()).toEqual([object]);
    await next.close();
  });

  it.each([
    ['none', undefined],
    ['no JSON', '{"format":1,"obj'],
    ['another format', '{"format":2,"objects":[]}'],
    ['no objects', '{"format":1}'],
    ['an object without a key', '{"format":1,"objects":[{"bytes":1,"etag":"","modifiedMs":0}]}'],
    ['null', 'null'],
  ])('has no listing where the file is %s', async (_name, text) => {
    if (text !== undefined) {
      await writeFile(join(scratch.path, 'listing.json'), text);
    }
    expect(await cache.readListing()).toBeUndefined();
  });

  const host = hostname();
  const tooLong = '4194305';
  const recent = 0;
  const old = 25 * 60 * 60 * 1000;
  it.each([
    ['a process that has ended', `${host}.${tooLong}.1.ab`, recent, false],
    ['an earlier process of the same number', `${host}.${process.pid}.1.ab`, recent, false],
    ['a running process', `${host}.${process.ppid}.1.ab`, old, true],
    ['another host that was there lately', 'other.host.1.1.ab', recent, true],
    ['another host that is long gone', 'other.host.1.1.ab', old, false],
  ])('cleans up after %s or leaves it alone', async (_name, owner, ageMs, isKept) => {
    await cache.ensure('m', object, writing('weights'));
    const copies = join(scratch.path, 'copies', owner);
    const partial = `${cache.pathOf('m', object)}.${owner}.partial`;
    await mkdir(join(copies, '0'), { recursive: true });
    await writeFile(partial, 'half');
    const time = new Date(Date.now() - ageMs);
    await utimes(copies, time, time);
    await utimes(partial, time, time);
    const next = await ObjectCache.open(scratch.path);
    const isThere = (path: string): Promise<boolean> =>
      stat(path).then(
        () => true,
        () => false,
      );
    expect([await isThere(copies), await isThere(partial)]).toEqual([isKept, isKept]);
    expect(await next.has('m', object)).toBe(true);
    await next.close();
  });

  it('removes a temporary cache as a whole', async () => {
    const temporary = await ObjectCache.openTemporary();
    await temporary.ensure('m', object, writing('weights'));
    const path = temporary.pathOf('m', object);
    await temporary.close();
    await expect(stat(join(path, '../../..'))).rejects.toMatchObject({ code: 'ENOENT' });
  });
});
