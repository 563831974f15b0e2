import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelHeader, testInterpreter } from '../backends/python/python-models.js';
import { GrpcClient } from '../grpc/grpc-client.js';
import { ServerProcess } from '../support/server-process.js';
import { inferOne, WrittenRepository } from '../support/written-repository.js';

/*
 * Requests whose client goes away while they run. The models run two requests at once: X = 1 stays
 * until it is told that its client has gone, X = 0 is answered when the other one has been told.
 */

const javascript = `
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
export default class {
  initialize({ modelRepository }) { this.folder = modelRepository; }
  async execute(requests) {
    const long = requests.find((request) => request.inputs[0].data[0] === 1);
    writeFileSync(join(this.folder, 'running'), '');
    if (long !== undefined) {
      await new Promise((resolve) => long.signal.addEventListener('abort', resolve));
      writeFileSync(join(this.folder, 'told'), '');
    }
    return requests.map(() => ({ outputs: [{ name: 'Y', data: [requests.length] }] }));
  }
}`;

const python = `${modelHeader}
import os, time
class TritonPythonModel:
    def initialize(self, args):
        self.folder = args["model_repository"]
    def execute(self, requests):
        open(os.path.join(self.folder, "running"), "w").close()
        for request in requests:
            if request.inputs()[0].as_numpy().flat[0] == 1:
                while not request.is_cancelled():
                    time.sleep(0.002)
                open(os.path.join(self.folder, "told"), "w").close()
        count = np.array([[len(requests)]], np.int32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", count)]) for _ in requests]
`;

const config = `max_batch_size: 2
input { name: "X" data_type: TYPE_INT32 dims: 1 }
output { name: "Y" data_type: TYPE_INT32 dims: 1 }
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { preferred_batch_size: 2 max_queue_delay_microseconds: 600000000 }
`;

describe.each([
  { backend: 'javascript', source: javascript },
  { backend: 'python', source: python },
] as const)('a request to a $backend model that is running', ({ backend, source }) => {
  const names = ['hang-up', 'cancel', 'deadline'];
  let repository: WrittenRepository;
  let server: ServerProcess;
  let grpc: GrpcClient;
  beforeAll(async () => {
    repository = await WrittenRepository.create(
      Object.fromEntries(names.map((name) => [name, { backend, source, config }])),
    );
    server = await ServerProcess.start([
      `--model-repository=${repository.directory}`,
      `--backend-config=python,interpreter=${testInterpreter()}`,
    ]);
    grpc = new GrpcClient(server.grpcTarget);
  });
  afterAll(async () => {
    grpc.close();
    await server.stop();
    await repository.remove();
  });

  const until = (model: string, file: string) =>
    expect
      .poll(() => existsSync(join(repository.directory, model, file)), { timeout: 10_000 })
      .toBe(true);
  const callOf = (model: string, x: number) => ({
    model_name: model,
    inputs: [{ name: 'X', datatype: 'INT32', shape: [1, 1], contents: { int_contents: [x] } }],
  });

  it('is told that its HTTP client has hung up; its neighbour is answered', async () => {
    const hangUp = new AbortController();
    const gone = fetch(`${server.httpUrl}/v2/models/hang-up/infer`, {
      method: 'POST',
      headers: { connection: 'close' },
      signal: hangUp.signal,
      body: JSON.stringify({
        inputs: [{ name: 'X', datatype: 'INT32', shape: [1, 1], data: [1] }],
      }),
    }).catch(() => 'gone');
    const neighbour = grpc.call('ModelInfer', callOf('hang-up', 0));
    await until('hang-up', 'running');
    hangUp.abort();
    expect(await gone).toBe('gone');
    await until('hang-up', 'told');
    expect((await neighbour).code).toBe(status.OK);
  });

  it.each([
    ['its gRPC client has cancelled', 'cancel', status.CANCELLED],
    ['its deadline has passed', 'deadline', status.DEADLINE_EXCEEDED],
  ] as const)('is told that %s; its neighbour is answered', async (_what, model, code) => {
    let cancel: () => void = () => {};
    const gone = grpc.call('ModelInfer', callOf(model, 1), {
      onStart: (cancelCall) => {
        cancel = cancelCall;
      },
      ...(model === 'deadline' ? { deadlineMs: 1500 } : {}),
    });
    const neighbour = grpc.call('ModelInfer', callOf(model, 0));
    await until(model, 'running');
    if (model === 'cancel') cancel();
    expect((await gone).code).toBe(code);
    await until(model, 'told');
    expect((await neighbour).code).toBe(status.OK);
  });
});

it.each([
  ['of KIND_MODEL', 'instance_group { kind: KIND_MODEL count: 1 }', 200],
  ['with a host policy', 'instance_group { kind: KIND_CPU count: 2 host_policy: "policy_0" }', 200],
  [
    'that is passive beside one that serves',
    'instance_group { name: "a" kind: KIND_CPU count: 1 } instance_group { name: "b" kind: KIND_CPU count: 1 passive: true }',
    200,
  ],
])('takes an instance group %s', async (_what, group, expected) => {
  const repository = await WrittenRepository.create({
    m: {
      config: `input { name: "X" data_type: TYPE_INT32 dims: 1 }
        output { name: "Y" data_type: TYPE_STRING dims: 1 }\n${group}`,
      source: `export default class {
        initialize({ modelInstanceName, modelInstanceKind }) { this.text = modelInstanceName + ' ' + modelInstanceKind; }
        execute(requests) { return requests.map(() => ({ outputs: [{ name: 'Y', data: [this.text] }] })); }
      }`,
    },
  });
  const server = await ServerProcess.start([`--model-repository=${repository.directory}`]);
  try {
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => inferOne(server.httpUrl, 'm', 1)),
    );
    expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => expected));
    const names = new Set(answers.map(({ value }) => value));
    // A passive instance is loaded and never asked.
    expect([...names].filter((name) => String(name).startsWith('b'))).toEqual([]);
    const config = await fetch(`${server.httpUrl}/v2/models/m/config`, {
      headers: { connection: 'close' },
    });
    const { instance_group } = (await config.json()) as {
      readonly instance_group: readonly Readonly<Record<string, unknown>>[];
    };
    for (const [, key = '', value] of group.matchAll(/(host_policy|kind): "?(\w+)"?/g)) {
      expect(instance_group.map((one) => one[key])).toContain(value);
    }
  } finally {
    await server.stop();
    await repository.remove();
  }
});
