import { afterEach, expect, it } from 'vitest';
import { runServer, ServerProcess } from '../support/server-process.js';
import { inferOne, oneNumber, WrittenRepository } from '../support/written-repository.js';

/** Answers when it began and when it ended, on the clock that all threads share. */
const source = `
const now = () => Number(process.hrtime.bigint() / 1000n);
export default class Delay {
  async execute(requests) {
    const begun = now();
    await new Promise((resolve) => setTimeout(resolve, requests[0].inputs[0].data[0]));
    const text = begun + ' ' + now();
    return requests.map(() => ({ outputs: [{ name: 'Y', shape: [1], data: [text] }] }));
  }
}`;

const config = (count: number, limiter: string): string =>
  `${oneNumber()}instance_group { count: ${count} kind: KIND_CPU rate_limiter { ${limiter} } }`;
const slot = 'resources { name: "slot" count: 1 }';

let repository: WrittenRepository | undefined;
let server: ServerProcess | undefined;
afterEach(async () => {
  await server?.stop();
  await repository?.remove();
  server = undefined;
});

/** Sends six requests to the two models at once; the time spans of their executions by start. */
async function spansOf(flags: readonly string[], limits: readonly [string, string]) {
  repository = await WrittenRepository.create({
    one: { config: config(2, limits[0]), source },
    two: { config: config(1, limits[1]), source },
  });
  server = await ServerProcess.start([`--model-repository=${repository.directory}`, ...flags]);
  const { httpUrl } = server;
  const answers = await Promise.all(
    ['one', 'two', 'one', 'two', 'one', 'two'].map((model) => inferOne(httpUrl, model, 40)),
  );
  const spans = answers.map(({ value, error }) => {
    expect(error).toBeUndefined();
    return String(value).split(' ').map(Number);
  });
  return spans.sort(([a = 0], [b = 0]) => a - b);
}

function isOverlapping(spans: readonly (readonly number[])[]): boolean {
  return spans.some(([begun = 0], index) => index > 0 && begun < (spans[index - 1]?.[1] ?? 0));
}

it('never runs two instances at once that need the same resource', async () => {
  const spans = await spansOf(['--rate-limit=execution_count'], [slot, slot]);
  expect(spans).toHaveLength(6);
  expect(isOverlapping(spans)).toBe(false);
});

it.each<[string, readonly string[]]>([
  [
    'there is enough of the resource',
    ['--rate-limit=execution_count', '--rate-limit-resource=SLOT:3'],
  ],
  ['the rate limiter is off', []],
])('runs them together where %s', async (_what, flags) => {
  expect(isOverlapping(await spansOf(flags, [slot, slot]))).toBe(true);
});

it('reloads a limited model for another number of instances', async () => {
  await spansOf(
    ['--rate-limit=execution_count', '--model-control-mode=explicit', '--load-model=*'],
    [slot, slot],
  );
  for (const count of [3, 1]) {
    await repository?.write('one', { config: config(count, slot), source });
    const load = await fetch(`${server?.httpUrl}/v2/repository/models/one/load`, {
      method: 'POST',
      headers: { connection: 'close' },
    });
    expect(load.status).toBe(200);
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => inferOne(server?.httpUrl ?? '', 'one', 5)),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  }
});

it.each([
  [
    'an instance needs more of a resource than there is',
    [slot, 'resources { name: "slot" count: 4 }'],
    ['--rate-limit-resource=slot:3'],
    'Resource count for "slot" is limited to 3 which will prevent scheduling of one or more model instances, the minimum required count is 4',
  ],
  [
    'a resource is of both kinds',
    ['resources { name: "slot" count: 1 global: true }', slot],
    ['--model-load-thread-count=1'],
    'Resource "slot" is present as both global and device-specific resource in the model configuration.',
  ],
])('does not start where %s', async (_what, [first = '', second = ''], flags, message) => {
  repository = await WrittenRepository.create({
    one: { config: config(1, first), source },
    two: { config: config(1, second), source },
  });
  const { exitCode, stdout, stderr } = await runServer([
    `--model-repository=${repository.directory}`,
    '--rate-limit=execution_count',
    ...flags,
  ]);
  expect(exitCode).toBe(1);
  expect(stdout + stderr).toContain(message);
});
