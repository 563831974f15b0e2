import { cp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ScratchFolder } from '../repository/model-files.js';
import { runServer, ServerProcess } from '../support/server-process.js';
import { type InferAnswer, inferOne, oneNumber } from '../support/written-repository.js';

// The repositories and steps of the reference server's tests of namespacing, with smaller models:
// whatever is made in `plus` adds one, whatever is made in `minus` subtracts one.
const tensors = oneNumber('TYPE_INT32');

function composing(change: string): string {
  return `export default ({ X }) => ({ Y: { datatype: 'INT32', shape: X.shape, data: X.data.map((x) => x ${change}) } });\n`;
}

function ensembleOver(model: string): string {
  return `platform: "ensemble"
    ${tensors}
    ensemble_scheduling { step {
      model_name: "${model}" model_version: -1
      input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" }
    } }`;
}

const modelConfig = `backend: "javascript"\n${tensors}`;

const sameSteps = {
  'plus/composing/config.pbtxt': modelConfig,
  'plus/composing/1/model.mjs': composing('+ 1'),
  'plus/plus_one/config.pbtxt': ensembleOver('composing'),
  'plus/plus_one/1/': '',
  'minus/composing/config.pbtxt': modelConfig,
  'minus/composing/1/model.mjs': composing('- 1'),
  'minus/minus_one/config.pbtxt': ensembleOver('composing'),
  'minus/minus_one/1/': '',
};

const sameEnsembles = {
  'plus/add/config.pbtxt': modelConfig,
  'plus/add/1/model.mjs': composing('+ 1'),
  'plus/either/config.pbtxt': ensembleOver('add'),
  'plus/either/1/': '',
  'minus/sub/config.pbtxt': modelConfig,
  'minus/sub/1/model.mjs': composing('- 1'),
  'minus/either/config.pbtxt': ensembleOver('sub'),
  'minus/either/1/': '',
};

const ambiguous = (name: string) =>
  `There are 2 identifiers of model '${name}' in global map, model namespace must be provided to resolve ambiguity.`;

let scratch: ScratchFolder;
let server: ServerProcess | undefined;

beforeEach(async () => {
  scratch = await ScratchFolder.create();
});

afterEach(async () => {
  await server?.stop();
  server = undefined;
  await scratch.remove();
});

const repositories = () =>
  ['plus', 'minus'].map((name) => `--model-repository=${join(scratch.path, name)}`);

async function start(...argv: readonly string[]): Promise<ServerProcess> {
  server = await ServerProcess.start([...repositories(), '--model-namespacing=true', ...argv]);
  return server;
}

async function post(url: string, body: unknown = {}): Promise<readonly [number, string]> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { connection: 'close' },
    body: JSON.stringify(body),
  });
  return [response.status, await response.text()];
}

async function get(url: string): Promise<string> {
  return (await fetch(url, { headers: { connection: 'close' } })).text();
}

const value = async (url: string, model: string) => (await inferOne(url, model, 10)).value;

async function untilValue(url: string, model: string, expected: number): Promise<void> {
  let answer: InferAnswer | undefined;
  const deadline = performance.now() + 20_000;
  do {
    answer = await inferOne(url, model, 10);
  } while (answer.value !== expected && performance.now() < deadline);
  expect(answer.value).toBe(expected);
}

async function refused(url: string, model: string): Promise<void> {
  const { status, error } = await inferOne(url, model, 10);
  expect([status, error]).toEqual([400, ambiguous(model)]);
}

