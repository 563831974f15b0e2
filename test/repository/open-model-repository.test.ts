import { readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.js';
import {
  distinctLocations,
  openModelRepository,
  type RepositoryOptions,
} from '../../src/repository/open-model-repository.js';
import { silentEvents } from '../../src/repository/repository-events.js';
import { ScratchFolder } from './model-files.js';

let scratch: ScratchFolder;

beforeEach(async () => {
  scratch = await ScratchFolder.create({ 'models/a/1/model.onnx': 'x', 'other/': '' });
});

afterEach(() => scratch.remove());

function options(): RepositoryOptions {
  return {
    clock: systemClock,
    events: silentEvents,
    watchMode: 'off',
    cacheDirectory: join(scratch.path, 'cache'),
    environment: {},
  };
}

describe('openModelRepository', () => {
  it('opens a directory', async () => {
    const repository = await openModelRepository(join(scratch.path, 'models'), options());
    expect([...(await repository.scan()).keys()]).toEqual(['a']);
    await repository.close();
  });

  it('opens an S3 prefix without asking the store', async () => {
    const repository = await openModelRepository('s3://127.0.0.1:1/bucket/models', options());
    expect(repository.location).toBe('s3://127.0.0.1:1/bucket/models');
    await repository.close();
  });

  it.each([
    ['the option', 'option', { TRITON_AWS_MOUNT_DIRECTORY: 'mount' }, 'option'],
    ['TRITON_AWS_MOUNT_DIRECTORY', undefined, { TRITON_AWS_MOUNT_DIRECTORY: 'mount' }, 'mount'],
    ['neither', undefined, { TRITON_AWS_MOUNT_DIRECTORY: '' }, undefined],
  ])('keeps the files of a bucket where %s says', async (_, option, environment, expected) => {
    const inScratch = (name: string) => join(scratch.path, name);
    const mount = environment.TRITON_AWS_MOUNT_DIRECTORY;
    const repository = await openModelRepository('s3://bucket/models', {
      ...options(),
      cacheDirectory: option === undefined ? undefined : inScratch(option),
      environment: { TRITON_AWS_MOUNT_DIRECTORY: mount === '' ? '' : inScratch(mount) },
    });
    const folders = await readdir(scratch.path);
    expect(folders.filter((name) => name === 'option' || name === 'mount')).toEqual(
      expected === undefined ? [] : [expected],
    );
    await repository.close();
  });

  it.each(['gs://bucket/models', 'as://account/models', 'https://host/models'])(
    'refuses %s',
    async (location) => {
      const scheme = location.slice(0, location.indexOf(':'));
      await expect(openModelRepository(location, options())).rejects.toMatchObject({
        code: 'UNSUPPORTED',
        message: `model repository '${location}': '${scheme}://' is not supported, use a directory or s3://`,
      });
    },
  );
});

describe('distinctLocations', () => {
  it('takes two names of one place for the same and keeps the first', async () => {
    const models = join(scratch.path, 'models');
    const link = join(scratch.path, 'link');
    const other = join(scratch.path, 'other');
    await symlink(models, link);
    const locations = [
      models,
      's3://bucket/a',
      `${models}/`,
      other,
      link,
      's3://bucket//a/',
      's3://host:9000/bucket/a',
      's3://http://host:9000/bucket/a',
      join(models, '../models'),
    ];
    expect(await distinctLocations(locations)).toEqual([
      models,
      's3://bucket/a',
      other,
      's3://host:9000/bucket/a',
    ]);
  });

  it('leaves what does not exist to whoever opens it', async () => {
    const nowhere = join(scratch.path, 'nowhere');
    expect(await distinctLocations([nowhere, nowhere, 'gs://x'])).toEqual([nowhere, 'gs://x']);
  });
});
