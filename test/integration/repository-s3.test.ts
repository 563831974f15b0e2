import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.js';
import { diffScans } from '../../src/repository/diff.js';
import type { ModelListing, ModelRepository } from '../../src/repository/model-repository.js';
import { openModelRepository } from '../../src/repository/open-model-repository.js';
import { Poller, type PollReport } from '../../src/repository/poller.js';
import type { DownloadProgress, RepositoryEvents } from '../../src/repository/repository-events.js';
import { ScratchFolder } from '../repository/model-files.js';
import { prepareS3Server, S3Server, secretAccessKey } from '../support/s3-server.js';

const missing = await prepareS3Server();
if (missing !== undefined && process.env['CI'] === 'true') {
  throw new Error(missing);
}

const addSub = {
  'models/add_sub/config.pbtxt': 'backend: "onnxruntime"',
  'models/add_sub/labels.txt': 'a\nb\n',
  'models/add_sub/1/model.onnx': 'one',
};

let server: S3Server;
let scratch: ScratchFolder;
let heard: Heard;
const opened: ModelRepository[] = [];

interface Heard {
  readonly warnings: string[];
  readonly failures: string[];
  readonly progress: DownloadProgress[];
  downloads: number;
  bytes: number;
}

function listen(): Heard & { readonly events: RepositoryEvents } {
  const heard: Heard = { warnings: [], failures: [], progress: [], downloads: 0, bytes: 0 };
  const events: RepositoryEvents = {
    warned: (message) => heard.warnings.push(message),
    failed: (operation, error) => heard.failures.push(`${operation}: ${error.message}`),
    progressed: (progress) => heard.progress.push(progress),
    downloaded: ({ bytes }) => {
      heard.downloads++;
      heard.bytes += bytes;
    },
  };
  return Object.assign(heard, { events });
}

async function open(
  options: {
    readonly prefix?: string;
    readonly environment?: Readonly<Record<string, string>>;
  } = {},
): Promise<ModelRepository> {
  const listener = listen();
  heard = listener;
  const repository = await openModelRepository(server.location(options.prefix ?? 'models'), {
    clock: systemClock,
    events: listener.events,
    watchMode: 'off',
    cacheDirectory: scratch.path,
    environment: options.environment ?? server.environment,
  });
  opened.push(repository);
  return repository;
}

async function listed(repository: ModelRepository, name: string): Promise<ModelListing> {
  const listing = (await repository.scan()).get(name);
  if (listing === undefined) {
    throw new Error(`${name} is not listed`);
  }
  return listing;
}

/** Paths below a folder, sorted. */
async function filesBelow(directory: string): Promise<readonly string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .sort();
}

