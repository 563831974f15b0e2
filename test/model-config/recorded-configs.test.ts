import { readdirSync, readFileSync } from 'node:fs';
import { fromBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { completeModelConfig } from '../../src/model-config/complete-model-config.js';
import { modelConfigToProto, toConfigDocument } from '../../src/model-config/config-document.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import {
  parseModelConfigJson,
  parseModelConfigText,
} from '../../src/model-config/read-model-config.js';
import {
  validateModelConfig,
  validateModelConfigBeforeLoad,
} from '../../src/model-config/validate-model-config.js';
import { messageDescriptor } from '../../src/proto/descriptors.js';

const folder = new URL('../conformance/golden/configs/', import.meta.url);
const names = readdirSync(folder)
  .filter((file) => file.endsWith('.pbtxt'))
  .map((file) => file.slice(0, -'.pbtxt'.length));

/** What the recorded models' own auto_complete_config said. */
function autoCompleted(config: ModelConfig): ModelConfig {
  const tensors = parseModelConfigText(
    `max_batch_size: 8
    input [ { name: "INPUT0" data_type: TYPE_FP32 dims: 4 }, { name: "INPUT1" data_type: TYPE_FP32 dims: 4 } ]
    output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }, { name: "OUTPUT1" data_type: TYPE_FP32 dims: 4 } ]
    dynamic_batching {}`,
    'auto',
  );
  return {
    ...config,
    max_batch_size: tensors.max_batch_size,
    input: tensors.input,
    output: tensors.output,
    ...(tensors.dynamic_batching && { dynamic_batching: tensors.dynamic_batching }),
  };
}

function served(name: string): ModelConfig {
  const text = readFileSync(new URL(`${name}.pbtxt`, folder), 'utf8');
  const input = { modelName: name, versionFiles: ['model.py'] };
  const completed = completeModelConfig(parseModelConfigText(text, 'config.pbtxt'), input);
  validateModelConfigBeforeLoad(completed, name);
  const loaded = completed.input.length === 0 ? autoCompleted(completed) : completed;
  const config = completeModelConfig(loaded, input);
  validateModelConfig(config);
  return config;
}

/** Key order told as text, except within maps, whose order nobody promises. */
function shown(config: ModelConfig): string {
  return JSON.stringify(config, (_key, value) =>
    typeof value === 'object' && value !== null && !Array.isArray(value) && isMap(value)
      ? Object.fromEntries(Object.entries(value).sort())
      : value,
  );
}

const fieldNames = /^[a-z][a-z0-9_]*$/;
function isMap(value: object): boolean {
  const keys = Object.keys(value);
  return keys.some((key) => !fieldNames.test(key)) || keys.includes('alpha');
}

describe('configurations recorded from the reference server', () => {
  it('are all here', () => {
    expect(names.length).toBeGreaterThan(40);
  });

  it.each(names)('%s is shown as recorded, field by field and in order', (name) => {
    const recorded: ModelConfig = JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8'));
    const config = served(name);
    expect(config).toEqual(recorded);
    expect(shown(config)).toBe(shown(recorded));
  });

  it.each(names)('%s completes to itself', (name) => {
    const config = served(name);
    expect(completeModelConfig(config, { modelName: name, versionFiles: [] })).toEqual(config);
  });

  it.each(names)('%s reaches a gRPC client whole', (name) => {
    const config = served(name);
    const descriptor = messageDescriptor('inference.ModelConfig');
    expect(toConfigDocument(fromBinary(descriptor, modelConfigToProto(config)))).toEqual(config);
  });

  it.each(names)('%s is read back from the JSON that is shown', (name) => {
    const config = served(name);
    expect(parseModelConfigJson(JSON.stringify(config))).toEqual(config);
  });
});
