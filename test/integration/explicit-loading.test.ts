import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ScratchFolder } from '../repository/model-files.js';
import { ServerProcess } from '../support/server-process.js';
import { inferOne, oneNumber } from '../support/written-repository.js';

const tensors = oneNumber('TYPE_INT32');

/** Answers with what its latest earlier execution was given, and how many there have been. */
const remembering = `let runs = 0;
let last = -1;
export default ({ X }) => {
  const data = [last * 100 + runs];
  runs += 1;
  last = X.data[0];
  return { Y: { datatype: 'INT32', shape: [1], data } };
};
`;

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

async function start(...argv: readonly string[]): Promise<string> {
  server = await ServerProcess.start([
    `--model-repository=${join(scratch.path, 'models')}`,
    '--model-control-mode=explicit',
    ...argv,
  ]);
  return server.httpUrl;
}

async function load(url: string, model: string): Promise<string> {
  const response = await fetch(`${url}/v2/repository/models/${model}/load`, {
    method: 'POST',
    headers: { connection: 'close' },
    body: '{}',
  });
  return `${response.status} ${await response.text()}`;
}

async function config(url: string, model: string): Promise<Readonly<Record<string, unknown>>> {
  const response = await fetch(`${url}/v2/models/${model}/config`, {
    headers: { connection: 'close' },
  });
  // What the server shows is what is looked at.
  return (await response.json()) as Readonly<Record<string, unknown>>;
}

function warmup(input: string, more = ''): string {
  return `backend: "javascript" ${tensors} instance_group { count: 1 }
    model_warmup { name: "w" ${more} inputs { key: "X" value { data_type: TYPE_INT32 dims: 1 ${input} } } }`;
}

describe('model_warmup', () => {
  it.each([
    ['zeros', 'zero_data: true', '', 1, 0],
    ['a file', 'input_data_file: "seven"', '', 1, 700],
    ['a file, several times', 'input_data_file: "seven"', 'count: 3', 3, 700],
  ])('runs the model with %s before it serves', async (_, input, more, runs, last) => {
    await scratch.write({
      'models/m/config.pbtxt': warmup(input, more),
      'models/m/1/model.mjs': remembering,
      'models/m/warmup/seven': '\u0007\0\0\0',
    });
    const url = await start('--load-model=m');
    expect((await inferOne(url, 'm', 1)).value).toBe(last + runs);
    // Neither statistics nor the sum of executions count it.
    const statistics = await fetch(`${url}/v2/models/m/stats`, {
      headers: { connection: 'close' },
    });
    expect(await statistics.json()).toMatchObject({
      model_stats: [{ inference_count: 1, execution_count: 1 }],
    });
  });

  it('runs the model with random numbers', async () => {
    await scratch.write({
      'models/m/config.pbtxt': warmup('random_data: true'),
      'models/m/1/model.mjs': `const seen = [];
export default ({ X }) => {
  const data = [seen.length === 1 && Number.isInteger(seen[0]) ? 1 : 0];
  seen.push(X.data[0]);
  return { Y: { datatype: 'INT32', shape: [1], data } };
};
`,
    });
    expect((await inferOne(await start('--load-model=m'), 'm', 1)).value).toBe(1);
  });

  it.each([
    ['a file that is missing', 'input_data_file: "none"', 'none'],
    ['a file of another size', 'input_data_file: "short"', 'short'],
  ])('refuses to load with %s', async (_, input, named) => {
    await scratch.write({
      'models/m/config.pbtxt': warmup(input),
      'models/m/1/model.mjs': remembering,
      'models/m/warmup/short': '123',
    });
    const answer = await load(await start(), 'm');
    expect(answer).toMatch(/^400 .*load failed for model 'm'/);
    expect(answer).toContain(named);
  });
});

