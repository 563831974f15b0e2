import {
  booleanOption,
  choiceOption,
  customOption,
  integerOption,
  listOption,
  type OptionGroup,
  OptionValueError,
  parseInteger,
  switchOption,
  textOption,
} from './options-row.js';
import type { WatchMode } from './repository/directory-watch.js';

const integerMax = 0x7fffffff;

export const server = {
  id: textOption('id', 'triton', 'Name of this server in its metadata.'),
  exitTimeoutSecs: integerOption(
    'exit-timeout-secs',
    30,
    0,
    integerMax,
    'Seconds to wait for running and queued requests when the server ends. After that it ends with them unfinished and exit code 1.',
  ),
  shutdownDelaySecs: integerOption(
    'shutdown-delay-secs',
    0,
    0,
    integerMax,
    'Seconds between "not ready" and closing the ports when the server ends, so that load balancers can look away first.',
  ),
  maxInflightRequests: integerOption(
    'max-inflight-requests',
    16384,
    1,
    integerMax,
    'Inference requests that may be in the server at once, over all models and protocols. Further ones are refused as unavailable.',
  ),
  maxInflightBytes: integerOption(
    'max-inflight-bytes',
    1073741824,
    1,
    Number.MAX_SAFE_INTEGER,
    'Bytes that the bodies of requests in the server may take together. Further requests are refused as unavailable.',
  ),
} as const;

export type LogFormat = 'default' | 'ISO8601' | 'json';

export const log = {
  verbose: customOption(
    'log-verbose',
    '<integer>',
    0,
    '0',
    'Verbose logging level. 0 turns verbose logging off; true and false mean 1 and 0.',
    parseVerboseLevel,
  ),
  info: booleanOption('log-info', true, 'Log at info level.'),
  warning: booleanOption('log-warning', true, 'Log warnings.'),
  error: booleanOption('log-error', true, 'Log errors.'),
  format: choiceOption<LogFormat>(
    'log-format',
    ['default', 'ISO8601', 'json'],
    'default',
    '"default" begins lines with "LMMDD hh:mm:ss.ssssss", "ISO8601" with "YYYY-MM-DDThh:mm:ssZ L"; "json" writes one JSON object a line.',
  ),
  file: textOption('log-file', '', 'File that log lines are appended to instead of the console.'),
} as const;

export type ModelControlMode = 'none' | 'poll' | 'explicit' | 'on-demand';

export const repository = {
  modelStore: listOption('model-store', '<string>', 'Same as --model-repository.', (text) => text),
  modelRepository: listOption(
    'model-repository',
    '<string>',
    'Folder or S3 location (s3://bucket/prefix, s3://https://host:port/bucket/prefix) that models are served from. May be given several times. A model that is in two of them is not served.',
    (text) => text,
  ),
  cacheDir: textOption(
    'repository-cache-dir',
    '',
    'Folder that keeps copies of remote models over restarts. Without it they live in a temporary folder for as long as they are loaded.',
  ),
  exitOnError: booleanOption(
    'exit-on-error',
    true,
    'End with exit code 1 where a model fails to load at start. With false the server serves what loaded.',
  ),
  disableAutoCompleteConfig: switchOption(
    'disable-auto-complete-config',
    'Do not complete model configurations from what the model files tell.',
  ),
  strictReadiness: booleanOption(
    'strict-readiness',
    true,
    'Answer "ready" only while every model that should be loaded is. With false the server is ready as soon as it answers.',
  ),
  controlMode: choiceOption<ModelControlMode>(
    'model-control-mode',
    ['none', 'poll', 'explicit', 'on-demand'],
    'none',
    '"none" loads all models at start and changes nothing afterwards. "poll" follows changes of the repositories. "explicit" loads and unloads on request. "on-demand" loads a model at its first inference request, which waits for it.',
  ),
  pollSecs: integerOption(
    'repository-poll-secs',
    15,
    1,
    integerMax,
    'Seconds between two looks at the repositories. Only with --model-control-mode=poll.',
  ),
  watchMode: choiceOption<WatchMode>(
    'repository-watch',
    ['auto', 'events', 'polling', 'off'],
    'auto',
    'How changes of folders are noticed before the next look. "events": the system tells. "polling": file times are compared every second, for network and desktop shares that tell nothing. "auto": the one that suits the file system. "off": not at all. Only with --model-control-mode=poll.',
  ),
  loadModel: listOption(
    'load-model',
    '<string>',
    'Model to load at start; may be given several times; * alone loads all. Only with --model-control-mode=explicit.',
    (text) => text,
  ),
  maxLoadedModels: integerOption(
    'max-loaded-models',
    0,
    0,
    integerMax,
    'Models in memory at once; the least recently used idle one is unloaded for another. 0 is no limit. Only with --model-control-mode=on-demand.',
  ),
  modelMemoryBudget: integerOption(
    'model-memory-budget',
    0,
    0,
    Number.MAX_SAFE_INTEGER,
    'Bytes that the models in memory may take together. Estimated: for each instance the size of the files of its version and 32 MiB. 0 is no limit. Only with --model-control-mode=on-demand.',
  ),
  modelConfigName: customOption(
    'model-config-name',
    '<string>',
    '',
    '',
    'Read configs/NAME.pbtxt instead of config.pbtxt where a model has it.',
    parseConfigName,
  ),
  loadThreadCount: integerOption(
    'model-load-thread-count',
    4,
    1,
    1024,
    'Models that load at the same time.',
  ),
  loadRetryCount: integerOption(
    'model-load-retry-count',
    0,
    0,
    integerMax,
    'How often a failed load is tried again.',
  ),
  namespacing: booleanOption(
    'model-namespacing',
    false,
    'Let several repositories have models of one name. Ensembles take their steps from their own repository first.',
  ),
} as const;

export const serverGroups: readonly OptionGroup[] = [
  { title: 'Server', options: server },
  { title: 'Logging', options: log },
  { title: 'Model Repository', options: repository },
];

function parseVerboseLevel(text: string): number {
  if (text.toLowerCase() === 'true') return 1;
  if (text.toLowerCase() === 'false') return 0;
  return parseInteger(text, 0, integerMax);
}

function parseConfigName(text: string): string {
  if (text === '' || /[\s/\\]/.test(text) || text.startsWith('.')) {
    throw new OptionValueError(
      `a configuration name has no spaces, slashes or leading dot, got: ${text}`,
    );
  }
  return text;
}
