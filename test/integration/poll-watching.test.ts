import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ScratchFolder } from '../repository/model-files.js';
import { ServerProcess } from '../support/server-process.js';
import { type InferAnswer, inferOne, oneNumber } from '../support/written-repository.js';

const config = `backend: "javascript"\n${oneNumber('TYPE_INT32')}`;

function answering(value: number): string {
  return `export default ({ X }) => ({ Y: { datatype: 'INT32', shape: [1], data: [${value}] } });\n`;
}

let scratch: ScratchFolder;
let server: ServerProcess | undefined;

beforeEach(async () => {
  scratch = await ScratchFolder.create({ 'models/': '' });
});

afterEach(async () => {
  await server?.stop();
  server = undefined;
  await scratch.remove();
});

const inScratch = (path: string) => join(scratch.path, path);

async function start(...argv: readonly string[]): Promise<ServerProcess> {
  server = await ServerProcess.start([
    `--model-repository=${inScratch('models')}`,
    '--model-control-mode=poll',
    ...argv,
  ]);
  return server;
}

/** Asks until the model answers `expected`; every answer before has to be `served`'s. */
async function untilAnswer(expected: number, served: number | undefined): Promise<void> {
  const deadline = performance.now() + 30_000;
  let answer: InferAnswer;
  do {
    answer = await inferOne(server?.httpUrl ?? '', 'm', 0);
    if (served !== undefined) expect([served, expected]).toContain(answer.value);
  } while (answer.value !== expected && performance.now() < deadline);
  expect(answer.value).toBe(expected);
}

/** As a kubelet does it: a new folder, and one link that is replaced as a whole. */
async function mountVolume(
  root: string,
  revision: string,
  files: Readonly<Record<string, string>>,
): Promise<void> {
  const data = inScratch(`${root}/..${revision}`);
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(data, path, '..'), { recursive: true });
    await writeFile(join(data, path), text);
  }
  await symlink(`..${revision}`, inScratch(`${root}/..data_tmp`));
  await rename(inScratch(`${root}/..data_tmp`), inScratch(`${root}/..data`));
}

describe.each(['auto', 'events', 'polling'])('--repository-watch=%s', (mode) => {
  it('finds new and changed models long before the next poll', async () => {
    await start('--repository-poll-secs=3600', `--repository-watch=${mode}`);
    expect(server?.log.match(/holds no models: each folder in it would be one/g)).toHaveLength(1);
    await scratch.write({ 'models/m/config.pbtxt': config, 'models/m/1/model.mjs': answering(1) });
    await untilAnswer(1, undefined);
    await scratch.write({ 'models/m/2/model.mjs': answering(2) });
    await untilAnswer(2, 1);
  });
});

it('finds changes by polls alone with --repository-watch=off', async () => {
  await start('--repository-poll-secs=1', '--repository-watch=off');
  await scratch.write({ 'models/m/config.pbtxt': config, 'models/m/1/model.mjs': answering(1) });
  await untilAnswer(1, undefined);
});

describe('a polled folder', () => {
  it.each([
    ['the repository', 'models', 'm/', ['m']],
    ['a model', 'models/m', '', ['config.pbtxt', '1']],
  ])('follows a mounted volume of Kubernetes that holds %s', async (_, root, below, links) => {
    await mkdir(inScratch(root), { recursive: true });
    const files = (value: number) => ({
      [`${below}config.pbtxt`]: config,
      [`${below}1/model.mjs`]: answering(value),
    });
    await mountVolume(root, 'first', files(1));
    for (const link of links) await symlink(`..data/${link}`, inScratch(`${root}/${link}`));
    await start('--repository-poll-secs=1');
    await untilAnswer(1, undefined);
    await mountVolume(root, 'second', files(2));
    await rm(inScratch(`${root}/..first`), { recursive: true });
    await untilAnswer(2, 1);
  });

  it('takes a model that is renamed into place, and one that replaces it', async () => {
    await start('--repository-poll-secs=1');
    const whole = (folder: string, value: number) => ({
      [`${folder}/config.pbtxt`]: config,
      [`${folder}/1/model.mjs`]: answering(value),
    });
    await scratch.write(whole('upload', 1));
    await rename(inScratch('upload'), inScratch('models/m'));
    await untilAnswer(1, undefined);
    await scratch.write(whole('next', 2));
    await rename(inScratch('models/m'), inScratch('old'));
    await rename(inScratch('next'), inScratch('models/m'));
    await untilAnswer(2, 1);
  });

  it('waits for the end of a slow copy', async () => {
    await start('--repository-poll-secs=1');
    await scratch.write({ 'models/m/config.pbtxt': config });
    // Each part alone would be a model that answers something else.
    for (let part = 1; part <= 12; part++) {
      await scratch.write({ 'models/m/1/model.mjs': answering(part) });
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect((await inferOne(server?.httpUrl ?? '', 'm', 0)).status).toBe(404);
    }
    await scratch.write({ 'models/m/1/model.mjs': answering(100) });
    await untilAnswer(100, undefined);
    expect(server?.log.match(/successfully loaded 'm'/g)).toHaveLength(1);
  });

  it('does not load anew for what editors and copying tools leave beside the files', async () => {
    await scratch.write({ 'models/m/config.pbtxt': config, 'models/m/1/model.mjs': answering(1) });
    await start('--repository-poll-secs=1');
    await scratch.write({
      'models/m/.config.pbtxt.swp': 'x',
      'models/m/4913': '',
      'models/m/config.pbtxt~': 'broken {',
      'models/m/#config.pbtxt#': 'x',
      'models/m/1/.model.mjs.AbC123': 'half',
      'models/m/1/model.mjs.tmp': 'half',
      'models/.hidden/config.pbtxt': 'broken {',
      'models/upload.tmp/config.pbtxt': 'broken {',
      'models/notes.txt': 'x',
    });
    // Whatever is loaded after them was found by a later look.
    await scratch.write({ 'models/n/config.pbtxt': config, 'models/n/1/model.mjs': answering(2) });
    const deadline = performance.now() + 30_000;
    while ((await inferOne(server?.httpUrl ?? '', 'n', 0)).value !== 2) {
      expect(performance.now()).toBeLessThan(deadline);
    }
    expect(server?.log.match(/successfully loaded 'm'/g)).toHaveLength(1);
    expect(server?.log).not.toContain('Poll failed');
  });
});
