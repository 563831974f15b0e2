import { writeFileSync } from 'node:fs';
import { invalidArg } from '../errors.js';

/** Finds out before a long measurement that its result could not be written. '' is no file. */
export function reserveFile(file: string): void {
  if (file === '') return;
  try {
    writeFileSync(file, '', { flag: 'a' });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw invalidArg(`cannot write '${file}': ${reason}`, error);
  }
}

/** Writes the document, indented. '' is no file. */
export function writeJsonFile(file: string, document: unknown): void {
  if (file !== '') writeFileSync(file, `${JSON.stringify(document, undefined, 2)}\n`);
}
