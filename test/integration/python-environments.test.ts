import { execFileSync } from 'node:child_process';
import { chmod, mkdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  asTexts,
  configText,
  ints,
  modelHeader,
  PythonModels,
  testInterpreter,
  testRequest,
} from '../backends/python/python-models.js';

const models = new PythonModels();
const source = `${modelHeader}
import os
class TritonPythonModel:
    def execute(self, requests):
        words = [os.environ.get("CHOSEN", "none"), os.path.basename(os.environ.get("VIRTUAL_ENV", "none"))]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array(words, object))])]
`;

/** An interpreter that says of itself which one it is. */
const interpreter = (name: string) => `#!/bin/sh\nCHOSEN=${name} exec ${testInterpreter()} "$@"\n`;

function environmentConfig(location: string): string {
  return configText(
    ['A INT32 -1'],
    ['B STRING -1'],
    `parameters { key: "EXECUTION_ENV_PATH" value { string_value: "${location}" } }`,
  );
}

const plainConfig = configText(['A INT32 -1'], ['B STRING -1']);

async function chosenBy(folder: string, text: string, configured?: string): Promise<string[]> {
  const backendConfig = configured === undefined ? {} : { interpreter: configured };
  const model = await models.load(folder, text, { backendConfig });
  const { outputs } = await model.infer(testRequest([ints('A', [1], [1])]));
  return asTexts(outputs[0]);
}

async function writeModel(text: string, interpreters: readonly string[]): Promise<string> {
  const files = Object.fromEntries(
    interpreters.map((file) => [file, interpreter(path.dirname(file))]),
  );
  const folder = await models.write('m', text, { '1/model.py': source, ...files });
  for (const file of interpreters) await chmod(path.join(folder, file), 0o755);
  return folder;
}

describe('the interpreter of a Python model', () => {
  // Archives are unpacked below the folder for temporary files.
  const temporary = path.join(tmpdir(), `nereid-environments-test-${process.pid}`);
  beforeEach(async () => {
    await mkdir(temporary, { recursive: true });
    vi.stubEnv('VIRTUAL_ENV', undefined);
  });
  afterEach(async () => {
    await models.close();
    vi.unstubAllEnvs();
    await rm(temporary, { recursive: true, force: true });
  });

  it.each<readonly [string, string, readonly string[], readonly string[]]>([
    [
      'the .venv of the version',
      plainConfig,
      ['1/.venv/bin/python3', '.venv/bin/python3'],
      ['1/.venv/bin', 'none'],
    ],
    ['the .venv of the model', plainConfig, ['.venv/bin/python'], ['.venv/bin', 'none']],
    ['that of --backend-config', plainConfig, [], ['none', 'none']],
    [
      'a folder in EXECUTION_ENV_PATH',
      environmentConfig('$$TRITON_MODEL_DIRECTORY/env'),
      ['env/bin/python3', '.venv/bin/python3'],
      ['env/bin', 'env'],
    ],
    ['a folder beside the model', environmentConfig('env'), ['env/bin/python'], ['env/bin', 'env']],
  ])('is %s', async (_what, text, interpreters, expected) => {
    const folder = await writeModel(text, interpreters);
    expect(await chosenBy(folder, text)).toEqual(expected);
  });

  it.each([
    ['env.tar', '-cf'],
    ['env.tar.gz', '-czf'],
  ])('is in the archive %s, which is unpacked once', async (archive, flag) => {
    vi.stubEnv('TMPDIR', temporary);
    const text = environmentConfig(`$$TRITON_MODEL_DIRECTORY/${archive}`);
    const folder = await writeModel(text, ['env/bin/python3']);
    execFileSync('tar', [flag, path.join(folder, archive), '-C', path.join(folder, 'env'), '.']);
    await rename(path.join(folder, 'env'), path.join(temporary, 'gone'));
    const all = await Promise.all([1, 2, 3].map(() => chosenBy(folder, text)));
    const [[chosen, root] = []] = all;
    expect(chosen).toBe('env/bin');
    expect(all).toEqual([1, 2, 3].map(() => [chosen, root]));
  });

  it.each([
    ['nothing', '$$TRITON_MODEL_DIRECTORY/none', /EXECUTION_ENV_PATH: there is no '\S+\/m\/none'/],
    [
      'a folder without an interpreter',
      '$$TRITON_MODEL_DIRECTORY/1',
      /'\S+\/m\/1' has no bin\/python3/,
    ],
    ['no archive', '$$TRITON_MODEL_DIRECTORY/1/model.py', /cannot unpack '\S+model\.py'/],
  ])('is missed where EXECUTION_ENV_PATH names %s', async (_what, location, message) => {
    vi.stubEnv('TMPDIR', temporary);
    const text = environmentConfig(location);
    const folder = await writeModel(text, []);
    await expect(models.load(folder, text)).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringMatching(message),
    });
  });
});
