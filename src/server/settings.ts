import { invalidArg } from '../errors.js';
import type { LogSettings } from '../observability/text-logger.js';

/** What of a request is traced; OFF is no level of its own, but none. */
export type TraceLevel = 'OFF' | 'TIMESTAMPS' | 'TENSORS';

/** What is traced, and where to. */
export interface TraceSettings {
  readonly levels: readonly TraceLevel[];
  /** Every how many requests one is traced. */
  readonly rate: number;
  /** How many more requests are traced; -1 is no limit. */
  readonly count: number;
  /** Traces a file holds before the next is begun; 0 writes one file, at the end. */
  readonly logFrequency: number;
  readonly file: string;
  readonly mode: string;
}

/** Where nothing is configured: no tracing. */
export const defaultTraceSettings: TraceSettings = {
  levels: ['OFF'],
  rate: 1000,
  count: -1,
  logFrequency: 0,
  file: '',
  mode: 'triton',
};

/** What clients may change while the server runs. */
export interface ServerSettings {
  /** Shared with the logger, which reads it anew for each line. */
  readonly log: LogSettings;
  readonly logFile: string;
  readonly trace: TraceSettingsStore;
}

type Changeable = 'levels' | 'rate' | 'count' | 'logFrequency';
type Changes = { -readonly [Name in Changeable]?: TraceSettings[Name] };

/**
 * Trace settings in three scopes: what the server was started with, what clients set for all
 * models, and what they set for one. A setting that a scope leaves open follows the wider one,
 * later changes of it included.
 */
export class TraceSettingsStore {
  readonly #initial: TraceSettings;
  #global: Changes = {};
  readonly #models = new Map<string, Changes>();
  /** Called after every change; set once, by who acts on the settings. */
  onChange: () => void = () => {};

  constructor(initial: TraceSettings) {
    this.#initial = initial;
  }

  /** The settings in force; `modelName` '' is those of all models. */
  get(modelName: string): TraceSettings {
    const settings = { ...this.#initial, ...this.#global };
    return { ...settings, ...this.#models.get(modelName) };
  }

  /**
   * Sets what `update` names, by the names of the trace protocol (`trace_rate`); an empty list of
   * values opens the setting again. Names that mean nothing are passed over. Throws INVALID_ARG,
   * and then changes nothing.
   */
  update(modelName: string, update: ReadonlyMap<string, readonly string[]>): void {
    const before = modelName === '' ? this.#global : (this.#models.get(modelName) ?? {});
    const changes: Changes = { ...before };
    for (const [name, values] of update) applyChange(changes, name, values);
    if (modelName === '') this.#global = changes;
    else if (Object.keys(changes).length === 0) this.#models.delete(modelName);
    else this.#models.set(modelName, changes);
    this.onChange();
  }
}

function applyChange(changes: Changes, name: string, values: readonly string[]): void {
  switch (name) {
    case 'trace_level':
      if (values.length === 0) delete changes.levels;
      else changes.levels = parseLevels(values);
      break;
    case 'trace_rate':
      if (values.length === 0) delete changes.rate;
      else changes.rate = parseRate(values);
      break;
    case 'trace_count':
      if (values.length === 0) delete changes.count;
      else changes.count = parseCount(values);
      break;
    case 'log_frequency':
      if (values.length === 0) delete changes.logFrequency;
      else changes.logFrequency = parseInteger('log_frequency', values, 0);
      break;
    default:
  }
}

function parseLevels(values: readonly string[]): readonly TraceLevel[] {
  const levels = new Set<TraceLevel>();
  for (const value of values) {
    if (value === 'OFF' || value === 'TIMESTAMPS' || value === 'TENSORS') levels.add(value);
    // Names of the first versions of the protocol.
    else if (value === 'MIN' || value === 'MAX') levels.add('TIMESTAMPS');
    else throw invalidArg(`Unable to parse 'trace_level', got: ${value}`);
  }
  if (levels.has('OFF') && values.length > 1) {
    throw invalidArg("Expect only one trace level 'OFF' is specified");
  }
  return [...levels];
}

function parseRate(values: readonly string[]): number {
  const rate = parseInteger('trace_rate', values, 0);
  if (rate === 0) throw invalidArg('sample rate must be non-zero');
  return rate;
}

function parseCount(values: readonly string[]): number {
  return parseInteger('trace_count', values, -1);
}

function parseInteger(name: string, values: readonly string[], least: number): number {
  const [text = ''] = values;
  const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (values.length === 1 && value >= least && value <= 2 ** 32 - 1) return value;
  throw invalidArg(`Unable to parse '${name}', got: ${values.join(',')}`);
}
