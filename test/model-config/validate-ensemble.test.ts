import { describe, expect, it } from 'vitest';
import { InferenceServerError } from '../../src/errors.js';
import { completeModelConfig } from '../../src/model-config/complete-model-config.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import { parseModelConfigText } from '../../src/model-config/read-model-config.js';
import {
  validateModelConfig,
  validateModelConfigBeforeLoad,
} from '../../src/model-config/validate-model-config.js';

function messageOf(text: string, validate: (config: ModelConfig) => void): string {
  const parsed = parseModelConfigText(text, 'config.pbtxt');
  const config = completeModelConfig(parsed, { modelName: 'm', versionFiles: [] });
  try {
    validate(config);
  } catch (error) {
    expect(error).toBeInstanceOf(InferenceServerError);
    if (error instanceof InferenceServerError) {
      expect(error.code).toBe('INVALID_ARG');
      return error.message;
    }
  }
  return 'no error';
}

const beforeLoad = (text: string) =>
  messageOf(text, (config) => validateModelConfigBeforeLoad(config, 'm'));
const atLoad = (text: string) => messageOf(text, validateModelConfig);

describe('ensembles', () => {
  const map = (field: string, entries: Record<string, string>) =>
    Object.entries(entries)
      .map(([key, value]) => `${field} { key: "${key}" value: "${value}" }`)
      .join(' ');
  const step = (inputs: Record<string, string>, outputs: Record<string, string>, model = 'a') =>
    `step { model_name: "${model}" ${map('input_map', inputs)} ${map('output_map', outputs)} }`;
  const ensemble = (steps: string, rest = '') =>
    `platform: "ensemble" input { name: "A" } output { name: "Z" } ${rest} ensemble_scheduling { ${steps} }`;

  it.each([
    ensemble(step({ I: 'A' }, { O: 'Z' })),
    ensemble(step({ I: 'B' }, { O: 'Z' }) + step({ I: 'A' }, { O: 'B' })),
    ensemble(step({ I: 'A', J: 'A' }, { O: 'B', P: 'C' }) + step({ I: 'B', J: 'C' }, { O: 'Z' })),
  ])('accepts %j', (text) => {
    expect(beforeLoad(text)).toBe('no error');
    expect(
      atLoad(
        text
          .replaceAll('{ name: "A" }', '{ name: "A" data_type: TYPE_FP32 dims: 1 }')
          .replaceAll('{ name: "Z" }', '{ name: "Z" data_type: TYPE_FP32 dims: 1 }'),
      ),
    ).toBe('no error');
  });

  it.each([
    [
      'platform: "ensemble"',
      'ensemble scheduling must be set for ensemble m whose platform is ensemble',
    ],
    [
      'backend: "python" ensemble_scheduling { }',
      "ensemble scheduling cannot be set for model 'm' whose platform is not ensemble",
    ],
    [ensemble('', 'instance_group { }'), "instance group should not be specified for ensemble 'm'"],
    [ensemble('', 'optimization { }'), "optimization should not be specified for ensemble 'm'"],
    [ensemble('', 'model_warmup { }'), "model_warmup can not be specified for ensemble 'm'"],
    [ensemble(''), "must specify 'step' for ensemble 'm'"],
    [
      ensemble(step({ I: 'A' }, { O: 'Z' }, '')),
      "must specify 'model_name' in step 0 of ensemble 'm'",
    ],
    [ensemble(step({}, { O: 'Z' })), "must specify 'input_map' in step 0 of ensemble 'm'"],
    [
      ensemble(step({ I: 'A' }, { O: 'Z' }) + step({ I: 'A' }, {})),
      "must specify 'output_map' in step 1 of ensemble 'm'",
    ],
    [
      ensemble(step({ I: 'A' }, { O: 'Z' }) + step({ I: 'A' }, { O: 'Z' })),
      "ensemble tensor 'Z' can appear in an output map only once for ensemble 'm' step 1",
    ],
    [ensemble(step({ I: 'B' }, { O: 'Z' })), "ensemble input 'A' for ensemble m' is not used"],
    [ensemble(step({ I: 'A' }, { O: 'B' })), "ensemble output 'Z' for ensemble m' is not used"],
    [
      ensemble(step({ I: 'A', J: 'B' }, { O: 'Z' })),
      "output 'Z' for ensemble 'm' is not written: at least one of its depending tensors, 'B', is not connected",
    ],
    [
      ensemble(step({ I: 'A', J: 'C' }, { O: 'B' }) + step({ I: 'B' }, { O: 'C', P: 'Z' })),
      /^output 'Z' for ensemble 'm' is not written: at least one of its depending tensors, '[BC]', is not connected$/,
    ],
    [ensemble(step({ I: 'A', J: 'Z' }, { O: 'Z' })), "output 'Z' for ensemble 'm' is not written"],
    [
      ensemble(step({ I: 'A' }, { O: 'Z', P: 'B' })),
      "ensemble tensor 'B' is unused in ensemble 'm'",
    ],
  ])('refuses %j', (text, message) => {
    expect(beforeLoad(text)).toMatch(
      typeof message === 'string'
        ? new RegExp(`^${message.replaceAll(/[[\]().]/g, '\\$&')}$`)
        : message,
    );
  });
});
