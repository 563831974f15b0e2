import { describe, expect, it } from 'vitest';
import type { TensorMetadata } from '../../src/inference/model-metadata.js';
import {
  completeFromSignature,
  type ModelSignature,
} from '../../src/model-config/auto-complete.js';
import { completeModelConfig } from '../../src/model-config/complete-model-config.js';
import { parseModelConfigText } from '../../src/model-config/read-model-config.js';
import { validateAgainstSignature } from '../../src/model-config/validate-against-signature.js';
import { validateModelConfig } from '../../src/model-config/validate-model-config.js';

function tensor(name: string, shape: number[], datatype: TensorMetadata['datatype'] = 'FP32') {
  return { name, datatype, shape };
}

function signature(
  inputs: TensorMetadata[],
  outputs: TensorMetadata[],
  optionalInputs: TensorMetadata[] = [],
): ModelSignature {
  return { inputs, outputs, optionalInputs };
}

const completion = { modelName: 'm', versionFiles: ['model.onnx'] };

function configOf(text: string) {
  return completeModelConfig(parseModelConfigText(text, 'config.pbtxt'), completion);
}

/** As a load does it: complete, ask the file, complete again. */
function load(text: string, model: ModelSignature, defaultMaxBatchSize = 4) {
  const config = completeFromSignature(configOf(text), model, { defaultMaxBatchSize });
  return completeModelConfig(config, completion);
}

const batched = signature([tensor('X', [-1, 3, -1])], [tensor('Y', [-1], 'INT64')]);
const fixed = signature([tensor('X', [1, 3])], [tensor('Y', [-1, 2])]);

describe('completeFromSignature', () => {
  it('completes the simplest model as the reference server does', () => {
    const config = load('', batched);
    validateModelConfig(config);
    validateAgainstSignature(config, batched);
    expect(config).toMatchObject({
      name: 'm',
      platform: 'onnxruntime_onnx',
      backend: 'onnxruntime',
      version_policy: { latest: { num_versions: 1 } },
      max_batch_size: 4,
      input: [{ name: 'X', data_type: 'TYPE_FP32', dims: [3, -1] }],
      output: [{ name: 'Y', data_type: 'TYPE_INT64', dims: [1], reshape: { shape: [] } }],
      dynamic_batching: { preferred_batch_size: [4] },
      instance_group: [{ name: 'm', kind: 'KIND_CPU', count: 2 }],
      default_model_filename: 'model.onnx',
    });
  });

  it.each([
    ['', 4, 4, true],
    ['', 1, 1, false],
    ['', 0, 0, false],
    ['', -5, 0, false],
    ['max_batch_size: 16', 4, 16, true],
    ['max_batch_size: 1', 4, 1, false],
  ])('with %j and default %i batches up to %i', (text, defaultMaxBatchSize, max, isDynamic) => {
    const config = load(text, batched, defaultMaxBatchSize);
    expect(config.max_batch_size).toBe(max);
    expect(config.dynamic_batching !== undefined).toBe(isDynamic);
  });

  it('keeps the scheduler that is given', () => {
    expect(load('sequence_batching { }', batched).dynamic_batching).toBeUndefined();
    const { dynamic_batching } = load(
      'dynamic_batching { max_queue_delay_microseconds: 7 }',
      batched,
    );
    expect(dynamic_batching?.max_queue_delay_microseconds).toBe(7);
  });

  it.each([
    ['an input with a fixed first dimension', fixed],
    ['a scalar output', signature([tensor('X', [-1])], [tensor('Y', [])])],
  ])('does not batch a model with %s', (_what, model) => {
    const config = load('', model);
    expect(config.max_batch_size).toBe(0);
    expect(config.dynamic_batching).toBeUndefined();
    validateModelConfig(config);
    validateAgainstSignature(config, model);
  });

  it('gives a scalar of a model without batching one element and no reshape', () => {
    const config = load('', signature([tensor('X', [])], [tensor('Y', [])]));
    expect(config.input[0]?.dims).toEqual([1]);
    expect(config.input[0]?.reshape).toBeUndefined();
  });

  it('refuses to batch a model that cannot', () => {
    expect(() => load('max_batch_size: 8', fixed)).toThrow(
      "autofill failed for model 'm': model does not support batching while non-zero max_batch_size is specified",
    );
  });

  it('completes only the list that is missing', () => {
    const config = load('input { name: "X" data_type: TYPE_FP32 dims: [ 3, 7 ] }', batched);
    expect(config.input[0]?.dims).toEqual([3, 7]);
    expect(config.output[0]?.name).toBe('Y');
  });

  it('changes nothing where both are given', () => {
    const text = 'input { name: "X" data_type: TYPE_FP32 dims: 3 } output { name: "Y" }';
    const config = configOf(text);
    expect(completeFromSignature(config, batched, { defaultMaxBatchSize: 4 })).toBe(config);
  });

  it('leaves the configuration that it is given as it is', () => {
    const config = configOf('');
    const before = structuredClone(config);
    completeFromSignature(config, batched, { defaultMaxBatchSize: 4 });
    expect(config).toEqual(before);
  });
});

