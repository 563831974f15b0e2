import type { BenchOptions, LoadOptions } from './bench-client/bench-options.js';
import type { LevelRange } from './bench-client/sweep.js';
import { withoutEffect } from './options-bench-refused.js';
import { call, parsePositive, readCall } from './options-call.js';
import { type Command, optionsOf } from './options-command.js';
import type { GivenOptions } from './options-given.js';
import {
  choiceOption,
  customOption,
  integerOption,
  listOption,
  type Option,
  type OptionGroup,
  OptionValueError,
  switchOption,
  textOption,
} from './options-row.js';

const integerMax = 0x7fffffff;
const formats = ['binary', 'json'] as const;

const target = {
  model: textOption('model-name', '', 'Model to call. Required.'),
  version: textOption('model-version', '', 'Its version; by default the one the server chooses.'),
  url: textOption('url', 'localhost:8000', 'HOST:PORT or an http(s) URL of the server.'),
  headers: listOption(
    'header',
    '<NAME:value>',
    'Header line of every request. May be given several times.',
    parseHeader,
  ),
  authorities: textOption(
    'ssl-https-ca-certificates-file',
    '',
    'Certificates in PEM form that may sign the one of an https server.',
  ),
  verifiesPeer: integerOption(
    'ssl-https-verify-peer',
    1,
    0,
    1,
    '0 takes any certificate of an https server.',
  ),
} as const;

const input = {
  ...call,
  inputFormat: choiceOption(
    'input-tensor-format',
    formats,
    'binary',
    'Form of inputs: binary, json.',
  ),
  outputFormat: choiceOption(
    'output-tensor-format',
    formats,
    'binary',
    'Form in which outputs are asked for: binary, json.',
  ),
} as const;

const load = {
  concurrency: customOption(
    'concurrency-range',
    '<start:end:step>',
    { start: 1, end: 1, step: 1 },
    '1',
    'Callers that each wait for their answer before they send again.',
    (text) => parseRange(text, parseWhole),
  ),
  rate: customOption<LevelRange | undefined>(
    'request-rate-range',
    '<start:end:step>',
    undefined,
    '',
    'Requests a second, whether answers come or not; latency counts from the time a request was due. In place of --concurrency-range.',
    (text) => parseRange(text, parsePositive),
  ),
  distribution: choiceOption(
    'request-distribution',
    ['constant', 'poisson'],
    'constant',
    'Gaps between requests of --request-rate-range: constant, poisson.',
  ),
  connections: integerOption(
    'max-connections',
    256,
    1,
    16_384,
    'Connections that requests of --request-rate-range may take; further ones wait, and are reported.',
  ),
  threshold: customOption<number>(
    'latency-threshold',
    '<number>',
    Number.POSITIVE_INFINITY,
    '',
    'Milliseconds. A sweep ends at the first level whose latency (see --percentile) is above.',
    parsePositive,
  ),
  isBinarySearch: switchOption(
    'binary-search',
    'Search the highest level of the range that stays within --latency-threshold.',
  ),
} as const;

const measurement = {
  intervalMs: integerOption(
    'measurement-interval',
    5000,
    10,
    3_600_000,
    'Milliseconds of a window. Three windows in a row that agree make a result.',
  ),
  stability: customOption(
    'stability-percentage',
    '<number>',
    10,
    '10',
    'How far throughput and latency of the three windows may be from their mean.',
    parsePositive,
  ),
  trials: integerOption(
    'max-trials',
    10,
    1,
    10_000,
    'Windows after which the last three count although they do not agree; the result says so.',
  ),
  percentile: integerOption(
    'percentile',
    0,
    0,
    99,
    'Latency that must be stable and is compared with a threshold: this percentile. 0 is the average.',
  ),
  warmup: integerOption(
    'warmup-request-count',
    0,
    0,
    integerMax,
    'Answers to wait for at each level before measuring.',
  ),
} as const;

const report = {
  csv: textOption('latency-report-file', '', 'File for the results as CSV, times in microseconds.'),
  json: textOption('json', '', 'File for the results as JSON.'),
} as const;

