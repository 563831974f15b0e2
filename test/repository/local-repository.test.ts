import { link, mkdir, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.js';
import { diffScans } from '../../src/repository/diff.js';
import { isSameListing } from '../../src/repository/fingerprint.js';
import { LocalRepository } from '../../src/repository/local-repository.js';
import type { ModelListing } from '../../src/repository/model-repository.js';
import { silentEvents } from '../../src/repository/repository-events.js';
import { type FileTree, ScratchFolder } from './model-files.js';

const addSub: FileTree = {
  'add_sub/config.pbtxt': 'backend: "onnxruntime"',
  'add_sub/labels.txt': 'a\nb\n',
  'add_sub/1/model.onnx': 'one',
};

let folder: ScratchFolder;
let repository: LocalRepository;
let warnings: string[];

beforeEach(async () => {
  folder = await ScratchFolder.create(addSub);
  warnings = [];
  repository = await open(folder.path);
});

afterEach(async () => {
  await repository.close();
  await folder.remove();
});

function open(path: string): Promise<LocalRepository> {
  return LocalRepository.open(path, {
    clock: systemClock,
    events: { ...silentEvents, warned: (message) => warnings.push(message) },
    watchMode: 'off',
  });
}

function inFolder(path: string): string {
  return join(folder.path, path);
}

async function lookAtAddSub(): Promise<ModelListing> {
  const listing = await repository.look('add_sub');
  if (listing === undefined) {
    throw new Error('add_sub is there');
  }
  return listing;
}

/** Which parts of add_sub differ after `change`, by names as in a diff. */
async function partsChangedBy(change: () => Promise<void>): Promise<readonly string[]> {
  const before = await repository.scan();
  await change();
  const { added, changed, removed } = diffScans(before, await repository.scan());
  return [
    ...added.map(({ name }) => `added ${name}`),
    ...removed.map((name) => `removed ${name}`),
    ...changed.flatMap((each) => [
      ...(each.isConfigChanged ? ['config'] : []),
      ...(each.isVersionsChanged ? ['versions'] : []),
      ...(each.isRestChanged ? ['rest'] : []),
    ]),
  ];
}

describe('LocalRepository.open', () => {
  it('refuses a location that does not exist', async () => {
    await expect(open(inFolder('nowhere'))).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: `failed to open model repository '${inFolder('nowhere')}': there is no such folder`,
    });
  });

  it('refuses a location that is a file', async () => {
    await expect(open(inFolder('add_sub/labels.txt'))).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: `model repository '${inFolder('add_sub/labels.txt')}' is not a directory`,
    });
  });
});