describe('--model-namespacing', () => {
  it('gives ensembles the steps of their own repositories and refuses the bare name', async () => {
    await scratch.write(sameSteps);
    const { httpUrl, metricsUrl } = await start();
    expect(await value(httpUrl, 'plus_one')).toBe(11);
    expect(await value(httpUrl, 'minus_one')).toBe(9);
    await refused(httpUrl, 'composing');
    for (const path of ['', '/config', '/stats', '/versions/1/config']) {
      expect(await get(`${httpUrl}/v2/models/composing${path}`)).toContain(ambiguous('composing'));
    }
    const config = JSON.parse(await get(`${httpUrl}/v2/models/plus_one/config`)) as {
      readonly ensemble_scheduling: { readonly step: readonly { model_namespace: string }[] };
    };
    const plus = join(scratch.path, 'plus');
    expect(config.ensemble_scheduling.step.map((step) => step.model_namespace)).toEqual([plus]);
    const [, index] = await post(`${httpUrl}/v2/repository/index`);
    expect(JSON.parse(index)).toEqual(
      ['composing', 'minus_one', 'composing', 'plus_one'].map((name) => ({
        name,
        version: '1',
        state: 'READY',
      })),
    );
    expect(await get(`${metricsUrl}/metrics`)).toContain(
      `nv_inference_count{model="composing",version="1",namespace="${plus}"} 1`,
    );
  });

  it('lets ensembles of one name have steps of their own', async () => {
    await scratch.write(sameEnsembles);
    const { httpUrl } = await start();
    expect(await value(httpUrl, 'add')).toBe(11);
    expect(await value(httpUrl, 'sub')).toBe(9);
    await refused(httpUrl, 'either');
  });

  it('links ensembles anew when polls find that a step has gone and come back', async () => {
    await scratch.write(sameSteps);
    const { httpUrl } = await start('--model-control-mode=poll', '--repository-poll-secs=1');
    expect(await value(httpUrl, 'plus_one')).toBe(11);
    await rename(join(scratch.path, 'plus/composing'), join(scratch.path, 'away'));
    await untilValue(httpUrl, 'plus_one', 9);
    expect(await value(httpUrl, 'minus_one')).toBe(9);
    expect(await value(httpUrl, 'composing')).toBe(9);
    await rename(join(scratch.path, 'away'), join(scratch.path, 'plus/composing'));
    await untilValue(httpUrl, 'plus_one', 11);
    expect(await value(httpUrl, 'minus_one')).toBe(9);
    await refused(httpUrl, 'composing');
  });

  it('loads and unloads by name in every repository that has it', async () => {
    await scratch.write(sameSteps);
    const { httpUrl } = await start('--model-control-mode=explicit');
    const models = `${httpUrl}/v2/repository/models`;
    await rename(join(scratch.path, 'plus/composing'), join(scratch.path, 'away'));
    expect(await post(`${models}/plus_one/load`)).toEqual([200, '']);
    expect(await value(httpUrl, 'plus_one')).toBe(9);
    expect(await value(httpUrl, 'composing')).toBe(9);
    await rename(join(scratch.path, 'away'), join(scratch.path, 'plus/composing'));
    expect(await post(`${models}/plus_one/load`)).toEqual([200, '']);
    expect(await value(httpUrl, 'plus_one')).toBe(11);
    await refused(httpUrl, 'composing');
    expect(await post(`${models}/composing/unload`)).toEqual([200, '']);
    expect((await inferOne(httpUrl, 'plus_one', 10)).status).toBe(404);
    expect((await inferOne(httpUrl, 'composing', 10)).status).toBe(404);
    expect(await post(`${models}/composing/load`)).toEqual([200, '']);
    await refused(httpUrl, 'composing');
  });

  it('says which step of an ensemble several other repositories could provide', async () => {
    await scratch.write(sameSteps);
    await scratch.write({
      'third/outside/config.pbtxt': ensembleOver('composing'),
      'third/outside/1/': '',
    });
    const { httpUrl } = await start(
      '--model-control-mode=explicit',
      `--model-repository=${join(scratch.path, 'third')}`,
    );
    const [status, body] = await post(`${httpUrl}/v2/repository/models/outside/load`);
    expect(status).toBe(400);
    expect(body).toContain('contains models that are not available or ambiguous: composing');
  });
});

describe('models of one name without namespacing', () => {
  it('end the start, or are left out where errors do not', async () => {
    await scratch.write(sameSteps);
    const { exitCode, stderr, stdout } = await runServer(repositories());
    expect(exitCode).toBe(1);
    expect(stdout + stderr).toContain('failed to load all models');
    server = await ServerProcess.start([
      ...repositories(),
      '--exit-on-error=false',
      '--strict-readiness=false',
    ]);
    const [, index] = await post(`${server.httpUrl}/v2/repository/index`);
    expect(JSON.parse(index)).toContainEqual({
      name: 'composing',
      state: 'UNAVAILABLE',
      reason: 'model appears in two or more repositories',
    });
    expect((await inferOne(server.httpUrl, 'composing', 1)).status).toBe(404);
  });

  it('stop being served when a second one appears, and are served again when it goes', async () => {
    await scratch.write({ ...sameEnsembles, 'minus/.keep': '' });
    await rm(join(scratch.path, 'minus/either'), { recursive: true });
    server = await ServerProcess.start([
      ...repositories(),
      '--model-control-mode=poll',
      '--repository-poll-secs=1',
    ]);
    const { httpUrl } = server;
    expect(await value(httpUrl, 'add')).toBe(11);
    await cp(join(scratch.path, 'plus/add'), join(scratch.path, 'minus/add'), { recursive: true });
    const deadline = performance.now() + 20_000;
    while ((await inferOne(httpUrl, 'add', 1)).status !== 404) {
      expect(performance.now()).toBeLessThan(deadline);
    }
    await rm(join(scratch.path, 'minus/add'), { recursive: true });
    await untilValue(httpUrl, 'add', 11);
    await untilValue(httpUrl, 'either', 11);
  });

  it('refuses to load one on request', async () => {
    await scratch.write(sameSteps);
    server = await ServerProcess.start([...repositories(), '--model-control-mode=explicit']);
    expect(await post(`${server.httpUrl}/v2/repository/models/composing/load`)).toEqual([
      500,
      `{"error":"failed to load 'composing', failed to poll from model repository"}`,
    ]);
  });
});