describe('configurations', () => {
  it('are not completed with --disable-auto-complete-config', async () => {
    await scratch.write({
      'models/bare/1/model.mjs': remembering,
      'models/whole/config.pbtxt': `backend: "javascript" ${tensors}`,
      'models/whole/1/model.mjs': remembering,
    });
    const url = await start('--disable-auto-complete-config');
    expect(await load(url, 'bare')).toMatch(/^500 .*failed to poll from model repository/);
    expect(server?.log).toMatch(/failed to open text file for read .*bare\/config\.pbtxt/);
    expect(await load(url, 'whole')).toBe('200 ');
    expect(await inferOne(url, 'whole', 1)).toMatchObject({ status: 200 });
  });

  it('are taken from configs/NAME.pbtxt with --model-config-name, where a model has it', async () => {
    const plain = `backend: "javascript" ${tensors}`;
    await scratch.write({
      'models/both/config.pbtxt': `${plain} parameters { key: "from" value { string_value: "config" } }`,
      'models/both/configs/big.pbtxt': `${plain} parameters { key: "from" value { string_value: "big" } }`,
      'models/both/1/model.mjs': remembering,
      'models/one/config.pbtxt': `${plain} parameters { key: "from" value { string_value: "config" } }`,
      'models/one/1/model.mjs': remembering,
    });
    const url = await start('--model-config-name=big', '--load-model=*');
    expect((await config(url, 'both'))['parameters']).toEqual({ from: { string_value: 'big' } });
    expect((await config(url, 'one'))['parameters']).toEqual({ from: { string_value: 'config' } });
  });

  it('name the file with default_model_filename and keep what they do not use', async () => {
    await scratch.write({
      'models/m/config.pbtxt': `backend: "javascript" ${tensors} default_model_filename: "other.mjs"
        cc_model_filenames { key: "7.5" value: "x.plan" } metric_tags { key: "team" value: "a" }`,
      'models/m/1/model.mjs': 'throw new Error("not this one");',
      'models/m/1/other.mjs': remembering,
    });
    const url = await start('--load-model=m');
    expect(await inferOne(url, 'm', 1)).toMatchObject({ status: 200 });
    expect(await config(url, 'm')).toMatchObject({
      default_model_filename: 'other.mjs',
      cc_model_filenames: { '7.5': 'x.plan' },
      metric_tags: { team: 'a' },
    });
  });
});

describe('loads', () => {
  /** Fails twice, then loads. */
  const shaky = `import { appendFileSync, readFileSync } from 'node:fs';
const tries = new URL('../../../tries', import.meta.url);
appendFileSync(tries, 'x');
if (readFileSync(tries, 'utf8').length < 3) throw new Error('not yet');
export default ({ X }) => ({ Y: X });
`;

  it.each([
    [1, '400', 2],
    [2, '200', 3],
  ])('are tried %d more times', async (retries, status, tries) => {
    await scratch.write({
      'models/m/config.pbtxt': `backend: "javascript" ${tensors} instance_group { count: 1 }`,
      'models/m/1/model.mjs': shaky,
    });
    const url = await start(`--model-load-retry-count=${retries}`);
    expect((await load(url, 'm')).slice(0, 3)).toBe(status);
    expect(await readFile(join(scratch.path, 'tries'), 'utf8')).toHaveLength(tries);
  });

  it.each([
    [1, 1],
    [2, 2],
    [4, 4],
  ])('run %d at a time at most', async (threads, most) => {
    // Each waits for as many as may run: with fewer at a time the start would never end.
    const meeting = (name: string) => `import { appendFileSync, readFileSync } from 'node:fs';
const log = new URL('../../../log', import.meta.url);
appendFileSync(log, '+${name}\\n');
while (readFileSync(log, 'utf8').split('+').length <= ${most}) {
  await new Promise((resolve) => setTimeout(resolve, 10));
}
appendFileSync(log, '-${name}\\n');
export default ({ X }) => ({ Y: X });
`;
    for (const name of ['a', 'b', 'c', 'd']) {
      await scratch.write({
        [`models/${name}/config.pbtxt`]: `backend: "javascript" ${tensors} instance_group { count: 1 }`,
        [`models/${name}/1/model.mjs`]: meeting(name),
      });
    }
    await start('--load-model=*', `--model-load-thread-count=${threads}`);
    let [running, peak] = [0, 0];
    for (const line of (await readFile(join(scratch.path, 'log'), 'utf8')).trim().split('\n')) {
      running += line.startsWith('+') ? 1 : -1;
      peak = Math.max(peak, running);
    }
    expect(peak).toBe(most);
  });
});
