import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runServer, ServerProcess } from '../support/server-process.js';
import { WrittenRepository } from '../support/written-repository.js';

const examples = fileURLToPath(new URL('../../examples/imagenet/models', import.meta.url));
const short = [
  ...['--max-duration=20', '--measurement-interval=50', '--concurrency=16'],
  ...['--max-batch-size=16', '--max-instances=1'],
];

/** An execution takes 5 ms, whatever its batch is: more rows in it are more rows a second. */
const source = `const cell = new Int32Array(new SharedArrayBuffer(4));
export default ({ X }) => {
  Atomics.wait(cell, 0, 0, 5);
  return { Y: X };
};`;
const config = `# written by hand
max_batch_size: 1
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
dynamic_batching { }
`;

let repository: WrittenRepository;
let configFile: string;
beforeAll(async () => {
  repository = await WrittenRepository.create({ constant_time: { config, source } });
  configFile = join(repository.directory, 'constant_time', 'config.pbtxt');
});
afterAll(() => repository.remove());

const tune = (...argv: readonly string[]) =>
  runServer([
    'tune',
    'constant_time',
    `--model-repository=${repository.directory}`,
    ...short,
    ...argv,
  ]);

describe('nereid tune', { timeout: 120_000 }, () => {
  it('changes no file without --write', async () => {
    const before = await readFile(configFile, 'utf8');
    const { exitCode, stdout } = await tune();
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/\nmax_batch_size: (4|8|16)\n/)]);
    expect(await readFile(configFile, 'utf8')).toBe(before);
  });

  it('merges what it found into the file, and the server serves it', async () => {
    const before = await readFile(configFile, 'utf8');
    const { exitCode, stdout } = await tune('--write');
    const size = /max batch 1 -> (\d+)/.exec(stdout)?.[1];
    expect([exitCode, Number(size)]).toEqual([0, expect.toSatisfy((rows) => rows >= 4)]);
    const written = await readFile(configFile, 'utf8');
    const firstLines = before.replace('max_batch_size: 1', `max_batch_size: ${size}`).split('\n');
    expect(written.split('\n').slice(0, 5)).toEqual(firstLines.slice(0, 5));
    const server = await ServerProcess.start([`--model-repository=${repository.directory}`]);
    try {
      const response = await fetch(`${server.httpUrl}/v2/models/constant_time/config`, {
        headers: { connection: 'close' },
      });
      expect(await response.json()).toMatchObject({ max_batch_size: Number(size) });
    } finally {
      await server.stop();
    }
    await writeFile(configFile, before);
  });

  it('says that the defaults are best where nothing else is tried', async () => {
    const { exitCode, stdout } = await tune('--max-batch-size=1', '--max-duration=5');
    expect([exitCode, stdout]).toEqual([0, expect.stringContaining('The defaults are best')]);
  });

  it.each([
    ['a model that is not there', ['none', `--model-repository=${examples}`], 'none'],
    ['a folder that is not there', ['mlp', '--model-repository=/none'], '/none'],
    [
      'a file to write that no local folder has',
      ['mlp', `--model-repository=${examples}`, '--write'],
      "has a model 'mlp'",
    ],
  ])('ends with 1 and says why: %s', async (_, argv, message) => {
    const { exitCode, stderr } = await runServer(['tune', ...argv, ...short]);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining(message)]);
  });
});
