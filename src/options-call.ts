import { readFileSync } from 'node:fs';
import type { CallOptions } from './bench-client/bench-options.js';
import type { InputSource } from './bench-client/input-data.js';
import type { GivenOptions } from './options-given.js';
import {
  customOption,
  integerOption,
  listOption,
  type Option,
  OptionValueError,
  textOption,
} from './options-row.js';

/*
 * Options that say what is sent to a model under load, for every command that does so. Names and
 * meanings are those of the reference server's client, perf_analyzer.
 */

const integerMax = 0x7fffffff;

export const call = {
  batchSize: integerOption('batch-size', 1, 1, 65_536, 'Rows of each request.'),
  shapes: listOption(
    'shape',
    '<NAME:d1,d2,...>',
    'Shape of an input with variable dimensions, without the batch dimension. May be given several times.',
    parseShape,
  ),
  inputData: textOption(
    'input-data',
    'random',
    '"random", "zero", or a JSON file {"data": [{"INPUT": [...]}, ...]} with one row of inputs in each element, which requests take in turn.',
  ),
  stringData: customOption<string | undefined>(
    'string-data',
    '<string>',
    undefined,
    '',
    'Every element of BYTES inputs, in place of random letters.',
    (text) => text,
  ),
  stringLength: integerOption(
    'string-length',
    128,
    0,
    1_000_000,
    'Letters of each random element of BYTES inputs.',
  ),
  randomSeed: integerOption(
    'random-seed',
    0,
    0,
    integerMax,
    'What random values and arrival times are made from: the same seed, the same load.',
  ),
} as const;

/** Which values are sent, from {@link call}. */
export function readCall(
  given: GivenOptions,
): Pick<CallOptions, 'batchSize' | 'shapes' | 'seed' | 'input'> {
  return {
    batchSize: given.read(call.batchSize),
    shapes: new Map(given.read(call.shapes)),
    seed: given.read(call.randomSeed),
    input: readInputSource(given),
  };
}

function readInputSource(given: GivenOptions): InputSource {
  const source = given.read(call.inputData);
  const stringLength = given.read(call.stringLength);
  const text = given.read(call.stringData);
  const refuseText = (reason: string): void => {
    for (const option of [call.stringData, call.stringLength] as readonly Option<unknown>[]) {
      given.refuse(option, true, `--${option.name} has no effect ${reason}`);
    }
  };
  if (source === 'zero') {
    refuseText('with --input-data=zero');
    return { kind: 'zero' };
  }
  if (source !== 'random') {
    refuseText('on inputs from a file');
    return given.check<InputSource>('--input-data', { kind: 'zero' }, () => readSourceFile(source));
  }
  given.refuse(
    call.stringLength,
    text !== undefined,
    '--string-length has no effect on --string-data',
  );
  return text === undefined ? { kind: 'random', stringLength } : { kind: 'text', text };
}

function readSourceFile(file: string): InputSource {
  try {
    return { kind: 'file', content: readFileSync(file, 'utf8') };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new OptionValueError(`expected random, zero or a file; cannot read '${file}': ${reason}`);
  }
}

function parseShape(text: string): readonly [string, readonly number[]] {
  const colon = text.lastIndexOf(':');
  const dims = text.slice(colon + 1).split(',');
  if (colon < 1 || !dims.every((dim) => /^\d{1,9}$/.test(dim))) {
    throw new OptionValueError(`Invalid option value. Got ${text}, expected NAME:d1,d2,...`);
  }
  return [text.slice(0, colon), dims.map(Number)];
}

/** A number above 0, with or without a fraction. */
export function parsePositive(text: string): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (value > 0 && Number.isFinite(value)) return value;
  throw new OptionValueError(`Invalid option value. Got ${text}, expected a number above 0`);
}
