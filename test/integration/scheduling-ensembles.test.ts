import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { GrpcClient } from '../grpc/grpc-client.js';
import { ServerProcess } from '../support/server-process.js';
import { inferOne, WrittenRepository } from '../support/written-repository.js';

/** Ensembles of JavaScript models in the compiled server: faults, branches, errors, limits. */

const tensor = (kind: 'input' | 'output', name: string, type = 'TYPE_INT32', dims = '1'): string =>
  `${kind} { name: "${name}" data_type: ${type} dims: [ ${dims} ] }\n`;
const xToY = `${tensor('input', 'X')}${tensor('output', 'Y')}`;
const instance = 'instance_group { count: 1 kind: KIND_CPU }\n';

/** Twice X; refuses 13, and answers without Y where it is asked for 14. */
const double = `export default class {
  execute(requests) {
    return requests.map((request) => {
      const [x] = request.getInput('X').data;
      if (x === 13) return Object.assign(new Error('13 is not doubled'), { code: 'INVALID_ARG' });
      if (x === 14) return { outputs: [] };
      return { outputs: [{ name: 'Y', shape: [1], data: [2 * x] }] };
    });
  }
}`;

/** Answers when its twin runs at the same time; each says so by a file beside the models. */
const twin = `
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
export default class {
  initialize({ modelName, modelRepository }) { this.name = modelName; this.folder = dirname(modelRepository); }
  async execute([request]) {
    writeFileSync(join(this.folder, this.name + '.here'), '');
    const other = join(this.folder, (this.name === 'left' ? 'right' : 'left') + '.here');
    for (let turn = 0; !existsSync(other); turn += 1) {
      if (turn === 2000) throw new Error('the other branch did not run');
      await sleep(2);
    }
    return [{ outputs: [{ name: 'Y', shape: [1], data: request.getInput('X').data }] }];
  }
}`;

/** Answers how many requests its execution had. */
const crowd = `
import { setTimeout as sleep } from 'node:timers/promises';
export default class {
  async execute(requests) {
    const crowd = requests.length;
    await sleep(5);
    return requests.map(() => ({ outputs: [{ name: 'Y', shape: [1, 1], data: [crowd] }] }));
  }
}`;

interface Step {
  readonly model: string;
  readonly inputs?: Readonly<Record<string, string>>;
  readonly outputs?: Readonly<Record<string, string>>;
}

function ensemble(tensors: string, steps: readonly Step[], more = ''): string {
  const maps = (field: string, map: Readonly<Record<string, string>> = {}): string =>
    Object.entries(map)
      .map(([key, value]) => `${field} { key: "${key}" value: "${value}" }`)
      .join(' ');
  const texts = steps.map(
    ({ model, inputs, outputs }) =>
      `step { model_name: "${model}" model_version: -1 ${maps('input_map', inputs)} ${maps('output_map', outputs)} }`,
  );
  return `${tensors}ensemble_scheduling { ${texts.join('\n')} }\n${more}`;
}

const models = {
  double: { config: `${xToY}${instance}`, source: double },
  triple: { config: `${xToY}${instance}`, source: double.replace('2 * x', '3 * x') },
  left: { config: `${xToY}${instance}`, source: twin },
  right: { config: `${xToY}${instance}`, source: twin },
  crowd: {
    config: `max_batch_size: 8\n${xToY}${instance}dynamic_batching { max_queue_delay_microseconds: 20000 }\n`,
    source: crowd,
  },
};

const twice = ensemble(xToY, [
  { model: 'double', inputs: { X: 'X' }, outputs: { Y: 'between' } },
  { model: 'double', inputs: { X: 'between' }, outputs: { Y: 'Y' } },
]);

