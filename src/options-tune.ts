import { call, parsePositive, readCall } from './options-call.js';
import { type Command, optionsOf } from './options-command.js';
import type { GivenOptions } from './options-given.js';
import {
  customOption,
  integerOption,
  listOption,
  type OptionGroup,
  optionalIntegerOption,
  switchOption,
  textOption,
} from './options-row.js';
import type { TuneOptions } from './tune/tune-options.js';

const tuning = {
  model: textOption('model-name', '', 'Model to tune; its name alone says the same.'),
  repositories: listOption(
    'model-repository',
    '<string>',
    'Repository that has the model, as the server takes it. May be given several times. Required.',
    (text) => text,
  ),
  backendConfig: listOption(
    'backend-config',
    '<string>',
    'Setting of a backend, as the server takes it. May be given several times.',
    (text) => text,
  ),
  latencyTarget: customOption<number>(
    'latency-target-ms',
    '<number>',
    Number.POSITIVE_INFINITY,
    '',
    'Milliseconds that the latency may reach. Without it only throughput counts.',
    parsePositive,
  ),
  percentile: integerOption('percentile', 95, 1, 99, 'Latency that the target is about.'),
  concurrency: optionalIntegerOption(
    'concurrency',
    1,
    16_384,
    'Callers that each wait for their answer. By default as many as keep the model busy, or as the defaults serve within the target.',
  ),
  durationSecs: integerOption(
    'max-duration',
    180,
    5,
    86_400,
    'Seconds for all of it, about: the search stops, the comparison in turns has three rounds at least.',
  ),
  intervalMs: integerOption(
    'measurement-interval',
    1000,
    10,
    600_000,
    'Milliseconds that one configuration is measured; longer where less than 100 answers come.',
  ),
  instancesMax: optionalIntegerOption(
    'max-instances',
    1,
    1024,
    'Instances that may be tried. By default as many as there are cores.',
  ),
  batchSizeMax: optionalIntegerOption(
    'max-batch-size',
    1,
    65_536,
    'Largest batch that may be tried. By default 128 for ONNX models, what the configuration says for others.',
  ),
  isWriting: switchOption('write', "Merge the winning lines into the model's config.pbtxt."),
  json: textOption('json', '', 'File for the results as JSON.'),
} as const;

const groups: readonly OptionGroup[] = [
  { title: 'What is tuned', options: tuning },
  { title: 'What is sent', options: call },
];

/** `nereid tune`. */
export const tuneCommand: Command<TuneOptions> = {
  usage: 'tune MODEL --model-repository=FOLDER [options]',
  summary:
    'Serves the model on a free port of this machine with one configuration after the other and\nfinds the one with most answers a second: instances, threads, largest batch, delay. No file is\nchanged without --write.',
  groups,
  byName: optionsOf(groups),
  letters: new Map([
    ['m', 'model-name'],
    ['b', 'batch-size'],
  ]),
  operand: 'model-name',
  read: readTuneOptions,
};

function readTuneOptions(given: GivenOptions): TuneOptions {
  const model = given.read(tuning.model);
  const repositories = given.read(tuning.repositories);
  if (model === '') given.problems.push('MODEL is missing');
  if (repositories.length === 0) given.problems.push('--model-repository is missing');
  given.refuse(
    tuning.percentile,
    !given.isGiven(tuning.latencyTarget),
    '--percentile has no effect without --latency-target-ms',
  );
  return {
    model,
    repositories,
    backendConfig: given.read(tuning.backendConfig),
    call: readCall(given),
    concurrency: given.read(tuning.concurrency),
    latencyTargetMs: given.read(tuning.latencyTarget),
    percentile: given.read(tuning.percentile),
    durationMaxSecs: given.read(tuning.durationSecs),
    intervalMs: given.read(tuning.intervalMs),
    instancesMax: given.read(tuning.instancesMax),
    batchSizeMax: given.read(tuning.batchSizeMax),
    isWriting: given.read(tuning.isWriting),
    jsonFile: given.read(tuning.json),
  };
}
