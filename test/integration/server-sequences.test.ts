import { afterEach, expect, it } from 'vitest';
import { ServerProcess } from '../support/server-process.js';
import { inferOne, oneNumber, WrittenRepository } from '../support/written-repository.js';

/** Adds up what each of its sequences sends, in the instance's own memory. */
const source = `
export default class Sum {
  initialize({ modelInstanceName }) { this.name = modelInstanceName; this.sums = new Map(); }
  execute(requests) {
    return requests.map(({ correlationId, isSequenceStart, inputs }) => {
      const before = isSequenceStart ? 0 : this.sums.get(correlationId);
      const sum = before + inputs[0].data[0];
      this.sums.set(correlationId, sum);
      return { outputs: [{ name: 'Y', shape: [1], data: [this.name + ' ' + sum] }] };
    });
  }
}`;

const config = (count: number, strategy: string): string =>
  `${oneNumber()}instance_group { name: "g" count: ${count} kind: KIND_CPU }\n` +
  `sequence_batching { max_sequence_idle_microseconds: 60000000 ${strategy} }`;

let repository: WrittenRepository;
let server: ServerProcess;
afterEach(async () => {
  await server.stop();
  await repository.remove();
});

const rounds = 4;

it.each(['direct {}', 'oldest { max_candidate_sequences: 4 }'])(
  'keeps every sequence on the instance that began it: %s',
  async (strategy) => {
    repository = await WrittenRepository.create({ sum: { config: config(3, strategy), source } });
    server = await ServerProcess.start([`--model-repository=${repository.directory}`]);
    const ids = [1, 2, 3];
    const answers = new Map<number, unknown[]>(ids.map((id) => [id, []]));
    for (let round = 1; round <= rounds; round += 1) {
      await Promise.all(
        ids.map(async (id) => {
          const { value, error } = await inferOne(server.httpUrl, 'sum', id, {
            sequence_id: id,
            sequence_start: round === 1,
            sequence_end: round === rounds,
          });
          answers.get(id)?.push(value ?? error);
        }),
      );
    }
    const instances = ids.map((id) => String(answers.get(id)?.[0]).split(' ')[0]);
    expect(new Set(instances)).toEqual(new Set(['g_0', 'g_1', 'g_2']));
    expect([...answers.values()]).toEqual(
      ids.map((id, index) => [1, 2, 3, 4].map((round) => `${instances[index]} ${id * round}`)),
    );
  },
);

it('serves another number of instances after a new load', async () => {
  repository = await WrittenRepository.create({ sum: { config: config(1, 'direct {}'), source } });
  server = await ServerProcess.start([
    `--model-repository=${repository.directory}`,
    '--model-control-mode=explicit',
    '--load-model=sum',
  ]);
  await repository.write('sum', { config: config(2, 'direct {}'), source });
  const load = await fetch(`${server.httpUrl}/v2/repository/models/sum/load`, {
    method: 'POST',
    headers: { connection: 'close' },
  });
  expect(load.status).toBe(200);
  const names = await Promise.all(
    [1, 2].map(async (id) => {
      const parameters = { sequence_id: id, sequence_start: true };
      return (await inferOne(server.httpUrl, 'sum', id, parameters)).value;
    }),
  );
  expect(names.sort()).toEqual(['g_0 1', 'g_1 2']);
});
