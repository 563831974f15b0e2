import { StringDecoder } from 'node:string_decoder';

/** Characters of a line after which it is cut: what is printed without line ends is not text. */
const lineCharactersMax = 4096;
/** A model that prints without pause must not flood the log. */
const linesPerSecondMax = 200;
const tailCharactersMax = 4096;

/** Turns what a model prints into log lines, and remembers the last of it. */
export class OutputLines {
  readonly #decoder = new StringDecoder('utf8');
  readonly #onLine: (line: string) => void;
  readonly #nowMs: () => number;
  #rest = '';
  #tail = '';
  #second = 0;
  #linesInSecond = 0;
  #omittedLines = 0;

  constructor(onLine: (line: string) => void, nowMs: () => number) {
    this.#onLine = onLine;
    this.#nowMs = nowMs;
  }

  push(chunk: Buffer): void {
    const text = this.#decoder.write(chunk);
    this.#tail = (this.#tail + text).slice(-tailCharactersMax);
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#writeLine(line);
    while (this.#rest.length > lineCharactersMax) {
      this.#writeLine(this.#rest.slice(0, lineCharactersMax));
      this.#rest = this.#rest.slice(lineCharactersMax);
    }
  }

  /** Writes what came without a line end. */
  end(): void {
    if (this.#rest !== '') this.#writeLine(this.#rest);
    this.#rest = '';
    this.#reportOmitted();
  }

  /** The last characters, without surrounding white space. */
  get tail(): string {
    return this.#tail.trim();
  }

  #writeLine(line: string): void {
    const text = line.trimEnd();
    if (text === '') return;
    const second = Math.floor(this.#nowMs() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#linesInSecond = 0;
      this.#reportOmitted();
    }
    this.#linesInSecond += 1;
    if (this.#linesInSecond > linesPerSecondMax) {
      this.#omittedLines += 1;
      return;
    }
    this.#onLine(text.slice(0, lineCharactersMax));
  }

  #reportOmitted(): void {
    if (this.#omittedLines === 0) return;
    this.#onLine(`(${this.#omittedLines} lines left out: more than ${linesPerSecondMax} a second)`);
    this.#omittedLines = 0;
  }
}