const ensembles: Readonly<Record<string, string>> = {
  twice,
  branches: ensemble(`${tensor('input', 'X')}${tensor('output', 'A')}${tensor('output', 'B')}`, [
    { model: 'double', inputs: { X: 'X' }, outputs: { Y: 'A' } },
    { model: 'triple', inputs: { X: 'X' }, outputs: { Y: 'B' } },
  ]),
  together: ensemble(`${tensor('input', 'X')}${tensor('output', 'A')}${tensor('output', 'B')}`, [
    { model: 'left', inputs: { X: 'X' }, outputs: { Y: 'A' } },
    { model: 'right', inputs: { X: 'X' }, outputs: { Y: 'B' } },
  ]),
  limited: `max_batch_size: 8\n${ensemble(xToY, [
    { model: 'crowd', inputs: { X: 'X' }, outputs: { Y: 'Y' } },
  ]).replace('ensemble_scheduling {', 'ensemble_scheduling { max_inflight_requests: 2')}`,
  unlimited: `max_batch_size: 8\n${ensemble(xToY, [
    { model: 'crowd', inputs: { X: 'X' }, outputs: { Y: 'Y' } },
  ])}`,
};

let repository: WrittenRepository;
let server: ServerProcess;
beforeAll(async () => {
  repository = await WrittenRepository.create({
    ...models,
    ...Object.fromEntries(
      Object.entries(ensembles).map(([name, config]) => [
        name,
        { config, source: '', backend: 'ensemble' as const },
      ]),
    ),
  });
  server = await ServerProcess.start([
    `--model-repository=${repository.directory}`,
    '--model-control-mode=explicit',
    '--load-model=*',
  ]);
});
afterAll(async () => {
  await server.stop();
  await repository.remove();
});

