import { suggestion } from './errors.js';
import type { GivenTexts } from './options-given.js';
import type { Option } from './options-row.js';

/** Options that a command line may name. */
export interface KnownOptions {
  /** Name → row. */
  readonly byName: ReadonlyMap<string, Option<unknown>>;
  /** Letter of a short form (`-m`) → name. */
  readonly letters: ReadonlyMap<string, string>;
  /** Name of the option that an argument without a dash gives; undefined where none does. */
  readonly operand: string | undefined;
}

export interface ArgumentTexts {
  readonly given: ReadonlyMap<string, GivenTexts>;
  readonly problems: readonly string[];
}

/** `--name=value`, `--name value` and `-m value`; a switch takes a value only behind `=`. */
export function readArguments(
  argv: readonly string[],
  { byName, letters, operand }: KnownOptions,
): ArgumentTexts {
  const given = new Map<string, { texts: string[]; source: string }>();
  const problems: string[] = [];
  const add = (name: string, text: string, source: string): void => {
    const known = given.get(name);
    if (known === undefined) given.set(name, { texts: [text], source });
    else known.texts.push(text);
  };
  for (let index = 0; index < argv.length; index++) {
    const argument = argv[index] ?? '';
    if (operand !== undefined && !argument.startsWith('-')) {
      add(operand, argument, argument);
      continue;
    }
    const equals = argument.indexOf('=');
    const flag = equals < 0 ? argument : argument.slice(0, equals);
    const name = flag.startsWith('--') ? flag.slice(2) : letters.get(flag.slice(1));
    const option = flag.startsWith('-') ? byName.get(name ?? '') : undefined;
    if (option === undefined) {
      problems.push(
        argument.startsWith('-')
          ? `unrecognized option '${argument}'${suggestion(flag, flagsOf(byName))}`
          : `unexpected argument '${argument}'`,
      );
      continue;
    }
    let text = equals < 0 ? undefined : argument.slice(equals + 1);
    if (text === undefined && option.form === '') text = 'true';
    if (text === undefined) {
      index += 1;
      text = argv[index];
    }
    if (text === undefined) {
      problems.push(`option '${flag}' requires an argument`);
      continue;
    }
    add(option.name, text, flag);
  }
  return { given, problems };
}

function flagsOf(byName: KnownOptions['byName']): readonly string[] {
  return [...byName.keys()].map((name) => `--${name}`);
}
