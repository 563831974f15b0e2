import { closeSync, openSync, writeSync } from 'node:fs';
import { StatusLine } from './status-line.js';
import type { LogWriter } from './text-logger.js';

/** Where log lines end up. */
export interface LogOutput {
  readonly write: LogWriter;
  /** Where the lines go to a terminal: a line below them that changes in place. */
  readonly status: StatusLine | undefined;
  /** Idempotent. */
  close(): void;
}

/**
 * Lines go to `file`, appended, or to standard error where it is ''. Each line is written before
 * `write` returns, so that the last words of a process that ends are not lost. Throws where the
 * file cannot be opened; a write that fails later (disk full) loses the line, not the server.
 */
export function openLogOutput(file: string): LogOutput {
  if (file === '') return toStandardError();
  let descriptor: number | undefined = openSync(file, 'a');
  return {
    status: undefined,
    write(line) {
      if (descriptor === undefined) return;
      try {
        writeSync(descriptor, line);
      } catch {
        // There is no better place to report that the log cannot be written.
      }
    },
    close() {
      if (descriptor !== undefined) closeSync(descriptor);
      descriptor = undefined;
    },
  };
}

function toStandardError(): LogOutput {
  const { stderr } = process;
  if (!stderr.isTTY) return { status: undefined, write: (line) => stderr.write(line), close() {} };
  const status = new StatusLine(stderr);
  return { status, write: (line) => status.write(line), close: () => status.show('') };
}
