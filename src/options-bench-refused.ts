import {
  customOption,
  type Option,
  OptionValueError,
  switchOption,
  unsupportedOption,
} from './options-row.js';

/**
 * Options of perf_analyzer that could have no effect in `nereid bench`. Each stops the start with its
 * reason, unless its value says what is done anyway.
 */
export const withoutEffect: Readonly<Record<string, Option<unknown>>> = {
  async: switchOption('async', 'Requests are always sent without waiting for others.'),
  sync: refusedSwitch('sync', 'requests are never sent one after the other'),
  streaming: refusedSwitch('streaming', 'it belongs to gRPC, and only HTTP is spoken'),
  collectMetrics: refusedSwitch('collect-metrics', 'metrics are not read, statistics are'),
  verboseCsv: refusedSwitch('verbose-csv', 'the CSV file always has all columns'),
  serviceKind: refused('service-kind', 'only the v2 protocol is spoken', ['triton']),
  protocol: refused('protocol', 'only HTTP is spoken', ['http', 'HTTP']),
  sharedMemory: refused('shared-memory', 'tensors travel in the request', ['none']),
  measurementMode: refused('measurement-mode', 'windows end with time', ['time_windows']),
  measurementCount: refused('measurement-request-count', 'windows end with time', []),
  requestCount: refused('request-count', 'windows end with time', []),
  requestIntervals: refused('request-intervals', 'arrivals follow --request-rate-range', []),
  periodicRange: refused('periodic-concurrency-range', 'a level stays while it is measured', []),
  maxThreads: refused('max-threads', 'one thread sends all requests', ['1']),
  sequenceCount: refused('num-of-sequences', 'sequences are not sent', []),
  sequenceLength: refused('sequence-length', 'sequences are not sent', []),
  sequenceIds: refused('sequence-id-range', 'sequences are not sent', []),
  startSequenceId: refused('start-sequence-id', 'sequences are not sent', []),
  signature: refused('model-signature-name', 'it belongs to another protocol', []),
  modelRepository: refused('model-repository', 'the server has its own', []),
  metricsUrl: refused('metrics-url', 'metrics are not read, statistics are', []),
  profileFile: refused('profile-export-file', 'single requests are not recorded', []),
};

function refused(name: string, reason: string, allowed: readonly string[]): Option<string> {
  return customOption(name, '<string>', '', '', reason, (text) => {
    if (allowed.includes(text)) return text;
    throw new OptionValueError(`'${text}' is not supported: ${reason}`);
  });
}

function refusedSwitch(name: string, reason: string): Option<boolean> {
  return { ...unsupportedOption(name, reason, `It is not supported: ${reason}`), form: '' };
}
