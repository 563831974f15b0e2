import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { invalidArg } from '../errors.js';
import type { Candidate } from './candidate.js';
import { mergeConfigText } from './config-text.js';

/** The model's `config.pbtxt`, which need not exist. INVALID_ARG where no folder has the model. */
export function findConfigFile(repositories: readonly string[], model: string): string {
  const folder = repositories
    .map((repository) => join(repository, model))
    .find((candidate) => existsSync(candidate) && statSync(candidate).isDirectory());
  if (folder !== undefined) return join(folder, 'config.pbtxt');
  throw invalidArg(`--write: no local folder of --model-repository has a model '${model}'`);
}

/** In one step: a server that follows the repository never reads half of it. */
export function writeConfigFile(file: string, candidate: Candidate, defaults: Candidate): void {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const written = `${file}.tuned`;
  writeFileSync(written, mergeConfigText(text, candidate, defaults));
  renameSync(written, file);
}
