import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ScratchFolder } from '../repository/model-files.js';
import { prepareS3Server, S3Server } from '../support/s3-server.js';
import { ServerProcess } from '../support/server-process.js';

const missing = await prepareS3Server();
if (missing !== undefined && process.env['CI'] === 'true') {
  throw new Error(missing);
}

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Where models are uploaded to: a folder or a bucket. */
interface Target {
  readonly location: string;
  readonly environment: Readonly<Record<string, string>>;
  put(path: string, contents: string | Uint8Array): Promise<void>;
  remove(path: string): Promise<void>;
}

/** A model whose one output says which version answered: `version * 1000 + input`. */
const stampConfig = `
  backend: "javascript"
  max_batch_size: 8
  input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
  output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
  dynamic_batching { }
`;

function stampModel(version: number): string {
  const data = `IN.data.map((value) => value + ${version * 1000})`;
  return `export default ({ IN }) => ({ OUT: { datatype: 'INT32', shape: IN.shape, data: ${data} } });\n`;
}

/** A connection that is kept holds the end of the server, as it does in the reference server. */
const headers = { connection: 'close' };

interface Answer {
  readonly status: number;
  readonly version: number;
  readonly value: number;
}

async function ask(url: string, model: string, value: number): Promise<Answer> {
  const response = await fetch(`${url}/v2/models/${model}/infer`, {
    method: 'POST',
    headers,
    body: JSON.stringify({
      inputs: [{ name: 'IN', datatype: 'INT32', shape: [1, 1], data: [value] }],
    }),
  });
  // What the server answers is what is tested, so its form is not taken for granted.
  const body = (await response.json()) as {
    readonly model_version?: string;
    readonly outputs?: readonly { readonly data: readonly number[] }[];
  };
  return {
    status: response.status,
    version: Number(body.model_version),
    value: body.outputs?.[0]?.data[0] ?? Number.NaN,
  };
}

/** Clients that ask one after another until they are told to stop, checking every answer. */
class SteadyClients {
  readonly #url: string;
  readonly #model: string;
  readonly #clients: Promise<void>[] = [];
  readonly wrong: string[] = [];
  answers = 0;
  #isStopping = false;

  constructor(url: string, model: string, count: number) {
    this.#url = url;
    this.#model = model;
    for (let client = 0; client < count; client++) {
      this.#clients.push(this.#ask(client));
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#clients);
  }

  async #ask(client: number): Promise<void> {
    let newest = 0;
    for (let turn = 0; !this.#isStopping; turn++) {
      const value = (client * 100 + turn) % 1000;
      const answer = await ask(this.#url, this.#model, value).catch((error: unknown) => {
        this.wrong.push(String(error));
        return undefined;
      });
      this.answers++;
      if (answer === undefined) {
        continue;
      }
      const isRight = answer.status === 200 && answer.value === answer.version * 1000 + value;
      if (!isRight || answer.version < newest) {
        this.wrong.push(JSON.stringify({ ...answer, newest, value }));
      }
      newest = Math.max(newest, answer.version);
    }
  }
}

async function until(isReached: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await isReached())) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function index(url: string): Promise<readonly string[]> {
  const response = await fetch(`${url}/v2/repository/index`, {
    method: 'POST',
    headers,
    body: '{}',
  });
  const rows = (await response.json()) as readonly {
    readonly name: string;
    readonly version?: string;
    readonly state?: string;
  }[];
  return rows.map(({ name, version, state }) => `${name} ${version ?? '-'} ${state ?? '-'}`);
}

function inBucket(server: S3Server): Target {
  return {
    location: server.location('registry/models'),
    environment: server.environment,
    put: (path, contents) => server.put(`registry/models/${path}`, contents),
    remove: (path) => server.remove(`registry/models/${path}/`),
  };
}

function inFolder(folder: string): Target {
  return {
    location: folder,
    environment: {},
    async put(path, contents) {
      const target = join(folder, path);
      await mkdir(dirname(target), { recursive: true });
      await writeFile(target, contents);
    },
    remove: (path) => rm(join(folder, path), { recursive: true }),
  };
}

