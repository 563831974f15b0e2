import { afterAll, beforeAll, expect, it } from 'vitest';
import { ServerProcess } from '../support/server-process.js';
import { inferOne, oneNumber, WrittenRepository } from '../support/written-repository.js';

/**
 * X is written n digits, read from the right: 0 answers; 1 calls `one`, 2 calls `two`, with what is
 * left. Every answer counts the calls on its way; `fan` makes three calls at once.
 */
const source = `
const models = { 1: 'one', 2: 'two', 3: 'three' };
export default class Caller {
  initialize({ host, modelName }) { this.host = host; this.modelName = modelName; }
  async execute(requests) {
    return Promise.all(requests.map((request) => this.answer(request.inputs[0].data[0])));
  }
  async answer(x) {
    if (x === 0) return { outputs: [{ name: 'Y', shape: [1], data: [0] }] };
    const calls = this.modelName === 'fan' ? 3 : 1;
    const sums = await Promise.all(Array.from({ length: calls }, () => this.call(x)));
    return { outputs: [{ name: 'Y', shape: [1], data: [sums.reduce((a, b) => a + b)] }] };
  }
  async call(x) {
    const response = await this.host.infer({
      modelName: models[x % 10],
      inputs: [{ name: 'X', datatype: 'INT32', shape: [1], data: [Math.floor(x / 10)] }],
    });
    return response.getOutput('Y').data[0] + 1;
  }
}`;

const config = (count: number): string =>
  `${oneNumber('TYPE_INT32')}instance_group { count: ${count} kind: KIND_CPU }`;

let repository: WrittenRepository;
let server: ServerProcess;
beforeAll(async () => {
  repository = await WrittenRepository.create({
    one: { config: config(1), source },
    two: { config: config(2), source },
    three: { config: config(3), source },
    fan: { config: config(1), source },
  });
  server = await ServerProcess.start([`--model-repository=${repository.directory}`]);
});
afterAll(async () => {
  await server.stop();
  await repository.remove();
});

it.each([
  ['a model that calls another, which calls a third', 'one', 32, 2],
  ['three calls at once of a model with fewer instances', 'fan', 1, 3],
  ['three calls at once, each of which calls on', 'fan', 12, 6],
  ['a model that calls itself as deep as it has instances', 'three', 33, 2],
])('answers %s', async (_what, model, x, calls) => {
  expect((await inferOne(server.httpUrl, model, x)).value).toBe(calls);
});

it.each([
  ['a model that calls itself', 'one', 1],
  ['a model that calls itself deeper than it has instances', 'three', 333],
  ['two models that call each other', 'one', 12],
  ['a ring through a model with free instances', 'one', 132],
])('fails instead of waiting for ever: %s', async (_what, model, x) => {
  const { status, error } = await inferOne(server.httpUrl, model, x);
  expect([status, error]).toEqual([500, expect.stringContaining('can never run')]);
  expect((await inferOne(server.httpUrl, model, 0)).value).toBe(0);
});
