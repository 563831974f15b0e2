import { afterAll, beforeAll, expect, it } from 'vitest';
import { ServerProcess } from '../support/server-process.js';
import { inferOne, oneNumber, WrittenRepository } from '../support/written-repository.js';

const source = `
export default class Delay {
  async execute(requests) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    return requests.map(() => ({ outputs: [{ name: 'Y', shape: [1], data: ['done'] }] }));
  }
}`;

let repository: WrittenRepository;
let server: ServerProcess;
beforeAll(async () => {
  repository = await WrittenRepository.create({ delay: { config: oneNumber(), source } });
  server = await ServerProcess.start([
    `--model-repository=${repository.directory}`,
    '--max-inflight-requests=2',
  ]);
});
afterAll(async () => {
  await server.stop();
  await repository.remove();
});

it('turns requests over the limit away, says when to come back, and serves them then', async () => {
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => inferOne(server.httpUrl, 'delay', 1)),
  );
  const outcome = answers.map(({ status, headers }) => `${status} ${headers.get('retry-after')}`);
  expect(outcome.sort()).toEqual(['200 null', '200 null', '503 1', '503 1', '503 1']);
  expect((await inferOne(server.httpUrl, 'delay', 1)).value).toBe('done');
});