describe.skipIf(missing !== undefined).each(['a bucket', 'a folder'] as const)(
  'a server that polls %s',
  (kind) => {
    let store: S3Server;
    let scratch: ScratchFolder;
    let target: Target;
    let server: ServerProcess;

    beforeAll(async () => {
      store = await S3Server.start();
      scratch = await ScratchFolder.create({ 'models/': '' });
      target = kind === 'a bucket' ? inBucket(store) : inFolder(join(scratch.path, 'models'));
      await target.put('stamp/config.pbtxt', stampConfig);
      await target.put('stamp/1/model.js', stampModel(1));
      server = await start();
    });

    afterAll(async () => {
      await server.stop();
      await store.stop();
      await scratch.remove();
    });

    function start(): Promise<ServerProcess> {
      return ServerProcess.start(
        [
          '--model-control-mode=poll',
          '--repository-poll-secs=1',
          `--model-repository=${target.location}`,
          `--repository-cache-dir=${join(scratch.path, 'cache')}`,
        ],
        target.environment,
      );
    }

    it('follows uploads, versions, broken files and deletions without losing a request', async () => {
      const url = server.httpUrl;
      const clients = new SteadyClients(url, 'stamp', 4);
      const version = async (): Promise<number> => (await ask(url, 'stamp', 0)).version;

      for (const file of ['config.pbtxt', 'labels.txt', '1/model.onnx']) {
        await target.put(
          `digits/${file}`,
          await readFile(`${root}model_repository/digits/${file}`),
        );
      }
      await until(async () => (await index(url)).includes('digits 1 READY'));
      const sample = await readFile(`${root}examples/digits/digit-7.json`, 'utf8');
      const digits = await fetch(`${url}/v2/models/digits/infer`, {
        method: 'POST',
        headers,
        body: sample,
      });
      expect(await digits.json()).toMatchObject({
        outputs: [{ data: expect.arrayContaining([expect.stringMatching(/:7:/)]) }],
      });

      await target.put('stamp/2/model.js', stampModel(2));
      await until(async () => (await version()) === 2);

      // A version that does not load leaves the former one where it is.
      await target.put('stamp/3/model.js', 'export default (');
      await until(() => server.log.includes("failed to load 'stamp' version 3"));
      expect(await version()).toBe(2);
      await target.put('stamp/3/model.js', stampModel(3));
      await until(async () => (await version()) === 3);

      await target.put('stamp/config.pbtxt', `${stampConfig} no_such_field: 1`);
      await until(() => server.log.includes('no_such_field'));
      expect(await version()).toBe(3);
      await target.put('stamp/config.pbtxt', `${stampConfig} instance_group [ { count: 2 } ]`);
      await until(async () => {
        const config = await (await fetch(`${url}/v2/models/stamp/config`, { headers })).text();
        return config.includes('"count":2');
      });

      await target.remove('digits');
      await until(async () => !(await index(url)).some((row) => row.startsWith('digits')));
      await clients.stop();
      expect(clients.wrong).toEqual([]);
      expect(clients.answers).toBeGreaterThan(100);
    });

    it('gives every answer, and none of an older version, over many updates', async () => {
      const isFull = process.env['FULL'] === '1';
      const url = server.httpUrl;
      const clients = new SteadyClients(url, 'stamp', isFull ? 32 : 8);
      const before = (await ask(url, 'stamp', 0)).version;
      for (let update = 0; update < (isFull ? 30 : 6); update++) {
        const version = before + 1 + Math.floor(update / 3);
        switch (update % 3) {
          case 0:
            await target.put(`stamp/${version}/model.js`, stampModel(version));
            await until(async () => (await ask(url, 'stamp', 0)).version === version);
            break;
          case 1: {
            // Alternating, so that each one is a change.
            const count = 1 + (update % 2);
            await target.put(
              'stamp/config.pbtxt',
              `${stampConfig} instance_group [ { count: ${count} } ]`,
            );
            await until(async () => {
              const response = await fetch(`${url}/v2/models/stamp/config`, { headers });
              return (await response.text()).includes(`"count":${count},`);
            });
            break;
          }
          default:
            await target.put('other/config.pbtxt', stampConfig);
            await target.put('other/1/model.js', stampModel(1));
            await until(async () => (await index(url)).includes('other 1 READY'));
            await target.remove('other');
            await until(async () => !(await index(url)).includes('other 1 READY'));
        }
      }
      await clients.stop();
      expect(clients.wrong).toEqual([]);
      expect(clients.answers).toBeGreaterThan(200);
    }, 240_000);

    it.runIf(kind === 'a bucket')(
      'serves on while the store is away, also from a start',
      async () => {
        const served = (await ask(server.httpUrl, 'stamp', 0)).version;
        const clients = new SteadyClients(server.httpUrl, 'stamp', 2);
        await store.kill();
        await until(() => server.log.includes('ECONNREFUSED'));
        await clients.stop();
        expect(clients.wrong).toEqual([]);

        expect(await server.stop()).toBe(0);
        server = await start();
        expect(await ask(server.httpUrl, 'stamp', 5)).toEqual({
          status: 200,
          version: served,
          value: served * 1000 + 5,
        });
        await store.restart();
        await target.put(`stamp/${served + 1}/model.js`, stampModel(served + 1));
        await until(async () => (await ask(server.httpUrl, 'stamp', 0)).version === served + 1);
      },
    );
  },
);
