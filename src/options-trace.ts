import { OptionValueError, parseInteger } from './options-row.js';
import type { OwnedSetting } from './options-settings.js';

/** Levels that can be asked for; none is OFF. */
export type TraceLevel = 'TIMESTAMPS' | 'TENSORS';

/** Trace settings at start; level, rate and count change at run time. */
export interface TraceOptions {
  /** Empty is OFF. */
  readonly levels: readonly TraceLevel[];
  /** Every `rate`-th request is traced. */
  readonly rate: number;
  /** How many traces remain; -1 is no limit. */
  readonly count: number;
  /** File that traces go to; '' where none is named. */
  readonly file: string;
  /** Traces a file before the next, numbered one begins; 0 keeps one file. */
  readonly logFrequency: number;
}

/** Older options that say the same as `--trace-config`; '' or undefined where not given. */
export interface DeprecatedTraceSettings {
  readonly file: string;
  readonly levels: readonly string[];
  readonly rate: number | undefined;
  readonly count: number | undefined;
  readonly logFrequency: number | undefined;
}

/** Settings of `--trace-config` override the deprecated options. */
export function readTraceOptions(
  settings: readonly OwnedSetting[],
  deprecated: DeprecatedTraceSettings,
): TraceOptions {
  let { file } = deprecated;
  let rate = deprecated.rate ?? 1000;
  let count = deprecated.count ?? -1;
  let logFrequency = deprecated.logFrequency ?? 0;
  const levels: string[] = [];
  for (const { owner, name, value } of settings) {
    switch (`${owner},${name}`) {
      case ',mode':
        if (value !== 'triton') throw unsupportedMode(value);
        break;
      case ',level':
        levels.push(value);
        break;
      case ',rate':
        rate = parseTraceRate(value);
        break;
      case ',count':
        count = parseTraceCount(value);
        break;
      case 'triton,file':
        file = value;
        break;
      case 'triton,log-frequency':
        logFrequency = parseInteger(value, 0, 0x7fffffff);
        break;
      default:
        if (owner === 'opentelemetry') throw unsupportedMode(owner);
        throw new OptionValueError(
          `unknown trace setting '${owner === '' ? name : `${owner},${name}`}'`,
        );
    }
  }
  return {
    levels: readLevels(levels.length > 0 ? levels : deprecated.levels),
    rate,
    count,
    file,
    logFrequency,
  };
}

/** Every how many requests one is traced. Throws `OptionValueError`. */
export function parseTraceRate(text: string): number {
  return parseInteger(text, 1, 0x7fffffff);
}

/** How many requests are still traced; -1 is no limit. Throws `OptionValueError`. */
export function parseTraceCount(text: string): number {
  return parseInteger(text, -1, 0x7fffffff);
}

/** `MIN` and `MAX` are the reference server's old names of the two levels. */
function readLevels(names: readonly string[]): readonly TraceLevel[] {
  const levels = new Set<TraceLevel>();
  for (const name of names) {
    switch (name.toUpperCase()) {
      case 'OFF':
        if (names.length > 1) {
          throw new OptionValueError("Expect only one trace level 'OFF' is specified");
        }
        break;
      case 'TIMESTAMPS':
      case 'MIN':
        levels.add('TIMESTAMPS');
        break;
      case 'TENSORS':
        levels.add('TENSORS');
        break;
      case 'MAX':
        levels.add('TIMESTAMPS');
        levels.add('TENSORS');
        break;
      default:
        throw new OptionValueError(
          `invalid trace level '${name}', expected OFF, TIMESTAMPS or TENSORS`,
        );
    }
  }
  return [...levels];
}

function unsupportedMode(mode: string): OptionValueError {
  return new OptionValueError(`trace mode '${mode}' is not supported, allowed: triton`);
}
