import { afterAll, beforeAll, expect, it } from 'vitest';
import { ServerProcess } from '../support/server-process.js';
import { inferOne, oneNumber, WrittenRepository } from '../support/written-repository.js';

/** The response cache of the compiled server: what tells requests apart, loads, equal requests. */

const cached = 'response_cache { enable: true }\ninstance_group { count: 1 kind: KIND_CPU }\n';

/** Answers which execution the request was; takes `SLOW` milliseconds where it is asked to. */
const source = (greeting: string): string => `
import { setTimeout as sleep } from 'node:timers/promises';
let executions = 0;
export default class {
  async execute(requests) {
    executions += 1;
    await sleep(Number(requests[0].parameters.slow ?? 0));
    return requests.map((request) => {
      const outputs = ['Y', 'Z'].map((name) => ({ name, shape: [1], data: ['${greeting} ' + executions] }));
      const wanted = request.requestedOutputs;
      return { outputs: outputs.filter(({ name }) => wanted.length === 0 || wanted.includes(name)) };
    });
  }
}`;

const tensors = `
input { name: "A" data_type: TYPE_INT32 dims: [ -1, -1 ] }
input { name: "B" data_type: TYPE_INT32 dims: [ -1, -1 ] }
output { name: "Y" data_type: TYPE_STRING dims: 1 }
output { name: "Z" data_type: TYPE_STRING dims: 1 }
`;

const oneMore = `${oneNumber()}output { name: "Z" data_type: TYPE_STRING dims: 1 }\n`;

let repository: WrittenRepository;
let server: ServerProcess;
beforeAll(async () => {
  repository = await WrittenRepository.create({
    m: { config: `${tensors}${cached}`, source: source('first') },
    other: { config: `${tensors}${cached}`, source: source('other') },
    one: { config: `${oneMore}${cached}`, source: source('one') },
    uncached: {
      config: `${oneMore}instance_group { count: 1 kind: KIND_CPU }`,
      source: source('plain'),
    },
  });
  server = await ServerProcess.start([
    `--model-repository=${repository.directory}`,
    '--model-control-mode=explicit',
    '--load-model=*',
    '--cache-config=local,size=1048576',
  ]);
});
afterAll(async () => {
  await server.stop();
  await repository.remove();
});

interface Request {
  readonly a?: readonly number[];
  readonly shape?: readonly number[];
  readonly b?: readonly number[];
  readonly outputs?: readonly string[];
  readonly parameters?: Readonly<Record<string, unknown>>;
  readonly id?: string;
  readonly model?: string;
  readonly isSwapped?: boolean;
}

async function ask(request: Request): Promise<string> {
  const { a = [1, 2, 3, 4], shape = [2, 2], b = [5, 6, 7, 8], parameters = {} } = request;
  const inputs = [
    { name: 'A', datatype: 'INT32', shape, data: a },
    { name: 'B', datatype: 'INT32', shape, data: b },
  ];
  const response = await fetch(`${server.httpUrl}/v2/models/${request.model ?? 'm'}/infer`, {
    method: 'POST',
    // A connection that is kept holds the end of the server.
    headers: { connection: 'close' },
    body: JSON.stringify({
      id: request.id,
      parameters,
      inputs: request.isSwapped ? inputs.reverse() : inputs,
      outputs: (request.outputs ?? []).map((name) => ({ name })),
    }),
  });
  // The server's own answer.
  const body = (await response.json()) as {
    readonly outputs: readonly { readonly data: readonly string[] }[];
  };
  return body.outputs[0]?.data[0] ?? '';
}

async function cacheCounts(model: string) {
  const response = await fetch(`${server.httpUrl}/v2/models/${model}/stats`, {
    headers: { connection: 'close' },
  });
  // The server's own statistics.
  const { model_stats } = (await response.json()) as {
    readonly model_stats: readonly {
      readonly execution_count: number;
      readonly inference_stats: Readonly<Record<string, { readonly count: number }>>;
    }[];
  };
  const { execution_count = 0, inference_stats = {} } = model_stats[0] ?? {};
  return {
    executions: execution_count,
    successes: inference_stats['success']?.count,
    hits: inference_stats['cache_hit']?.count,
    misses: inference_stats['cache_miss']?.count,
  };
}

it.each<readonly [string, Request]>([
  ['its id', { id: 'another' }],
  ['the order of its inputs', { isSwapped: true }],
  ['its priority', { parameters: { priority: 3 } }],
  ['its timeout', { parameters: { timeout: 1_000_000 } }],
])('answers a request from the cache that differs in %s alone', async (_what, request) => {
  const first = await ask({});
  expect(await ask(request)).toBe(first);
});

it.each<readonly [string, Request]>([
  ['the bytes of an input', { a: [1, 2, 3, 5] }],
  ['the same bytes in the other input', { a: [5, 6, 7, 8], b: [1, 2, 3, 4] }],
  ['the shape, with the same bytes', { shape: [1, 4] }],
  ['the requested outputs', { outputs: ['Y'] }],
  ['other requested outputs', { outputs: ['Z'] }],
  ['a parameter', { parameters: { slow: 1 } }],
  ['the type of a parameter', { parameters: { slow: '1' } }],
  ['the model', { model: 'other' }],
])('computes an answer where a request differs in %s', async (_what, request) => {
  const before = await cacheCounts(request.model ?? 'm');
  const first = await ask({});
  const answer = await ask(request);
  expect(answer).not.toBe(first);
  expect(await ask(request)).toBe(answer);
  expect((await cacheCounts(request.model ?? 'm')).executions).toBeGreaterThan(before.executions);
});

it('forgets the answers of a model that was loaded anew from other files', async () => {
  const before = await ask({});
  expect(before).toMatch(/^first /);
  const load = () =>
    fetch(`${server.httpUrl}/v2/repository/models/m/load`, {
      method: 'POST',
      headers: { connection: 'close' },
    });
  await repository.write('m', { config: `${tensors}${cached}`, source: source('second') });
  expect((await load()).status).toBe(200);
  expect(await ask({})).toBe('second 1');
  expect(await ask({})).toBe('second 1');
});

it('runs equal requests once that are there at the same time, and counts hits and misses', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => inferOne(server.httpUrl, 'one', 1, { slow: 50 })),
  );
  expect(new Set(answers.map(({ value }) => value))).toEqual(new Set(['one 1']));
  expect(await cacheCounts('one')).toEqual({ executions: 1, successes: 20, hits: 19, misses: 1 });
});

it('leaves models alone that do not want it', async () => {
  const answers = [1, 2].map(() => inferOne(server.httpUrl, 'uncached', 1));
  expect((await Promise.all(answers)).map(({ value }) => value).sort()).toEqual([
    'plain 1',
    'plain 2',
  ]);
  expect(await cacheCounts('uncached')).toMatchObject({ hits: 0, misses: 0 });
});
