import type { WriteStream } from 'node:tty';

/** What a terminal has to offer. */
export type Terminal = Pick<WriteStream, 'write' | 'columns'>;

/** To the line's start, and nothing right of it. */
const erase = '\r\u001b[K';

/**
 * A last line of a terminal that changes in place, below the lines that stay. Everything that goes
 * to the terminal must go through `write`.
 */
export class StatusLine {
  readonly #terminal: Terminal;
  #text = '';

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** Columns that the line may take; one less than there are, so that it never wraps. */
  get columns(): number {
    // 0 where the terminal does not say, as some do.
    return (this.#terminal.columns || 80) - 1;
  }

  /** `lines` end with a line break. */
  write(lines: string): void {
    this.#terminal.write(this.#text === '' ? lines : `${erase}${lines}${this.#text}`);
  }

  /** '' takes the line away. */
  show(text: string): void {
    if (text === this.#text) return;
    this.#text = text.slice(0, this.columns);
    this.#terminal.write(`${erase}${this.#text}`);
  }
}
