import path from 'node:path';
import { invalidArg } from '../errors.js';

/**
 * Labels of an output's classes, by index: one a line, blank lines count, a line break at the end
 * does not. CRLF is one line break and a byte order mark is no part of the first label.
 */
export function parseLabels(text: string): string[] {
  const source = text.startsWith('\uFEFF') ? text.slice(1) : text;
  if (source === '') return [];
  const lines = source.split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/**
 * Path of an output's label file below its model's folder. INVALID_ARG where `labelFilename` leads
 * out of it. Only names are looked at: who opens the file checks links with
 * {@link isInsideDirectory} on the real paths.
 */
export function labelFilePath(modelDirectory: string, labelFilename: string): string {
  const file = path.join(modelDirectory, labelFilename);
  if (path.isAbsolute(labelFilename) || !isInsideDirectory(modelDirectory, file)) {
    throw invalidArg(`label file path '${labelFilename}' is outside model directory`);
  }
  return file;
}

/** True where `file` lies below `directory`, by their names. */
export function isInsideDirectory(directory: string, file: string): boolean {
  const relative = path.relative(directory, file);
  const isAbove = relative === '..' || relative.startsWith(`..${path.sep}`);
  return relative !== '' && !isAbove && !path.isAbsolute(relative);
}
