import { readFileSync } from 'node:fs';

/** A value that an option does not take; the message follows `Bad option: "--NAME".` */
export class OptionValueError extends Error {}

/**
 * One command-line option: a row of the table that drives parsing, `--help` and the README.
 * `form` is what a value looks like in the help text, '' for a switch that takes none.
 */
export interface Option<T> {
  readonly name: string;
  readonly form: string;
  readonly help: string;
  readonly defaultValue: T;
  /** The default as a user would write it, '' where there is none. */
  readonly defaultText: string;
  readonly isRepeatable: boolean;
  /** Accepted for compatibility; naming it is answered with one warning. */
  readonly isIgnored: boolean;
  /** `texts` has at least one element. Throws {@link OptionValueError}. */
  parse(texts: readonly string[]): T;
}

/** A titled block of options, as `--help` prints it. */
export interface OptionGroup {
  readonly title: string;
  readonly options: Readonly<Record<string, Option<unknown>>>;
}

/** true or false, also 1 and 0. */
export function booleanOption(name: string, defaultValue: boolean, help: string): Option<boolean> {
  return single(name, '<boolean>', defaultValue, String(defaultValue), help, parseBoolean);
}

/** A switch: `--name` alone is true; `--name=false` is understood too. */
export function switchOption(name: string, help: string): Option<boolean> {
  return { ...booleanOption(name, false, help), form: '' };
}

/** Named only to be refused: an option that cannot take effect must stop the start. */
export function unsupportedOption(name: string, help: string, refusal: string): Option<boolean> {
  return single(name, '<boolean>', false, 'false', help, (text) => {
    if (parseBoolean(text)) throw new OptionValueError(refusal);
    return false;
  });
}

/** `minimum` and `maximum` are inclusive. */
export function integerOption(
  name: string,
  defaultValue: number,
  minimum: number,
  maximum: number,
  help: string,
): Option<number> {
  return single(name, '<integer>', defaultValue, String(defaultValue), help, (text) =>
    parseInteger(text, minimum, maximum),
  );
}

/** An integer without a default: undefined where it is not given. */
export function optionalIntegerOption(
  name: string,
  minimum: number,
  maximum: number,
  help: string,
): Option<number | undefined> {
  return single<number | undefined>(name, '<integer>', undefined, '', help, (text) =>
    parseInteger(text, minimum, maximum),
  );
}

/** Any text. */
export function textOption(name: string, defaultValue: string, help: string): Option<string> {
  return single(name, '<string>', defaultValue, defaultValue, help, (text) => text);
}

/** A file whose content must be readable at start; the value stays its path, '' where not given. */
export function fileOption(name: string, help: string): Option<string> {
  return single(name, '<string>', '', '', help, (text) => {
    try {
      readFileSync(text);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new OptionValueError(`cannot read file '${text}': ${reason}`);
    }
    return text;
  });
}

/** One of a few words, compared exactly. */
export function choiceOption<T extends string>(
  name: string,
  choices: readonly T[],
  defaultValue: T,
  help: string,
): Option<T> {
  return single(name, '<string>', defaultValue, defaultValue, help, (text) => {
    const choice = choices.find((candidate) => candidate === text);
    if (choice === undefined) {
      throw new OptionValueError(
        `Invalid option value. Got ${text}, expected one of: ${choices.join(', ')}`,
      );
    }
    return choice;
  });
}

/** A value with a form of its own. */
export function customOption<T>(
  name: string,
  form: string,
  defaultValue: T,
  defaultText: string,
  help: string,
  parse: (text: string) => T,
): Option<T> {
  return single(name, form, defaultValue, defaultText, help, parse);
}

/** An option that may be given several times; its value is the list, in order. */
export function listOption<T>(
  name: string,
  form: string,
  help: string,
  parse: (text: string) => T,
): Option<readonly T[]> {
  return {
    name,
    form,
    help,
    defaultValue: [],
    defaultText: '',
    isRepeatable: true,
    isIgnored: false,
    parse: (texts) => texts.map(parse),
  };
}

/** An option of the reference server that has nothing to act on here. */
export function ignoredOption(name: string, form: string, help: string): Option<string> {
  return {
    ...textOption(name, '', help),
    form,
    isIgnored: true,
    isRepeatable: true,
  };
}

/** Throws `OptionValueError` for anything but true, false, 1 and 0. */
export function parseBoolean(text: string): boolean {
  const lower = text.toLowerCase();
  if (lower === 'true' || lower === '1') return true;
  if (lower === 'false' || lower === '0') return false;
  throw new OptionValueError(`invalid value for bool option: ${text}`);
}

/** A whole number of the range, both ends allowed. Throws `OptionValueError`. */
export function parseInteger(text: string, minimum: number, maximum: number): number {
  const value = /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value)) {
    throw new OptionValueError(`Invalid option value. Got ${text}, expected a whole number`);
  }
  if (value < minimum || value > maximum) {
    throw new OptionValueError(
      `Invalid option value. Got ${text}, allowed is ${minimum} to ${maximum}`,
    );
  }
  return value;
}

/** The last one counts where an option that takes one value is given several times. */
function single<T>(
  name: string,
  form: string,
  defaultValue: T,
  defaultText: string,
  help: string,
  parse: (text: string) => T,
): Option<T> {
  return {
    name,
    form,
    help,
    defaultValue,
    defaultText,
    isRepeatable: false,
    isIgnored: false,
    parse: (texts) => parse(texts[texts.length - 1] ?? ''),
  };
}