describe('LocalRepository.scan', () => {
  it('lists models with their versions and leaves out what is no model', async () => {
    await folder.write({
      'README.md': 'a file beside the models',
      '.git/HEAD': 'hidden',
      'upload.tmp/1/model.onnx': 'on its way',
      'modèle/0/model.py': '',
      'modèle/10/model.py': '',
      'modèle/001/model.py': '',
      'modèle/warmup/input': '',
    });
    const scan = await repository.scan();
    expect([...scan.keys()].sort()).toEqual(['add_sub', 'modèle']);
    const listing = scan.get('modèle');
    expect([...(listing?.versions.keys() ?? [])].sort()).toEqual(['0', '10']);
    expect(listing?.configFingerprint).toBe('');
    expect(listing?.warnings).toEqual([
      "ignore version directory '001' which contains leading zeros in its directory name",
    ]);
  });

  it('lists the same where nothing happened, by scan and by look', async () => {
    const first = (await repository.scan()).get('add_sub');
    const second = (await repository.scan()).get('add_sub');
    expect(isSameListing(first, second)).toBe(true);
    expect(isSameListing(first, await lookAtAddSub())).toBe(true);
  });

  it('has no models where the directory is empty', async () => {
    await rm(inFolder('add_sub'), { recursive: true });
    expect(await repository.scan()).toEqual(new Map());
  });

  const changes: readonly (readonly [string, () => Promise<void>, readonly string[]])[] = [
    ['a rewritten configuration', () => folder.write({ 'add_sub/config.pbtxt': 'x' }), ['config']],
    [
      'a touched configuration',
      () => utimes(inFolder('add_sub/config.pbtxt'), 1000, 1000),
      ['config'],
    ],
    [
      'a configuration of another name',
      () => folder.write({ 'add_sub/configs/h100.pbtxt': 'x' }),
      ['config', 'rest'],
    ],
    ['a new version', () => folder.write({ 'add_sub/2/model.onnx': 'two' }), ['versions']],
    ['an empty version folder', () => folder.write({ 'add_sub/2/': '' }), ['versions']],
    ['a removed version', () => rm(inFolder('add_sub/1'), { recursive: true }), ['versions']],
    [
      'a file deep inside a version',
      () => folder.write({ 'add_sub/1/a/b/c.bin': 'x' }),
      ['versions'],
    ],
    ['a removed file of a version', () => rm(inFolder('add_sub/1/model.onnx')), ['versions']],
    ['labels', () => folder.write({ 'add_sub/labels.txt': 'c\nd\n' }), ['rest']],
    ['an unrelated empty folder', () => folder.write({ 'add_sub/notes/': '' }), ['rest']],
    ['an empty folder inside another', () => folder.write({ 'add_sub/1/deep/': '' }), ['versions']],
    ['a file with a numeric name', () => folder.write({ 'add_sub/2': 'x' }), ['rest']],
    ['a new model', () => folder.write({ 'other/1/model.py': '' }), ['added other']],
    ['a removed model', () => rm(inFolder('add_sub'), { recursive: true }), ['removed add_sub']],
    [
      'editors at work',
      () =>
        folder.write({
          'add_sub/.config.pbtxt.swp': 'x',
          'add_sub/config.pbtxt~': 'x',
          'add_sub/4913': '',
          'add_sub/.#labels.txt': 'x',
          'add_sub/1/model.onnx.tmp': 'half',
          'add_sub/1/.cache/x': 'x',
        }),
      [],
    ],
    [
      'an atomic replacement of the same size',
      async () => {
        await folder.write({ 'add_sub/new.tmp': 'eno' });
        await rename(inFolder('add_sub/new.tmp'), inFolder('add_sub/1/model.onnx'));
      },
      ['versions'],
    ],
  ];
  it.each(changes)('notices %s', async (_name, change, parts) => {
    expect(await partsChangedBy(change)).toEqual(parts);
  });

  it('notices another content of the same size under the same modification time', async () => {
    const path = inFolder('add_sub/1/model.onnx');
    await utimes(path, 1000, 1000);
    expect(
      await partsChangedBy(async () => {
        await writeFile(path, 'eno');
        await utimes(path, 1000, 1000);
      }),
    ).toEqual(['versions']);
  });

  it('is not misled by a rewrite of the same contents under the same modification time', async () => {
    const path = inFolder('add_sub/1/model.onnx');
    await utimes(path, 1000, 1000);
    expect(
      await partsChangedBy(async () => {
        await rm(path);
        await writeFile(path, 'one');
        await utimes(path, 1000, 1000);
      }),
    ).toEqual([]);
  });

  it('notices a rewrite in the middle of a large file of the same size and time', async () => {
    const path = inFolder('add_sub/1/model.onnx');
    const weights = Buffer.alloc(1024 * 1024, 1);
    await writeFile(path, weights);
    await utimes(path, 1000, 1000);
    expect(
      await partsChangedBy(async () => {
        await writeFile(path, weights.fill(2));
        await utimes(path, 1000, 1000);
      }),
    ).toEqual(['versions']);
  });

  it('follows a link that a mounted volume swaps as a whole', async () => {
    await folder.write({
      'mounted/..2026_1/config.pbtxt': 'old',
      'mounted/..2026_2/config.pbtxt': 'new',
    });
    await symlink('..2026_1', inFolder('mounted/..data'));
    await symlink('..data/config.pbtxt', inFolder('mounted/config.pbtxt'));
    const before = await repository.look('mounted');
    await symlink('..2026_2', inFolder('mounted/..data.tmp'));
    await rename(inFolder('mounted/..data.tmp'), inFolder('mounted/..data'));
    const after = await repository.look('mounted');
    expect(before?.configFingerprint).not.toBe('');
    expect(after?.configFingerprint).not.toBe(before?.configFingerprint);
    expect((await repository.readConfig(await listed('mounted'), ''))?.text).toBe('new');
  });

  it('follows links to folders and ends where they lead in a circle', async () => {
    await mkdir(inFolder('linked/2'), { recursive: true });
    await symlink(inFolder('add_sub/1'), inFolder('linked/1'));
    await symlink('..', inFolder('linked/2/up'));
    await symlink('nowhere', inFolder('linked/2/broken'));
    await symlink('self', inFolder('linked/2/self'));
    const before = await listed('linked');
    expect([...before.versions.keys()]).toEqual(['1', '2']);
    await folder.write({ 'add_sub/1/model.onnx': 'changed' });
    const after = await listed('linked');
    expect(after.versions.get('1')).not.toBe(before.versions.get('1'));
    expect(after.versions.get('2')).toBe(before.versions.get('2'));
  });

  it('does not take a hard link to a file for a change once its contents are known', async () => {
    expect(
      await partsChangedBy(() =>
        link(inFolder('add_sub/1/model.onnx'), join(folder.path, 'snapshot')),
      ),
    ).toEqual([]);
  });

  it('concludes nothing from a root that is gone', async () => {
    await repository.scan();
    await rm(folder.path, { recursive: true });
    await expect(repository.scan()).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  });

  it.each([
    ['a model folder with a configuration', 'add_sub', "a file 'config.pbtxt'"],
    ['a model folder without one', 'plain', "a version folder '3'"],
  ])('says that the location is too deep: %s', async (_name, model, sign) => {
    await folder.write({ 'plain/3/model.onnx': '', 'add_sub/warmup/x': '' });
    await rm(inFolder('add_sub/1'), { recursive: true });
    const inside = await open(inFolder(model));
    await expect(inside.scan()).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: `model repository '${inFolder(model)}' looks like the folder of a model, because it has ${sign}; give the folder above it`,
    });
  });

  it('says that the location is too high', async () => {
    await folder.write({ 'all/registry/add/config.pbtxt': '' });
    const above = await open(inFolder('all'));
    await expect(above.scan()).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: `model repository '${inFolder('all')}' holds no models, but its folder 'registry' does; give that folder`,
    });
  });

  it('reads 300 models in small steps', async () => {
    const files: Record<string, string> = {};
    for (let model = 0; model < 300; model++) {
      files[`model_${model}/config.pbtxt`] = 'backend: "onnxruntime"';
      files[`model_${model}/labels.txt`] = 'a';
      files[`model_${model}/1/model.onnx`] = 'x'.repeat(1000);
    }
    await folder.write(files);
    const old = new Date(Date.now() - 60_000);
    for (const file of Object.keys(files)) {
      await utimes(inFolder(file), old, old);
    }
    expect((await repository.scan()).size).toBe(301);
    await repository.scan();
    const before = performance.eventLoopUtilization();
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    await repository.scan();
    delay.disable();
    const { active } = performance.eventLoopUtilization(before);
    // The bounds are loose, because tests share the processor; see bench for what it takes alone.
    expect(active).toBeLessThan(250);
    expect(delay.max / 1e6).toBeLessThan(100);
  });
});