async function post(path: string, body: unknown) {
  const response = await fetch(`${server.httpUrl}${path}`, {
    method: 'POST',
    // A connection that is kept holds the end of the server.
    headers: { connection: 'close' },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: JSON.parse((await response.text()) || '{}') };
}

const xOf = (x: number) => [{ name: 'X', datatype: 'INT32', shape: [1], data: [x] }];

async function executions(model: string): Promise<number> {
  const response = await fetch(`${server.httpUrl}/v2/models/${model}/stats`, {
    headers: { connection: 'close' },
  });
  // The server's own statistics.
  const { model_stats } = (await response.json()) as {
    readonly model_stats: readonly { readonly execution_count: number }[];
  };
  return model_stats[0]?.execution_count ?? 0;
}

describe('a faulty ensemble is refused at its load', () => {
  const one = { model: 'double', inputs: { X: 'X' }, outputs: { Y: 'Y' } };
  it.each<readonly [string, string, readonly string[]]>([
    ['names an unknown model', ensemble(xToY, [{ ...one, model: 'nobody' }]), ['nobody']],
    ['maps to no input', ensemble(xToY, [{ ...one, inputs: { Z: 'X' } }]), ['double', 'Z', 'X']],
    ['maps from no output', ensemble(xToY, [{ ...one, outputs: { Z: 'Y' } }]), ['double', 'Z']],
    ['feeds no input of a step', ensemble(xToY, [{ ...one, inputs: {} }]), ['input_map', 'step 0']],
    [
      'reads a tensor that nobody writes',
      ensemble(`${xToY}${tensor('output', 'W')}`, [
        one,
        { model: 'triple', inputs: { X: 'air' }, outputs: { Y: 'W' } },
      ]),
      ['air'],
    ],
    ['leaves an output unwritten', ensemble(`${xToY}${tensor('output', 'W')}`, [one]), ['W']],
    ['writes a tensor twice', ensemble(xToY, [one, { ...one, model: 'triple' }]), ['Y']],
    [
      'goes round in circles',
      ensemble(xToY, [
        { model: 'double', inputs: { X: 'b' }, outputs: { Y: 'a' } },
        { model: 'triple', inputs: { X: 'a' }, outputs: { Y: 'b' } },
        one,
      ]),
      ['a'],
    ],
    [
      'joins other datatypes',
      ensemble(`${tensor('input', 'X', 'TYPE_FP32')}${tensor('output', 'Y')}`, [one]),
      ['X', 'double', 'TYPE_FP32', 'TYPE_INT32'],
    ],
    [
      'joins other shapes',
      ensemble(`${tensor('input', 'X', 'TYPE_INT32', '2')}${tensor('output', 'Y')}`, [one]),
      ['X', 'double', '[2]', '[1]'],
    ],
    [
      'batches more than a step',
      `max_batch_size: 16\n${ensemble(xToY, [{ ...one, model: 'crowd' }])}`,
      ['crowd', '16', '8'],
    ],
  ])('that %s, which the error names', async (_name, config, words) => {
    await repository.write('faulty', { config, source: '', backend: 'ensemble' });
    const logStart = server.log.length;
    const { status, body } = await post('/v2/repository/models/faulty/load', {});
    expect(status).toBeGreaterThanOrEqual(400);
    // Of a configuration that makes no sense alone, the answer says no more than the reference's.
    const said = (): string => `${body.error}\n${server.log.slice(logStart)}`;
    for (const word of words) await expect.poll(said).toContain(word);
  });
});

describe('an ensemble', () => {
  it('hands tensors on from step to step', async () => {
    expect(await inferOne(server.httpUrl, 'twice', 5)).toMatchObject({ value: 20 });
  });

  it('fails with the error of its step, which keeps its kind', async () => {
    const { status, error } = await inferOne(server.httpUrl, 'twice', 13);
    expect(status).toBe(400);
    expect(error).toBe("in ensemble 'twice', 13 is not doubled");
  });

  it('says that a step left an output out', async () => {
    const { status, error } = await inferOne(server.httpUrl, 'twice', 14);
    expect(status).toBe(400);
    expect(error).toContain("in ensemble 'twice'");
  });

  it('runs only the steps that the requested outputs need', async () => {
    const before = [await executions('double'), await executions('triple')];
    const { body } = await post('/v2/models/branches/infer', {
      inputs: xOf(5),
      outputs: [{ name: 'B' }],
    });
    expect(body.outputs).toMatchObject([{ name: 'B', data: [15] }]);
    const after = [await executions('double'), await executions('triple')];
    expect(after).toEqual([before[0], (before[1] ?? 0) + 1]);
  });

  it('runs its branches at the same time', async () => {
    const { status, body } = await post('/v2/models/together/infer', { inputs: xOf(7) });
    expect([status, body.error]).toEqual([200, undefined]);
  });

  it.each([
    ['unlimited', 8],
    ['limited', 2],
  ])('of %s step requests has at most %i in a batch of its step', async (model, most) => {
    const batch = (x: number) =>
      post(`/v2/models/${model}/infer`, {
        inputs: [{ name: 'X', datatype: 'INT32', shape: [1, 1], data: [x] }],
      });
    const answers = await Promise.all(Array.from({ length: 24 }, (_, x) => batch(x)));
    const sizes = answers.map(({ body }) => Number(body.outputs?.[0].data[0]));
    expect(sizes).toHaveLength(24);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(most);
    expect(Math.max(...sizes)).toBeGreaterThan(1);
  });

  it('passes a cancellation on to the step that waits', async () => {
    const client = new GrpcClient(server.grpcTarget);
    const before = await executions('crowd');
    const { code } = await client.call(
      'ModelInfer',
      {
        model_name: 'unlimited',
        inputs: [{ name: 'X', datatype: 'INT32', shape: [1, 1], contents: { int_contents: [1] } }],
      },
      { onStart: (cancel) => setImmediate(cancel) },
    );
    client.close();
    expect(code).toBe(1);
    // Its step's request waited for company and is gone: this one runs alone.
    const { body } = await post('/v2/models/unlimited/infer', {
      inputs: [{ name: 'X', datatype: 'INT32', shape: [1, 1], data: [1] }],
    });
    expect(body.outputs[0].data).toEqual([1]);
    expect(await executions('crowd')).toBe(before + 1);
  });
});
