import type { Logger } from './logger.js';

export type LogFormat = 'default' | 'ISO8601' | 'json';

/** What `/v2/logging` shows and changes. */
export interface LogSettings {
  verboseLevel: number;
  isInfoLogged: boolean;
  isWarningLogged: boolean;
  isErrorLogged: boolean;
  format: LogFormat;
}

/** Where finished lines go, line break included. */
export type LogWriter = (line: string) => void;

type Severity = 'E' | 'W' | 'I' | 'V';

const severityNames: Readonly<Record<Severity, string>> = {
  E: 'error',
  W: 'warning',
  I: 'info',
  V: 'verbose',
};

/**
 * Writes log lines in the reference server's form, or as JSON:
 *
 * ```
 * I1130 20:14:04.467450 6164 server] "loading: add_sub:1"
 * 2026-11-30T20:14:04Z I 6164 server] "loading: add_sub:1"
 * {"time":"2026-11-30T20:14:04.467Z","level":"info","source":"server","message":"loading: add_sub:1"}
 * ```
 *
 * The text is written as a JSON string, so that nothing a user sent can begin a line of its own.
 * `settings` is shared by all loggers made with {@link from} and read anew for each line.
 */
export class TextLogger implements Logger {
  readonly #settings: LogSettings;
  readonly #write: LogWriter;
  readonly #wallMs: () => number;
  readonly #source: string;

  constructor(settings: LogSettings, write: LogWriter, wallMs: () => number, source = 'server') {
    this.#settings = settings;
    this.#write = write;
    this.#wallMs = wallMs;
    this.#source = source;
  }

  /** The same log with another name of who speaks, such as a component or a model. */
  from(source: string): TextLogger {
    return new TextLogger(this.#settings, this.#write, this.#wallMs, source);
  }

  error(message: string): void {
    if (this.#settings.isErrorLogged) this.#log('E', message);
  }

  warning(message: string): void {
    if (this.#settings.isWarningLogged) this.#log('W', message);
  }

  info(message: string): void {
    if (this.#settings.isInfoLogged) this.#log('I', message);
  }

  verbose(level: number, message: string): void {
    if (this.isVerbose(level)) this.#log('V', message);
  }

  isVerbose(level: number): boolean {
    return this.#settings.verboseLevel >= level;
  }

  /** Lines for people, such as the table of models, below a heading line. Written by us alone. */
  table(message: string, lines: readonly string[]): void {
    if (!this.#settings.isInfoLogged) return;
    if (this.#settings.format === 'json') this.#log('I', [message, ...lines].join('\n'));
    else this.#write(`${this.#head('I')}${escapeText(message)}\n${lines.join('\n')}\n\n`);
  }

  #log(severity: Severity, message: string): void {
    if (this.#settings.format === 'json') {
      this.#write(
        `${JSON.stringify({
          time: new Date(this.#wallMs()).toISOString(),
          level: severityNames[severity],
          source: this.#source,
          message,
        })}\n`,
      );
      return;
    }
    this.#write(`${this.#head(severity)}${escapeText(message)}\n`);
  }

  /** Verbose lines are marked as information, as in the reference server. */
  #head(severity: Severity): string {
    const letter = severity === 'V' ? 'I' : severity;
    const now = new Date(this.#wallMs());
    const source = `${process.pid} ${this.#source}] `;
    if (this.#settings.format === 'ISO8601') {
      return `${now.toISOString().slice(0, 19)}Z ${letter} ${source}`;
    }
    const iso = now.toISOString();
    // JavaScript's clock has no microseconds; the zeros keep the columns.
    return `${letter}${iso.slice(5, 7)}${iso.slice(8, 10)} ${iso.slice(11, 23)}000 ${source}`;
  }
}

/** One line, whatever the text holds: quoted, with control and line-ending characters escaped. */
function escapeText(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
