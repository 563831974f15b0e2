import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runServer, ServerProcess } from '../support/server-process.js';
import { WrittenRepository } from '../support/written-repository.js';

const shipped = fileURLToPath(new URL('../../model_repository', import.meta.url));
/** Windows so short that numbers say nothing: what is checked is that they are there. */
const short = ['--measurement-interval=100', '--max-trials=3'];

/** X of 0 to 127 is random: about half of the requests fail. */
const oftenFailing = {
  config: `input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }`,
  source: `export default ({ X }) => {
  if (X.data[0] % 2 === 1) throw new Error('an odd number');
  return { Y: { shape: [1], data: X.data } };
}`,
};

interface ReportStep {
  readonly level: number;
  readonly requests: number;
  readonly failures: Readonly<Record<string, number>>;
  readonly latency_us: Readonly<Record<string, number>>;
  readonly server: readonly { readonly model: string; readonly requests: number }[];
}

let repository: WrittenRepository;
let server: ServerProcess;
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'nereid-bench-'));
  repository = await WrittenRepository.create({ often_failing: oftenFailing });
  server = await ServerProcess.start([
    `--model-repository=${shipped}`,
    `--model-repository=${repository.directory}`,
  ]);
});
afterAll(async () => {
  await server.stop();
  await repository.remove();
  await rm(directory, { recursive: true });
});

async function bench(model: string, ...argv: readonly string[]) {
  const json = join(directory, `${model}.json`);
  const url = server.httpUrl.slice('http://'.length);
  const result = await runServer([
    ...['bench', '-m', model, '-u', url, '--json', json],
    ...short,
    ...argv,
  ]);
  const text = await readFile(json, 'utf8').catch(() => '');
  const steps: readonly ReportStep[] = text === '' ? [] : JSON.parse(text).steps;
  return { ...result, steps };
}

describe('nereid bench', () => {
  it('measures each level and splits the time with the server’s statistics', async () => {
    const csv = join(directory, 'report.csv');
    const { exitCode, stdout, steps } = await bench(
      ...(['add_sub', '--concurrency-range=1:9:4', '-f', csv] as const),
    );
    expect([exitCode, stdout.split('\n')]).toEqual([0, expect.any(Array)]);
    expect(steps.map(({ level }) => level)).toEqual([1, 5, 9]);
    for (const { requests, failures, latency_us, server: split } of steps) {
      expect(requests).toBeGreaterThan(0);
      expect(failures).toEqual({});
      expect(latency_us['p99']).toBeGreaterThanOrEqual(latency_us['p50'] ?? Number.NaN);
      expect(split[0]?.model).toBe('add_sub');
      expect(split[0]?.requests).toBeGreaterThan(0);
    }
    const lines = (await readFile(csv, 'utf8')).trimEnd().split('\n');
    expect(lines.map((line) => line.split(',')[0])).toEqual(['Concurrency', '1', '5', '9']);
    expect(new Set(lines.map((line) => line.split(',').length)).size).toBe(1);
  });

  it.each([
    ['add_sub', ['--request-rate-range=200', '--request-distribution=poisson']],
    ['add_sub', ['-b', '4', '--input-tensor-format=json', '--output-tensor-format=json']],
    ['add_sub', ['--warmup-request-count=20', '--input-data=zero']],
    ['digits', []],
    ['identity_bytes', ['--shape=INPUT0:3', '--string-length=20']],
  ])('calls %s with %s', async (model, argv) => {
    const { exitCode, stderr, steps } = await bench(model, ...argv);
    expect([exitCode, stderr]).toEqual([0, expect.not.stringContaining('FAILED')]);
    expect(steps[0]?.requests).toBeGreaterThan(0);
  });

  it('keeps to an arrival rate', async () => {
    const { stdout } = await bench('add_sub', '--request-rate-range=100', '-p', '500');
    const rate = Number(/^ *100 +(\S+)/m.exec(stdout)?.[1]);
    expect(rate).toBeGreaterThan(70);
    expect(rate).toBeLessThan(130);
  });

  it('counts what fails, says what the server said, and ends with 1', async () => {
    const { exitCode, stderr, steps } = await bench('often_failing', '--random-seed=1');
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/FAILED at 1: \d+ x 500: .*an odd number/);
    expect(steps[0]?.requests).toBeGreaterThan(0);
    expect(Object.keys(steps[0]?.failures ?? {})).toHaveLength(1);
  });

  it.each([
    ['a model that is not there', ['-m', 'none'], "Request for unknown model: 'none'"],
    ['an input without a shape', ['-m', 'identity_bytes', '-b', '999'], '--shape'],
    ['a file that cannot be written', ['-m', 'add_sub', '-f', '/none/report.csv'], 'cannot write'],
  ])('ends with 1 and says why: %s', async (_, argv, message) => {
    const { exitCode, stderr } = await runServer([
      ...['bench', '-u', server.httpUrl],
      ...short,
      ...argv,
    ]);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining(message)]);
  });

  it('ends with 1 where nobody listens', async () => {
    const { exitCode, stderr } = await runServer(['bench', '-m', 'm', '-u', '127.0.0.1:1']);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining('no answer from 127.0.0.1:1')]);
  });
});

describe('nereid bench with a server that has neither configuration nor statistics', () => {
  const metadata = {
    name: 'm',
    inputs: [{ name: 'X', datatype: 'FP32', shape: [-1, 2] }],
    outputs: [],
  };
  let plain: Server;
  let url: string;
  let closesConnections = false;
  beforeAll(async () => {
    plain = createServer((request, response) => {
      request.resume().on('end', () => {
        if (closesConnections) response.setHeader('Connection', 'close');
        if (request.url === '/base/v2/models/m') response.end(JSON.stringify(metadata));
        // Written in two parts: in chunks.
        else if (request.url === '/base/v2/models/m/infer') {
          response.write('{"outputs":');
          response.end('[]}');
        } else response.writeHead(404).end();
      });
    });
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
    const address = plain.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    url = `http://127.0.0.1:${address.port}/base`;
  });
  afterAll(() => plain.close());

  it.each([false, true])('calls it; closing connections: %s', async (isClosing) => {
    closesConnections = isClosing;
    const { exitCode, stdout, stderr } = await runServer([
      ...['bench', '-m', 'm', '-u', url, '--concurrency-range=4'],
      ...short,
    ]);
    expect([exitCode, stderr]).toEqual([0, expect.not.stringContaining('FAILED')]);
    expect(Number(/^ *4 +(\S+)/m.exec(stdout)?.[1])).toBeGreaterThan(0);
  });
});
