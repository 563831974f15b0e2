import type { KnownOptions } from './options-arguments.js';
import type { GivenOptions } from './options-given.js';
import { formatGroup } from './options-help.js';
import type { Option, OptionGroup } from './options-row.js';

/** A command beside serving: its options, and how they are read. */
export interface Command<T> extends KnownOptions {
  /** `bench -m MODEL [options]`. */
  readonly usage: string;
  /** What it does, in one sentence. */
  readonly summary: string;
  readonly groups: readonly OptionGroup[];
  /** Problems are left in `given`. */
  read(given: GivenOptions): T;
}

export function optionsOf(groups: readonly OptionGroup[]): ReadonlyMap<string, Option<unknown>> {
  const rows = groups.flatMap(({ options }) => Object.values(options));
  return new Map(rows.map((row) => [row.name, row]));
}

/** The text of `nereid COMMAND --help`. */
export function formatCommandHelp(programName: string, command: Command<unknown>): string {
  const letters = new Map([...command.letters].map(([letter, name]) => [name, letter]));
  return [
    `Usage: ${programName} ${command.usage}\n\n${command.summary}`,
    ...command.groups.map((group) => formatGroup(group, letters)),
    '',
  ].join('\n\n');
}