describe('validateAgainstSignature', () => {
  const x = 'input { name: "X" data_type: TYPE_FP32 dims: 3 }';
  const y = 'output { name: "Y" data_type: TYPE_FP32 dims: 2 }';
  const start =
    'control_input { name: "S" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }';
  const corrid =
    'control_input { name: "C" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }';
  const model = signature([tensor('X', [3])], [tensor('Y', [-1]), tensor('Z', [1])]);
  const batch = signature([tensor('X', [-1, 3])], [tensor('Y', [-1, 2])]);
  const sequence = signature(
    [tensor('X', [3]), tensor('S', [1], 'INT32'), tensor('C', [1], 'UINT64'), tensor('I', [1])],
    [tensor('Y', [2]), tensor('O', [1])],
  );

  it.each([
    ['fewer outputs than the model has', `${x} ${y}`, model],
    ['a fixed dimension where the model is free', `${x} ${y}`, model],
    ['a batch dimension that is not written down', `max_batch_size: 2 ${x} ${y}`, batch],
    [
      'a reshape to the model shape',
      'input { name: "X" data_type: TYPE_FP32 dims: [ 3, 1 ] reshape { shape: 3 } }',
      model,
    ],
    [
      'ones for a scalar',
      'input { name: "X" data_type: TYPE_FP32 dims: [ 1, 1 ] }',
      signature([tensor('X', [])], []),
    ],
    [
      'controls and states beside the inputs',
      `${x} sequence_batching { ${start} ${corrid} state { input_name: "I" output_name: "O" } }`,
      sequence,
    ],
    [
      'an optional input with a value in the file',
      `${x} input { name: "W" data_type: TYPE_FP32 dims: 1 optional: true }`,
      signature([tensor('X', [3])], [], [tensor('W', [1])]),
    ],
    [
      'a ragged input',
      'max_batch_size: 2 input { name: "X" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true }',
      signature([tensor('X', [-1])], []),
    ],
    [
      'any shape of an output that is scattered',
      `${x} output { name: "Y" data_type: TYPE_FP32 dims: [ 5, 5 ] } batch_output { target_name: "Y" source_input: "X" }`,
      model,
    ],
  ])('accepts %s', (_what, text, file) => {
    expect(() => validateAgainstSignature(configOf(text), file)).not.toThrow();
  });

  it.each([
    [y, model, "unable to load model 'm', configuration expects 0 inputs, model provides 1"],
    [
      'input { name: "W" data_type: TYPE_FP32 dims: 3 }',
      signature([tensor('X', [3])], [], [tensor('A', [1])]),
      "unexpected inference input 'W', allowed inputs are: A, X",
    ],
    [
      `${x} output { name: "W" data_type: TYPE_FP32 dims: 2 }`,
      model,
      "unexpected inference output 'W', allowed outputs are: Y, Z",
    ],
    [
      'input { name: "X" data_type: TYPE_INT32 dims: 3 }',
      model,
      "unable to load model 'm', configuration expects datatype TYPE_INT32 for input 'X', model provides TYPE_FP32",
    ],
    [
      `${x} output { name: "Y" data_type: TYPE_STRING dims: 2 }`,
      model,
      "unable to load model 'm', configuration expects datatype TYPE_STRING for output 'Y', model provides TYPE_FP32",
    ],
    [
      'input { name: "X" data_type: TYPE_FP32 dims: 4 }',
      model,
      "model 'm', tensor 'X': the model expects 1 dimensions (shape [3]) but the model configuration specifies 1 dimensions (shape [4])",
    ],
    [
      'input { name: "X" data_type: TYPE_FP32 dims: -1 }',
      model,
      "model 'm', tensor 'X': the model expects 1 dimensions (shape [3]) but the model configuration specifies 1 dimensions (shape [-1])",
    ],
    [
      'max_batch_size: 2 input { name: "X" data_type: TYPE_FP32 dims: [ 3, 1 ] }',
      batch,
      "model 'm', tensor 'X': the model expects 2 dimensions (shape [-1,3]) but the model configuration specifies 3 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape [-1,3,1])",
    ],
    [
      `max_batch_size: 2 ${x}`,
      model,
      "model 'm', tensor 'X': for the model to support batching the shape should have at least 1 dimension and the first dimension must be -1; but shape expected by the model is [3]",
    ],
    [
      `max_batch_size: 2 ${x}`,
      signature([tensor('X', [])], []),
      "model 'm', tensor 'X': for the model to support batching the shape should have at least 1 dimension and the first dimension must be -1; but shape expected by the model is []",
    ],
    [
      'input { name: "X" data_type: TYPE_FP32 dims: 2 }',
      signature([tensor('X', [])], []),
      "unable to load model 'm', scalar tensor 'X', should only provide 1 in the model configuration when the model doesn't support batching. Model configuration provided: [2].",
    ],
    [
      'max_batch_size: 2 input { name: "X" data_type: TYPE_FP32 dims: 3 optional: true }',
      batch,
      "unable to load model 'm', optional input 'X' is not supported for models that support batching",
    ],
    [
      'max_batch_size: 2 input { name: "X" data_type: TYPE_FP32 dims: 3 allow_ragged_batch: true }',
      batch,
      "unable to load model 'm', configuration expects model provides input with shape [-1]  for ragged input 'X', model provides [-1,3]",
    ],
    [
      `sequence_batching { ${start} }`,
      model,
      "configuration specified sequence control 'S', but model does not provide that input",
    ],
    [
      `sequence_batching { ${start} }`,
      signature([tensor('S', [2], 'INT32')], []),
      "unable to load model 'm', sequence control 'S' in model has dims [2] but dims [1] is expected",
    ],
    [
      `sequence_batching { ${start} }`,
      signature([tensor('S', [1])], []),
      "unable to load model 'm', sequence control 'S', the model expects data-type TYPE_FP32 but the model configuration specifies data-type TYPE_INT32",
    ],
  ])('refuses %j', (text, file, message) => {
    expect(() => validateAgainstSignature(configOf(text), file)).toThrow(message);
  });
});
