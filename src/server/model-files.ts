import { readFile, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { invalidArg, unavailable } from '../errors.js';
import { isInsideDirectory, labelFilePath, parseLabels } from '../model-config/labels.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { sequenceOptions } from '../scheduling/sequence-options.js';
import { initialStateFiles } from '../scheduling/sequence-state.js';

/** A version's folder must be there when its load begins. */
export async function checkVersionDirectory(
  directory: string,
  name: string,
  version: string,
): Promise<void> {
  try {
    if ((await stat(directory)).isDirectory()) return;
  } catch (error) {
    throw unavailable(`model '${name}': the folder of version ${version} has gone`, error);
  }
  throw invalidArg(`model '${name}': version ${version} is not a folder`);
}

/** Labels by output name; INVALID_ARG where a file cannot be read or leads out of the model. */
export async function readLabels(
  config: ModelConfig,
  modelDirectory: string,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const labels = new Map<string, readonly string[]>();
  for (const output of config.output) {
    if (output.label_filename === '') continue;
    const file = labelFilePath(modelDirectory, output.label_filename);
    try {
      const [realFile, realDirectory] = await Promise.all([
        realpath(file),
        realpath(modelDirectory),
      ]);
      if (!isInsideDirectory(realDirectory, realFile)) throw new Error('it links out of the model');
      labels.set(output.name, parseLabels(await readFile(realFile, 'utf8')));
    } catch (error) {
      throw invalidArg(
        `model '${config.name}', output '${output.name}': label file '${output.label_filename}' cannot be read`,
        error,
      );
    }
  }
  return labels;
}

/** Contents of the files in `initial_state/` that implicit state begins with. */
export async function readInitialState(
  config: ModelConfig,
  modelDirectory: string,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const contents = new Map<string, Uint8Array>();
  if (config.sequence_batching === undefined) return contents;
  for (const name of initialStateFiles(sequenceOptions(config))) {
    const folder = path.join(modelDirectory, 'initial_state');
    const file = path.join(folder, name);
    if (!isInsideDirectory(folder, file)) {
      throw invalidArg(
        `model '${config.name}': initial state file '${name}' is outside its folder`,
      );
    }
    try {
      contents.set(name, await readFile(file));
    } catch (error) {
      throw invalidArg(
        `model '${config.name}': initial state file '${name}' cannot be read`,
        error,
      );
    }
  }
  return contents;
}
