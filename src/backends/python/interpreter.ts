import { access, constants, stat } from 'node:fs/promises';
import path from 'node:path';
import { invalidArg } from '../../errors.js';
import type { InstanceDescription } from '../../execution/messages.js';
import type { ModelConfig } from '../../model-config/model-config.js';
import { unpackEnvironment } from './execution-environment.js';

/** Stands for the model's folder in EXECUTION_ENV_PATH, as with the reference server. */
const modelDirectoryVariable = '$$TRITON_MODEL_DIRECTORY';

/** A Python interpreter and what its process needs in its environment. */
export interface Interpreter {
  readonly command: string;
  readonly variables: Readonly<Record<string, string>>;
}

/**
 * The interpreter of a model, the nearest to it first: the environment that EXECUTION_ENV_PATH
 * names (a folder or a tar archive), `.venv` in the version's or the model's folder, the
 * `interpreter` of --backend-config, `python3` of the PATH. INVALID_ARG where the environment that
 * is named has no interpreter.
 */
export async function findInterpreter(
  instance: InstanceDescription,
  config: ModelConfig,
): Promise<Interpreter> {
  const environment = config.parameters['EXECUTION_ENV_PATH']?.string_value ?? '';
  if (environment !== '') {
    const named = environment.replaceAll(modelDirectoryVariable, instance.modelDirectory);
    return interpreterOfEnvironment(path.resolve(instance.modelDirectory, named));
  }
  for (const directory of [instance.versionDirectory, instance.modelDirectory]) {
    const command = await pythonIn(path.join(directory, '.venv'));
    if (command !== undefined) return { command, variables: {} };
  }
  const configured = instance.backendConfig['interpreter'] ?? '';
  return { command: configured === '' ? 'python3' : configured, variables: {} };
}

async function interpreterOfEnvironment(location: string): Promise<Interpreter> {
  const found = await stat(location).catch((error: unknown) => {
    throw invalidArg(`EXECUTION_ENV_PATH: there is no '${location}'`, error);
  });
  const root = found.isDirectory() ? location : await unpackEnvironment(location);
  const command = await pythonIn(root);
  if (command === undefined) {
    throw invalidArg(`EXECUTION_ENV_PATH: '${location}' has no bin/python3`);
  }
  const binaries = path.join(root, 'bin');
  return {
    command,
    // What the environment's own activation script would set.
    variables: {
      CONDA_PREFIX: root,
      VIRTUAL_ENV: root,
      PATH: prepended(binaries, process.env['PATH']),
      LD_LIBRARY_PATH: prepended(path.join(root, 'lib'), process.env['LD_LIBRARY_PATH']),
    },
  };
}

function prepended(first: string, rest: string | undefined): string {
  return rest === undefined || rest === '' ? first : `${first}${path.delimiter}${rest}`;
}

async function pythonIn(environment: string): Promise<string | undefined> {
  for (const name of ['python3', 'python']) {
    const command = path.join(environment, 'bin', name);
    const isUsable = await access(command, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isUsable) return command;
  }
  return undefined;
}