describe.skipIf(missing !== undefined)('an S3 repository', () => {
  beforeAll(async () => {
    server = await S3Server.start();
  });

  afterAll(async () => {
    await server.stop();
  });

  beforeEach(async () => {
    scratch = await ScratchFolder.create();
    await server.putAll(addSub);
  });

  afterEach(async () => {
    await Promise.all(opened.splice(0).map((repository) => repository.close()));
    await server.remove('');
    await scratch.remove();
  });

  it('lists what is in the bucket and gives models as local folders', async () => {
    await server.putAll({
      'models/README.md': 'beside the models',
      'models/add_sub/2/model.onnx': 'two',
      'models/add_sub/2/weights/w.bin': 'weights',
      'models/add_sub/.hidden': 'x',
      'models/modèle +%20/1/model.py': 'unicode, space, plus and percent',
      'other/model/1/model.py': 'outside of the prefix',
    });
    const repository = await open();
    const scan = await repository.scan();
    expect([...scan.keys()].sort()).toEqual(['add_sub', 'modèle +%20']);
    const listing = await listed(repository, 'add_sub');
    expect([...listing.versions.keys()].sort()).toEqual(['1', '2']);
    expect(await repository.readConfig(listing, '')).toEqual({
      fileName: 'config.pbtxt',
      text: 'backend: "onnxruntime"',
    });

    const model = await repository.localize(listing, ['2']);
    expect(await filesBelow(model.directory)).toEqual([
      '2/model.onnx',
      '2/weights/w.bin',
      'config.pbtxt',
      'labels.txt',
    ]);
    expect(await readFile(join(model.directory, '2/weights/w.bin'), 'utf8')).toBe('weights');
    expect(heard.progress.at(-1)).toMatchObject({
      model: 'add_sub',
      filesDone: 3,
      filesTotal: 3,
    });
    await model.release();
    await expect(stat(model.directory)).rejects.toMatchObject({ code: 'ENOENT' });

    const named = await listed(repository, 'modèle +%20');
    const copy = await repository.localize(named, ['1']);
    expect(await filesBelow(copy.directory)).toEqual(['1/model.py']);
    await copy.release();
  });

  it('fetches only what changed', async () => {
    const repository = await open();
    const before = await listed(repository, 'add_sub');
    const old = await repository.localize(before, ['1']);
    expect(heard.downloads).toBe(3);

    await server.put('models/add_sub/2/model.onnx', 'two');
    const after = await listed(repository, 'add_sub');
    const [change] = diffScans(
      new Map([['add_sub', before]]),
      new Map([['add_sub', after]]),
    ).changed;
    expect(change).toMatchObject({
      isConfigChanged: false,
      isVersionsChanged: true,
      isRestChanged: false,
    });
    const current = await repository.localize(after, ['2']);
    expect(heard.downloads).toBe(4);
    expect(await readFile(join(old.directory, '1/model.onnx'), 'utf8')).toBe('one');
    expect(await readFile(join(current.directory, '2/model.onnx'), 'utf8')).toBe('two');
    await old.release();
    await current.release();
  });

  it('takes an upload of the same contents for no change', async () => {
    const repository = await open();
    const before = await repository.scan();
    await server.putAll(addSub);
    expect(diffScans(before, await repository.scan())).toEqual({
      added: [],
      changed: [],
      removed: [],
    });
  });

  it('fetches nothing after a restart and serves from the cache while the store is down', async () => {
    const first = await open();
    await server.put('models/add_sub/2/model.onnx', 'two');
    await server.put('models/never_loaded/1/model.py', 'x');
    const copy = await first.localize(await listed(first, 'add_sub'), ['2']);
    await copy.release();
    await first.close();

    const second = await open();
    const again = await second.localize(await listed(second, 'add_sub'), ['2']);
    expect(heard.downloads).toBe(0);
    expect(await readFile(join(again.directory, '2/model.onnx'), 'utf8')).toBe('two');
    await again.release();
    await second.close();

    await server.kill();
    try {
      const third = await open();
      const scan = await third.scan();
      expect([...scan.keys()]).toEqual(['add_sub']);
      const listing = await listed(third, 'add_sub');
      expect([...listing.versions.keys()]).toEqual(['2']);
      expect((await third.readConfig(listing, ''))?.text).toBe('backend: "onnxruntime"');
      const served = await third.localize(listing, ['2']);
      expect(await readFile(join(served.directory, '2/model.onnx'), 'utf8')).toBe('two');
      expect(heard.warnings[0]).toMatch(
        /serving 1 models from the cache, because the store does not answer: .*ECONNREFUSED/,
      );
      expect(heard.failures[0]).toMatch(/^list: S3 list of 'models\/' in bucket 'models' at http/);
      await served.release();

      await server.restart();
      expect([...(await third.scan()).keys()].sort()).toEqual(['add_sub', 'never_loaded']);
      await server.kill();
      await expect(third.scan()).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    } finally {
      await server.restart();
    }
  });

  it('fetches a cached file again that was written to in place', async () => {
    const first = await open();
    const copy = await first.localize(await listed(first, 'add_sub'), ['1']);
    await writeFile(join(copy.directory, '1/model.onnx'), 'eno');
    await copy.release();
    await first.close();
    const second = await open();
    const again = await second.localize(await listed(second, 'add_sub'), ['1']);
    expect(await readFile(join(again.directory, '1/model.onnx'), 'utf8')).toBe('one');
    expect(heard.downloads).toBe(1);
    await again.release();
  });

  it('gives no mix of two states', async () => {
    const repository = await open();
    const listing = await listed(repository, 'add_sub');
    await server.put('models/add_sub/1/model.onnx', 'changed since');
    await expect(repository.localize(listing, ['1'])).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringMatching(/models\/add_sub\/1\/model.onnx.*(changed|412)/),
    });
    const current = await listed(repository, 'add_sub');
    const copy = await repository.localize(current, ['1']);
    // A file that came since belongs to the next state, whichever file of the model it is.
    await server.put('models/add_sub/extra.txt', 'new');
    await server.put('models/add_sub/labels.txt', 'other');
    expect(await readFile(join(copy.directory, '1/model.onnx'), 'utf8')).toBe('changed since');
    await copy.release();
  });

  it('names everything but the credentials when it is refused', async () => {
    const environment = { ...server.environment, AWS_SECRET_ACCESS_KEY: 'wrong-secret' };
    const repository = await open({ environment });
    const error = await repository.scan().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'INTERNAL' });
    const { message } = error as Error;
    expect(message).toMatch(
      /^S3 list of 'models\/' in bucket 'models' at http:\/\/127\.0\.0\.1:\d+, region us-east-1, failed: HTTP 403 SignatureDoesNotMatch: .+/,
    );
    expect(message).not.toContain('wrong-secret');
    expect(message).not.toContain('nereid-tester');
    expect(heard.failures).toHaveLength(1);
  });

  it('reads the credential file again after a refusal', async () => {
    const path = join(scratch.path, 'credentials.json');
    const write = (secret: string): Promise<void> =>
      scratch.write({
        'credentials.json': JSON.stringify({
          s3: { '': { key_id: 'nereid-tester', secret_key: secret } },
        }),
      });
    await write('wrong-secret');
    const repository = await open({ environment: { TRITON_CLOUD_CREDENTIAL_PATH: path } });
    await expect(repository.scan()).rejects.toMatchObject({ code: 'INTERNAL' });
    await write(secretAccessKey);
    expect((await repository.scan()).size).toBe(1);
  });

  it('says that a bucket is missing', async () => {
    const repository = await openModelRepository(`s3://${server.endpoint}/nowhere/models`, {
      clock: systemClock,
      events: listen().events,
      watchMode: 'off',
      cacheDirectory: undefined,
      environment: server.environment,
    });
    opened.push(repository);
    await expect(repository.scan()).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('failed: HTTP 404 NoSuchBucket'),
    });
  });

  it.each([
    ['models/add_sub', /looks like the folder of a model, because it has a file 'config.pbtxt'/],
    ['', /holds no models, but its folder 'models' does/],
  ])('says that the prefix %j is misplaced', async (prefix, message) => {
    const repository = await open({ prefix });
    await expect(repository.scan()).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringMatching(message),
    });
  });

  it('reads listings of several pages', async () => {
    const names = Array.from({ length: 400 }, (_, index) => `m${String(index).padStart(3, '0')}`);
    for (let index = 0; index < names.length; index += 8) {
      await Promise.all(
        names.slice(index, index + 8).map((name) =>
          server.putAll({
            [`models/${name}/config.pbtxt`]: name,
            [`models/${name}/labels.txt`]: 'a',
            [`models/${name}/1/model.py`]: 'x',
          }),
        ),
      );
    }
    const repository = await open();
    expect((await repository.scan()).size).toBe(401);
    const last = await listed(repository, 'm399');
    expect(last.versions.size).toBe(1);
    expect((await repository.readConfig(last, ''))?.text).toBe('m399');
  });

  it('streams a large file to the disk with bounded memory', async () => {
    const megabytes = process.env['FULL'] === '1' ? 300 : 30;
    await server.put('models/big/1/model.onnx', Buffer.alloc(megabytes * 1024 * 1024, 7));
    const repository = await open();
    const listing = await listed(repository, 'big');
    const before = process.memoryUsage.rss();
    let peak = before;
    const timer = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage.rss());
    }, 5);
    const model = await repository.localize(listing, ['1']);
    clearInterval(timer);
    const { size } = await stat(join(model.directory, '1/model.onnx'));
    expect(size).toBe(megabytes * 1024 * 1024);
    // Chunks wait for the collector for a while; in the full form the file would be far more.
    expect((peak - before) / 1024 / 1024).toBeLessThan(100);
    expect(heard.progress.at(-1)?.bytesDone).toBe(size);
    await model.release();
  });

  it('is polled through uploads, deletions and outages without a half state', async () => {
    const repository = await open();
    const baseline = await repository.scan();
    const seen: string[] = [];
    const reports: PollReport[] = [];
    const poller = new Poller(
      repository,
      baseline,
      { intervalNs: 600e6, settleNs: 500e6 },
      {
        async changed({ added, changed, removed }, scan) {
          for (const { name } of added) {
            seen.push(`+${name} with ${scan.get(name)?.versions.size} versions`);
          }
          for (const { after } of changed) {
            seen.push(`~${after.name} with ${after.versions.size} versions`);
          }
          seen.push(...removed.map((name) => `-${name}`));
        },
        polled: (report) => reports.push(report),
      },
      systemClock,
    );
    await poller.start();
    /** Waits for as long as the test may take. */
    const until = async (isReached: () => boolean): Promise<void> => {
      while (!isReached()) {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    try {
      // An upload that is never quiet for long enough is never seen half.
      await server.put('models/slow/config.pbtxt', 'x');
      for (let part = 0; part < 10; part++) {
        await server.put(`models/slow/1/part${part}`, String(part));
        await new Promise((resolve) => setTimeout(resolve, 40));
      }
      await server.put('models/slow/2/model.py', 'x');
      await until(() => seen.length === 1);
      expect(seen).toEqual(['+slow with 2 versions']);

      await server.put('models/add_sub/2/model.onnx', 'two');
      await until(() => seen.length === 2);
      await server.kill();
      const failedBefore = reports.length;
      await until(() => reports.slice(failedBefore).some((each) => each.outcome.kind === 'failed'));
      await server.restart();
      await server.remove('models/slow/');
      await until(() => seen.length === 3);
      expect(seen.slice(1)).toEqual(['~add_sub with 2 versions', '-slow']);
    } finally {
      await poller.close();
    }
  });
});
