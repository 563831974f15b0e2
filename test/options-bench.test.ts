import { describe, expect, it } from 'vitest';
import { readCommandLine } from '../src/cli.js';

function bench(...argv: readonly string[]) {
  const commandLine = readCommandLine(['bench', ...argv], {});
  if (commandLine.type !== 'bench') throw new Error(JSON.stringify(commandLine));
  return commandLine.options;
}

function tune(...argv: readonly string[]) {
  const commandLine = readCommandLine(['tune', ...argv], {});
  if (commandLine.type !== 'tune') throw new Error(JSON.stringify(commandLine));
  return commandLine.options;
}

function problem(...argv: readonly string[]): string {
  const commandLine = readCommandLine(argv, {});
  if (commandLine.type !== 'invalid') throw new Error(JSON.stringify(commandLine));
  return commandLine.text;
}

describe('nereid bench', () => {
  it('takes a command line of perf_analyzer', () => {
    const options = bench(
      ...['-m', 'resnet', '-x', '2', '-u', 'h:8000', '-i', 'HTTP', '-b', '8', '-a'],
      ...['--concurrency-range', '1:8:2', '-p', '2000', '-s', '5', '-r', '4', '-l', '20'],
      ...['--percentile=95', '--shape', 'X:3,224', '--shape=Y:1', '-H', 'A: b', '-f', 'o.csv'],
      ...['--service-kind=triton', '--shared-memory=none', '--measurement-mode=time_windows'],
    );
    expect(options).toMatchObject({
      url: 'h:8000',
      call: { model: { name: 'resnet', version: '2' }, batchSize: 8, headers: [['A', 'b']] },
      load: { kind: 'concurrency', range: { start: 1, end: 8, step: 2 } },
      latencyThresholdMs: 20,
      measurement: { intervalMs: 2000, stabilityPercentage: 5, trialsMax: 4, percentile: 95 },
      csvFile: 'o.csv',
    });
    expect([...options.call.shapes]).toEqual([
      ['X', [3, 224]],
      ['Y', [1]],
    ]);
  });

  it('sends binary tensors of random values by default, one caller, five seconds a window', () => {
    expect(bench('-m', 'm')).toMatchObject({
      url: 'localhost:8000',
      call: {
        input: { kind: 'random', stringLength: 128 },
        inputFormat: 'binary',
        outputFormat: 'binary',
        batchSize: 1,
      },
      load: { kind: 'concurrency', range: { start: 1, end: 1, step: 1 } },
      latencyThresholdMs: Number.POSITIVE_INFINITY,
      measurement: { intervalMs: 5000, stabilityPercentage: 10, trialsMax: 10, percentile: 0 },
    });
  });

  it('reads rates with fractions and their distribution', () => {
    const argv = ['--request-rate-range=0.5:2.5:0.5', '--request-distribution=poisson'];
    expect(bench('-m', 'm', ...argv).load).toEqual({
      kind: 'request-rate',
      range: { start: 0.5, end: 2.5, step: 0.5 },
      distribution: 'poisson',
      connectionsMax: 256,
    });
  });

  it.each([
    ['no model', [], '-m MODEL is missing'],
    ['an option that is not known', ['-m', 'm', '--foo'], "unrecognized option '--foo'"],
    ['a letter that is not known', ['-m', 'm', '-z'], "unrecognized option '-z'"],
    ['an argument without a dash', ['-m', 'm', 'x'], "unexpected argument 'x'"],
    ['gRPC', ['-m', 'm', '-i', 'grpc'], 'only HTTP is spoken'],
    ['requests one by one', ['-m', 'm', '--sync'], 'never sent one after the other'],
    ['shared memory', ['-m', 'm', '--shared-memory=system'], 'tensors travel in the request'],
    ['windows by count', ['-m', 'm', '--measurement-mode=count_windows'], 'windows end with time'],
    ['sequences', ['-m', 'm', '--num-of-sequences=2'], 'sequences are not sent'],
    [
      'two kinds of load',
      ['-m', 'm', '--concurrency-range=2', '--request-rate-range=2'],
      'exclude',
    ],
    ['a distribution of no rate', ['-m', 'm', '--request-distribution=poisson'], 'no effect'],
    ['connections of no rate', ['-m', 'm', '--max-connections=2'], 'no effect'],
    ['a search without an end', ['-m', 'm', '--binary-search'], 'needs a --latency-threshold'],
    [
      'random strings beside a text',
      ['-m', 'm', '--string-data=a', '--string-length=3'],
      'no effect',
    ],
    ['a text beside zeros', ['-m', 'm', '--input-data=zero', '--string-data=a'], 'no effect'],
    ['a file that is not there', ['-m', 'm', '--input-data=none.json'], "'none.json'"],
    ['a range that goes down', ['-m', 'm', '--concurrency-range=4:2'], 'start:end:step'],
    ['a range of four', ['-m', 'm', '--concurrency-range=1:2:3:4'], 'start:end:step'],
    ['half a caller', ['-m', 'm', '--concurrency-range=1.5'], '1 to 16384'],
    ['no caller', ['-m', 'm', '--concurrency-range=0'], 'above 0'],
    ['a shape without a name', ['-m', 'm', '--shape=3,4'], 'NAME:d1,d2'],
    ['a header without a value', ['-m', 'm', '-H', 'x'], 'NAME:value'],
    ['a percentile of 100', ['-m', 'm', '--percentile=100'], '0 to 99'],
  ])('refuses %s', (_, argv, message) => {
    expect(problem('bench', ...argv)).toContain(message);
  });
});

describe('nereid tune', () => {
  it('takes the model before or behind its options', () => {
    const expected = { model: 'm', repositories: ['/a', '/b'], latencyTargetMs: 5 };
    const options = ['--model-repository=/a', '--model-repository', '/b', '--latency-target-ms=5'];
    expect(tune('m', ...options)).toMatchObject(expected);
    expect(tune(...options, 'm')).toMatchObject(expected);
  });

  it('writes nothing and has three minutes by default', () => {
    expect(tune('m', '--model-repository=/a')).toMatchObject({
      isWriting: false,
      durationMaxSecs: 180,
      percentile: 95,
      concurrency: undefined,
      latencyTargetMs: Number.POSITIVE_INFINITY,
    });
  });

  it.each([
    ['no model', ['--model-repository=/a'], 'MODEL is missing'],
    ['no repository', ['m'], '--model-repository is missing'],
    ['a percentile of no target', ['m', '--model-repository=/a', '--percentile=99'], 'no effect'],
    ['a target of nothing', ['m', '--model-repository=/a', '--latency-target-ms=0'], 'above 0'],
  ])('refuses %s', (_, argv, message) => {
    expect(problem('tune', ...argv)).toContain(message);
  });
});

describe('--help', () => {
  it('lists the commands, and each command lists its options with their short forms', () => {
    const help = (...argv: readonly string[]) => {
      const commandLine = readCommandLine(argv, {});
      return commandLine.type === 'help' ? commandLine.text : '';
    };
    expect(help('--help')).toMatch(/nereid bench -m MODEL.*nereid tune MODEL/s);
    expect(help('bench', '--help')).toContain('-m, --model-name <string>');
    expect(help('tune', '-h')).toContain('--latency-target-ms <number>');
  });
});
