import { afterEach, expect, it } from 'vitest';
import { runServer, ServerProcess } from '../support/server-process.js';
import { inferOne, oneNumber, WrittenRepository } from '../support/written-repository.js';

const source = `
export default class Echo {
  async initialize({ modelConfig }) {
    const delay = Number(modelConfig.parameters.delay?.string_value ?? 0);
    await new Promise((resolve) => setTimeout(resolve, delay));
  }
  execute(requests) {
    return requests.map(({ inputs }) => ({ outputs: [{ name: 'Y', shape: [1], data: [inputs[0].data[0]] }] }));
  }
}`;
const broken =
  'export default class Broken { initialize() { throw new Error("no weights"); } execute() {} }';
const config = oneNumber('TYPE_INT32');
const slow = `${config}parameters { key: "delay" value { string_value: "1500" } }`;

let repository: WrittenRepository;
let server: ServerProcess;
afterEach(async () => {
  await server.stop();
  await repository.remove();
});

async function start(...flags: readonly string[]): Promise<void> {
  repository = await WrittenRepository.create({
    one: { config, source },
    two: { config, source },
    three: { config, source },
    slow: { config: slow, source },
    broken: { config, source: broken },
  });
  server = await ServerProcess.start([
    `--model-repository=${repository.directory}`,
    '--model-control-mode=on-demand',
    ...flags,
  ]);
}

async function readyModels(): Promise<readonly string[]> {
  const response = await fetch(`${server.httpUrl}/v2/repository/index`, {
    method: 'POST',
    headers: { connection: 'close' },
    body: '{"ready":true}',
  });
  // The server's own answer.
  const rows = (await response.json()) as readonly { readonly name: string }[];
  return rows.map(({ name }) => name);
}

async function ask(path: string, body?: string): Promise<readonly [number, unknown]> {
  const response = await fetch(`${server.httpUrl}/v2/models/${path}`, {
    headers: { connection: 'close' },
    ...(body === undefined ? {} : { method: 'POST', body }),
  });
  return [response.status, await response.json().catch(() => undefined)];
}

it('loads models as requests for them come, and keeps as many as it may', async () => {
  await start('--max-loaded-models=2');
  expect(await readyModels()).toEqual([]);
  for (const model of ['one', 'two', 'one', 'three']) {
    expect((await inferOne(server.httpUrl, model, 7)).value).toBe(7);
  }
  expect(await readyModels()).toEqual(['one', 'three']);
  expect((await inferOne(server.httpUrl, 'two', 8)).value).toBe(8);
  expect(await readyModels()).toEqual(['three', 'two']);
});

it('holds nobody up while one model loads, and answers its requests afterwards', async () => {
  await start();
  const order: string[] = [];
  const send = async (model: string) => {
    const { value } = await inferOne(server.httpUrl, model, 1);
    order.push(`${model} ${value}`);
  };
  await Promise.all([send('slow'), send('slow'), send('one'), send('two')]);
  expect(order.slice(0, 2).sort()).toEqual(['one 1', 'two 1']);
  expect(order.slice(2)).toEqual(['slow 1', 'slow 1']);
});

it('gives a request up when its timeout passes during the load', async () => {
  await start();
  const { status, error } = await inferOne(server.httpUrl, 'slow', 1, { timeout: 1000 });
  expect([status, error]).toEqual([503, "Request timeout expired while model 'slow' was loading"]);
});

it('says why a model does not load, and stays ready', async () => {
  await start();
  const { status, error, headers } = await inferOne(server.httpUrl, 'broken', 1);
  expect([status, headers.get('retry-after')]).toEqual([503, '5']);
  expect(error).toContain('no weights');
  const ready = await fetch(`${server.httpUrl}/v2/health/ready`, {
    headers: { connection: 'close' },
  });
  expect(ready.status).toBe(200);
  expect((await inferOne(server.httpUrl, 'nobody', 1)).status).toBe(404);
});

it('loads for metadata, configuration and generate too, and unloads on request', async () => {
  await start();
  expect(await ask('one')).toEqual([200, expect.objectContaining({ name: 'one' })]);
  expect(await ask('two/config')).toEqual([200, expect.objectContaining({ name: 'two' })]);
  expect(await ask('three/generate', '{"X":5}')).toEqual([200, expect.objectContaining({ Y: 5 })]);
  expect(await readyModels()).toEqual(['one', 'three', 'two']);
  const unload = await fetch(`${server.httpUrl}/v2/repository/models/one/unload`, {
    method: 'POST',
    headers: { connection: 'close' },
  });
  expect(unload.status).toBe(200);
  expect(await readyModels()).toEqual(['three', 'two']);
  expect((await inferOne(server.httpUrl, 'one', 3)).value).toBe(3);
});

it('keeps to a budget of memory', async () => {
  await start(`--model-memory-budget=${70 * 1024 * 1024}`);
  for (const model of ['one', 'two', 'three']) await inferOne(server.httpUrl, model, 1);
  expect(await readyModels()).toEqual(['three', 'two']);
});

it('refuses the limits in other modes', async () => {
  await start();
  const { exitCode, stderr } = await runServer([
    `--model-repository=${repository.directory}`,
    '--max-loaded-models=1',
  ]);
  expect([exitCode, stderr]).toEqual([
    1,
    expect.stringContaining('--model-control-mode=on-demand'),
  ]);
});