async function listed(name: string): Promise<ModelListing> {
  const listing = await repository.look(name);
  if (listing === undefined) {
    throw new Error(`${name} is there`);
  }
  return listing;
}

describe('LocalRepository.look', () => {
  it('finds nothing under a name that is not there or cannot be one', async () => {
    for (const name of ['nope', '', '.', '..', '../add_sub', 'add_sub/1', '.hidden']) {
      expect(await repository.look(name)).toBeUndefined();
    }
  });
});

describe('LocalRepository.localize', () => {
  it('gives the folder itself, which release leaves alone', async () => {
    const model = await repository.localize(await lookAtAddSub());
    expect(model.directory).toBe(inFolder('add_sub'));
    await model.release();
    await model.release();
    expect((await stat(inFolder('add_sub/1/model.onnx'))).isFile()).toBe(true);
  });

  it('fails with NOT_FOUND where the folder is gone', async () => {
    const listing = await lookAtAddSub();
    await rm(inFolder('add_sub'), { recursive: true });
    await expect(repository.localize(listing)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: `model 'add_sub' is not in ${folder.path} any more`,
    });
  });
});

describe('LocalRepository.versionFiles', () => {
  it('lists the names in a version', async () => {
    await folder.write({ 'add_sub/1/variables/v.bin': 'x' });
    const listing = await lookAtAddSub();
    expect(await repository.versionFiles(listing, '1')).toEqual(['model.onnx', 'variables']);
    await expect(repository.versionFiles(listing, '2')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: "model 'add_sub' has no version 2 any more",
    });
  });
});

describe('LocalRepository.readConfig', () => {
  it('reads the named configuration, else the usual one, else none', async () => {
    await folder.write({ 'add_sub/configs/h100.pbtxt': 'h100', 'plain/1/model.onnx': '' });
    const listing = await lookAtAddSub();
    expect(await repository.readConfig(listing, 'h100')).toEqual({
      fileName: 'configs/h100.pbtxt',
      text: 'h100',
    });
    expect(await repository.readConfig(listing, 'a100')).toEqual({
      fileName: 'config.pbtxt',
      text: 'backend: "onnxruntime"',
    });
    expect(await repository.readConfig(await listed('plain'), '')).toBeUndefined();
  });

  it('refuses a configuration over 4 MiB and reads one of just that size', async () => {
    const bytes = 4 * 1024 * 1024;
    await folder.write({ 'add_sub/config.pbtxt': '#'.repeat(bytes) });
    const listing = await lookAtAddSub();
    expect((await repository.readConfig(listing, ''))?.text).toHaveLength(bytes);
    await folder.write({ 'add_sub/config.pbtxt': '#'.repeat(bytes + 1) });
    await expect(repository.readConfig(listing, '')).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: `model 'add_sub': config.pbtxt has ${bytes + 1} bytes, allowed are ${bytes}`,
    });
  });

  it('says which configuration cannot be read', async () => {
    await rm(inFolder('add_sub/config.pbtxt'));
    await folder.write({ 'add_sub/config.pbtxt/': '' });
    await expect(repository.readConfig(await lookAtAddSub(), '')).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: "model 'add_sub': failed to read config.pbtxt: EISDIR",
    });
  });
});