const groups: readonly OptionGroup[] = [
  { title: 'What is called', options: target },
  { title: 'What is sent', options: input },
  { title: 'How much of it', options: load },
  { title: 'What is measured', options: measurement },
  { title: 'What is written', options: report },
];

/** `nereid bench`. Names and meanings of options are perf_analyzer's where it has them. */
export const benchCommand: Command<BenchOptions> = {
  usage: 'bench -m MODEL [options]',
  summary:
    'Measures a model of any server of the v2 protocol (HTTP) under load. Ends with 1 where a\nrequest failed.',
  groups,
  byName: optionsOf([...groups, { title: '', options: withoutEffect }]),
  letters: new Map([
    ['m', 'model-name'],
    ['x', 'model-version'],
    ['u', 'url'],
    ['i', 'protocol'],
    ['H', 'header'],
    ['b', 'batch-size'],
    ['l', 'latency-threshold'],
    ['p', 'measurement-interval'],
    ['s', 'stability-percentage'],
    ['r', 'max-trials'],
    ['f', 'latency-report-file'],
    ['a', 'async'],
  ]),
  operand: undefined,
  read: readBenchOptions,
};

function readBenchOptions(given: GivenOptions): BenchOptions {
  const name = given.read(target.model);
  if (name === '') given.problems.push('-m MODEL is missing');
  for (const option of Object.values(withoutEffect)) given.read(option);
  const isSearch = given.read(load.isBinarySearch);
  if (isSearch && !given.isGiven(load.threshold)) {
    given.problems.push('--binary-search needs a --latency-threshold');
  }
  const batchSize = given.read(call.batchSize);
  return {
    url: given.read(target.url),
    authoritiesFile: given.read(target.authorities),
    verifiesPeer: given.read(target.verifiesPeer) === 1,
    call: {
      ...readCall(given),
      model: { name, version: given.read(target.version) },
      headers: given.read(target.headers),
      inputFormat: given.read(input.inputFormat),
      outputFormat: given.read(input.outputFormat),
    },
    load: readLoad(given),
    isBinarySearch: isSearch,
    latencyThresholdMs: given.read(load.threshold),
    measurement: {
      intervalMs: given.read(measurement.intervalMs),
      stabilityPercentage: given.read(measurement.stability),
      trialsMax: given.read(measurement.trials),
      percentile: given.read(measurement.percentile),
      warmupRequests: given.read(measurement.warmup),
      batchSize,
    },
    csvFile: given.read(report.csv),
    jsonFile: given.read(report.json),
  };
}

function readLoad(given: GivenOptions): LoadOptions {
  const rate = given.read(load.rate);
  if (rate === undefined) {
    for (const option of [load.distribution, load.connections] as readonly Option<unknown>[]) {
      given.refuse(option, true, `--${option.name} has no effect without --request-rate-range`);
    }
    return { kind: 'concurrency', range: given.read(load.concurrency) };
  }
  given.refuse(
    load.concurrency,
    true,
    '--concurrency-range and --request-rate-range exclude each other',
  );
  return {
    kind: 'request-rate',
    range: rate,
    distribution: given.read(load.distribution),
    connectionsMax: given.read(load.connections),
  };
}

function parseRange(text: string, parseLevel: (text: string) => number): LevelRange {
  const parts = text.split(':').map(parseLevel);
  const [start, end = start, step = 1] = parts;
  if (parts.length > 3 || start === undefined || end === undefined || end < start) {
    throw new OptionValueError(`Invalid option value. Got ${text}, expected start:end:step`);
  }
  return { start, end, step };
}

function parseWhole(text: string): number {
  const value = parsePositive(text);
  if (Number.isInteger(value) && value <= 16_384) return value;
  throw new OptionValueError(`Invalid option value. Got ${text}, expected 1 to 16384`);
}

function parseHeader(text: string): readonly [string, string] {
  const [, name, value] = /^([!#$%&'*+\-.^_`|~\w]+):\s*([^\r\n]*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new OptionValueError(`Invalid option value. Got ${text}, expected NAME:value`);
  }
  return [name, value];
}
