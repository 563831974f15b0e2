import path from 'node:path';
import { invalidArg } from '../errors.js';
import { isInsideDirectory } from './labels.js';
import type { ModelConfig } from './model-config.js';

/**
 * Files that a configuration names must lie in the folder that they are looked up in: a
 * configuration may come over the network. Label files are checked where they are opened. Part of
 * `validateModelConfigBeforeLoad`; INVALID_ARG names field and value.
 */
export function validateFileNames(config: ModelConfig): void {
  for (const { field, filename, folder } of namedFiles(config)) {
    if (filename === '' || isPlainPath(filename)) continue;
    throw invalidArg(
      `model '${config.name}': ${field} '${filename}' must stay within the ${folder} directory`,
    );
  }
}

function isPlainPath(filename: string): boolean {
  return !filename.includes('\0') && isInsideDirectory('/folder', path.join('/folder', filename));
}

function namedFiles(config: ModelConfig): { field: string; filename: string; folder: string }[] {
  const warmupFiles = config.model_warmup
    .flatMap((warmup) => Object.values(warmup.inputs))
    .map((input) => input.input_data_file ?? '');
  const stateFiles = (config.sequence_batching?.state ?? [])
    .flatMap((state) => state.initial_state)
    .map((initial) => initial.data_file ?? '');
  const rows = [
    { field: 'runtime', folder: 'version', names: [config.runtime] },
    { field: 'default_model_filename', folder: 'version', names: [config.default_model_filename] },
    {
      field: 'cc_model_filenames',
      folder: 'version',
      names: Object.values(config.cc_model_filenames),
    },
    { field: 'input_data_file', folder: 'warmup', names: warmupFiles },
    { field: 'data_file', folder: 'initial_state', names: stateFiles },
  ];
  return rows.flatMap(({ field, folder, names }) =>
    names.map((filename) => ({ field, filename, folder })),
  );
}
