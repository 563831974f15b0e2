import { type Option, OptionValueError } from './options-row.js';

/** Where the texts of an option come from: its flag or its environment variable. */
export interface GivenTexts {
  readonly texts: readonly string[];
  /** For messages: `--http-port` or `NEREID_HTTP_PORT`. */
  readonly source: string;
}

/** What the user gave, by option name, and every problem found in it so far. */
export class GivenOptions {
  readonly problems: string[] = [];
  readonly #given: ReadonlyMap<string, GivenTexts>;

  constructor(given: ReadonlyMap<string, GivenTexts>) {
    this.#given = given;
  }

  isGiven(option: Option<unknown>): boolean {
    return this.#given.has(option.name);
  }

  /** The option's value; its default where it is not given, or given wrongly and so a problem. */
  read<T>(option: Option<T>): T {
    const given = this.#given.get(option.name);
    if (given === undefined) return option.defaultValue;
    return this.check(given.source, option.defaultValue, () => option.parse(given.texts));
  }

  /** Runs `parse`; its {@link OptionValueError} becomes a problem of `source`. */
  check<T>(source: string, fallback: T, parse: () => T): T {
    try {
      return parse();
    } catch (error) {
      if (!(error instanceof OptionValueError)) throw error;
      this.problems.push(`Bad option: "${source}".\n${error.message}`);
      return fallback;
    }
  }

  /** Refuses `option`, where given, because it could have no effect. */
  refuse(option: Option<unknown>, isRefused: boolean, message: string): void {
    if (isRefused && this.isGiven(option)) this.problems.push(message);
  }
}
