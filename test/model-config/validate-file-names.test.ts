import { describe, expect, it } from 'vitest';
import { parseModelConfigText } from '../../src/model-config/read-model-config.js';
import { validateFileNames } from '../../src/model-config/validate-file-names.js';

const fields: [string, string, (name: string) => string][] = [
  ['runtime', 'version', (name) => `runtime: "${name}"`],
  ['default_model_filename', 'version', (name) => `default_model_filename: "${name}"`],
  ['cc_model_filenames', 'version', (name) => `cc_model_filenames { key: "8.0" value: "${name}" }`],
  [
    'input_data_file',
    'warmup',
    (name) => `model_warmup { inputs { key: "I" value { input_data_file: "${name}" } } }`,
  ],
  [
    'data_file',
    'initial_state',
    (name) => `sequence_batching { state { initial_state { data_file: "${name}" } } }`,
  ],
];

describe('validateFileNames', () => {
  describe.each(fields)('%s', (field, folder, text) => {
    const check = (name: string) => () =>
      validateFileNames(parseModelConfigText(`name: "m" ${text(name)}`, 'config.pbtxt'));

    it.each(['', 'model.onnx', 'a/b', 'a/../b', '..a', './a'])('may be %j', (name) => {
      expect(check(name)).not.toThrow();
    });

    it.each(['..', '../x', 'a/../../x', '.', 'a/..'])('may not be %j', (name) => {
      expect(check(name)).toThrow(
        `model 'm': ${field} '${name}' must stay within the ${folder} directory`,
      );
    });

    it('may not hold a NUL', () => {
      expect(check(String.raw`a\000b`)).toThrow('must stay within');
    });
  });
});
