import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { InferenceServerError } from '../../src/errors.js';
import { completeModelConfig } from '../../src/model-config/complete-model-config.js';
import { parseModelConfigText } from '../../src/model-config/read-model-config.js';
import {
  validateModelConfig,
  validateModelConfigBeforeLoad,
} from '../../src/model-config/validate-model-config.js';

function configOf(text: string, modelName = 'm') {
  return completeModelConfig(parseModelConfigText(text, 'config.pbtxt'), {
    modelName,
    versionFiles: ['model.py'],
  });
}

function messageOf(action: () => void): string {
  try {
    action();
  } catch (error) {
    expect(error).toBeInstanceOf(InferenceServerError);
    if (error instanceof InferenceServerError) {
      expect(error.code).toBe('INVALID_ARG');
      return error.message;
    }
  }
  return 'no error';
}

function beforeLoad(text: string) {
  return messageOf(() => validateModelConfigBeforeLoad(configOf(text), 'm'));
}

function atLoad(text: string) {
  return messageOf(() => validateModelConfig(configOf(text)));
}

const control = (name: string, kind: string, values: string) =>
  `control_input { name: "${name}" control { kind: CONTROL_SEQUENCE_${kind} ${values} } }`;
const sequence = (text: string) => `max_batch_size: 4 sequence_batching { ${text} }`;
const bools = 'int32_false_true: [ 0, 1 ]';

describe('recorded load errors', () => {
  const repository = new URL('../conformance/golden/repo/', import.meta.url);
  const log = readFileSync(new URL('../conformance/golden/logs.txt', import.meta.url), 'utf8');

  function recorded(name: string) {
    const found = new RegExp(
      `(?:Poll failed for model directory '${name}': |failed to load '${name}' version 1: Invalid argument: )(.*)"$`,
      'm',
    ).exec(log);
    return found?.[1] ?? 'not recorded';
  }

  function failureOf(name: string, validate: (text: string) => void) {
    const text = readFileSync(new URL(`${name}/config.pbtxt`, repository), 'utf8');
    return messageOf(() => validate(text));
  }

  it.each(['broken_name', 'broken_negative_mbs', 'broken_preferred'])(
    '%s is no model, for the recorded reason',
    (name) => {
      const message = failureOf(name, (text) =>
        validateModelConfigBeforeLoad(configOf(text, name), name),
      );
      expect(message).toBe(recorded(name));
    },
  );

  it.each(['broken_backend', 'broken_dims', 'broken_nodims', 'broken_kind_gpu'])(
    '%s is a model, but fails to load for the recorded reason',
    (name) => {
      const before = failureOf(name, (text) =>
        validateModelConfigBeforeLoad(configOf(text, name), name),
      );
      expect(before).toBe('no error');
      const message = failureOf(name, (text) => validateModelConfig(configOf(text, name)));
      expect(message).toBe(recorded(name));
    },
  );

  it.each(['broken_syntax', 'broken_field', 'broken_dtype'])('%s cannot be read', (name) => {
    const message = failureOf(name, (text) => configOf(text, name));
    expect(message).toMatch(/^failed to read text proto from config\.pbtxt: line \d+, column \d+/);
  });
});

describe('validateModelConfigBeforeLoad', () => {
  it.each([
    [
      'name: "n"',
      "unexpected directory name 'm' for model 'n', directory name must equal model name",
    ],
    [
      'platform: "onnx"',
      "unexpected platform type 'onnx' for m, expected one of: ensemble, tensorflow_savedmodel, tensorflow_graphdef, tensorrt_plan, onnxruntime_onnx, pytorch_libtorch, torch_aoti",
    ],
    [
      'platform: "ensemble" backend: "python"',
      "Ensemble model 'm' must have platform type 'ensemble' and empty backend type",
    ],
    [
      'platform: "onnxruntime_onnx" backend: "python"',
      "unexpected 'platform' and 'backend' pair, got:onnxruntime_onnx, python",
    ],
    [
      'platform: "x" backend: "onnxruntime"',
      "unexpected 'platform' and 'backend' pair, got:x, onnxruntime",
    ],
    ['max_batch_size: -1', "'max_batch_size' must be non-negative value for m"],
    [
      'max_batch_size: 0 dynamic_batching { preferred_batch_size: 1 }',
      'dynamic batching preferred size must be <= max batch size for m',
    ],
    [
      'max_batch_size: 4 dynamic_batching { preferred_batch_size: [ 4, 5 ] }',
      'dynamic batching preferred size must be <= max batch size for m',
    ],
    [
      'max_batch_size: 4 dynamic_batching { preferred_batch_size: 0 }',
      'dynamic batching preferred size must be positive for m',
    ],
    [
      'dynamic_batching { priority_levels: 2 }',
      'default priority level must be in range [1, 2] for m',
    ],
    [
      'dynamic_batching { priority_levels: 2 default_priority_level: 3 }',
      'default priority level must be in range [1, 2] for m',
    ],
    [
      'dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } } }',
      'priority queue policy must have priority level in range [1, 2] for m',
    ],
    [
      'dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 0 value { } } }',
      'priority queue policy must have priority level in range [1, 2] for m',
    ],
    [
      'dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }',
      "Only one priority level is allowed when 'preserve_ordering' is true for m",
    ],
    [
      'dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1 } }',
      "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m",
    ],
    [
      'dynamic_batching { preserve_ordering: true priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 1 } } }',
      "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m",
    ],
    [
      'sequence_batching { } response_cache { enable: true }',
      'Response Cache does not currently support model m with sequence batching scheduler. Please disable the response cache.',
    ],
    [
      'model_transaction_policy { decoupled: true } response_cache { enable: true }',
      "Response Cache does not currently support model m with 'decoupled' transaction policy. Please disable the response cache.",
    ],
    [
      sequence(control('', 'START', bools)),
      'sequence batching control tensor must have a name for m',
    ],
    [
      sequence(control('S', 'START', bools) + control('S', 'END', bools)),
      "sequence batching control tensor 'S' is specified for multiple control kinds for m",
    ],
    [
      sequence(control('S', 'START', bools) + control('T', 'START', bools)),
      'sequence batching specifies multiple CONTROL_SEQUENCE_START tensors for m',
    ],
    [
      sequence(control('E', 'END', '')),
      "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for CONTROL_SEQUENCE_END for m",
    ],
    [
      sequence(control('R', 'READY', `${bools} bool_false_true: [ false, true ]`)),
      "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true' for CONTROL_SEQUENCE_READY for m",
    ],
    [
      sequence(control('R', 'READY', 'fp32_false_true: 1')),
      "sequence batching control 'fp32_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_READY for m",
    ],
    [
      sequence(control('R', 'READY', 'bool_false_true: [ true, true, true ]')),
      "sequence batching control 'bool_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_READY for m",
    ],
    [
      sequence(control('C', 'CORRID', bools)),
      "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for CONTROL_SEQUENCE_CORRID for m",
    ],
    [
      sequence(control('C', 'CORRID', 'data_type: TYPE_FP32')),
      'unexpected data type for control CONTROL_SEQUENCE_CORRID for m. Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING',
    ],
    [
      sequence('oldest { preferred_batch_size: 5 }'),
      'sequence batching preferred batch size must be <= max batch size for m',
    ],
    [
      sequence('oldest { preferred_batch_size: 0 }'),
      'sequence batching preferred batch size must be positive for m',
    ],
    [
      sequence('oldest { }'),
      "sequence batching oldest strategy must specify 'max_candidate_sequences' > 0 for m",
    ],
    [
      sequence('direct { minimum_slot_utilization: 1.1 }'),
      'sequence batching minimum slot utilization must be in range (0.0, 1.0] for m',
    ],
    [
      sequence('direct { minimum_slot_utilization: nan }'),
      'sequence batching minimum slot utilization must be in range (0.0, 1.0] for m',
    ],
    ['model_metrics { metric_control { } }', "metric control must specify 'metric_identifier'"],
    [
      'model_metrics { metric_control { metric_identifier { } } }',
      "metric identifier must specify non-empty 'family'",
    ],
    [
      'model_metrics { metric_control { metric_identifier { family: "f" } } }',
      "metric control must specify 'histogram_options'",
    ],
    [
      'model_metrics { metric_control { metric_identifier { family: "f" } histogram_options { } } }',
      "histogram options must specify non-empty 'buckets'",
    ],
    [
      'model_metrics { metric_control { metric_identifier { family: "f" } histogram_options { buckets: [ 2, 1 ] } } }',
      "histogram options of 'f' must have finite, ascending 'buckets', got [2, 1]",
    ],
  ])('refuses %j', (text, message) => {
    expect(beforeLoad(text)).toBe(message);
    expect(atLoad(text)).toBe(text.startsWith('name') ? 'no error' : message);
  });

  it.each([
    'backend: "nosuch" platform: "x"',
    'max_batch_size: 4 dynamic_batching { preferred_batch_size: [ 1, 4 ] }',
    'dynamic_batching { priority_levels: 2 default_priority_level: 2 priority_queue_policy { key: 1 value { } } priority_queue_policy { key: 2 value { } } }',
    'dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY } }',
    'response_cache { enable: true }',
    sequence('direct { minimum_slot_utilization: 0 }'),
    sequence('direct { minimum_slot_utilization: 1 }'),
    sequence('oldest { max_candidate_sequences: 1 preferred_batch_size: [ 1, 4 ] }'),
    sequence(control('C', 'CORRID', 'data_type: TYPE_STRING') + control('S', 'START', bools)),
    'model_metrics { metric_control { metric_identifier { family: "f" } histogram_options { buckets: [ 1, 2 ] } } }',
  ])('accepts %j', (text) => {
    expect(beforeLoad(text)).toBe('no error');
  });
});

describe('validateModelConfig', () => {
  const input = (fields: string) =>
    `max_batch_size: 2 input { name: "I" data_type: TYPE_FP32 ${fields} }`;
  const output = (fields: string) => `output { name: "O" data_type: TYPE_FP32 ${fields} }`;
  const io = `${input('dims: 1')} ${output('dims: 1')}`;
  const size = "model input 'I' has different size for dims and reshape for m";

  it.each([
    [
      'backend: "onnx"',
      "unable to find backend library for backend 'onnx', try specifying runtime on the model configuration. (did you mean 'onnxruntime'?)",
    ],
    [
      'backend: "openvino"',
      "unable to find backend library for backend 'openvino', try specifying runtime on the model configuration.",
    ],
    ['input { }', "model input must specify 'name' for m"],
    ['input { name: "I" }', "model input 'I' must specify 'data_type' for m"],
    ['output { name: "O" data_type: TYPE_INT8 }', "model output 'O' must specify 'dims' for m"],
    [
      input('dims: 0'),
      "model input 'I' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for m",
    ],
    [
      input('dims: -2'),
      "model input 'I' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for m",
    ],
    [
      input('dims: 1 reshape { shape: 0 }'),
      "model input 'I' reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension for m",
    ],
    [
      'input { name: "I" data_type: TYPE_FP32 dims: 1 reshape { } }',
      "model input 'I' cannot have empty reshape for non-batching model as scalar tensors are not supported for m",
    ],
    [input('dims: 2 reshape { }'), size],
    [input('dims: [ 2, 3 ] reshape { shape: 5 }'), size],
    [input('dims: [ 2, -1 ] reshape { shape: 2 }'), size],
    [input('dims: [ 2, -1, 3 ] reshape { shape: [ 3, -1, 2 ] }'), size],
    [
      input('dims: [ -1, -1 ] reshape { shape: -1 }'),
      "model input 'I' has different number of variable-size dimensions for dims and reshape for m",
    ],
    [input('dims: [ 1, 2 ] format: FORMAT_NHWC'), 'model input NHWC/NCHW require 3 dims for m'],
    [
      input('dims: 1 is_shape_tensor: true'),
      'shape tensors are only supported for TensorRT platform for m',
    ],
    [
      output('dims: 1 is_non_linear_format_io: true'),
      'Non-linear IO format is only supported for the TensorRT platform for m',
    ],
    [
      `${io} batch_input { target_name: "B" data_type: TYPE_FP32 }`,
      "batch input kind 'BATCH_ELEMENT_COUNT' expects 1 source input, got 0 for m",
    ],
    [
      `${io} batch_input { target_name: "B" data_type: TYPE_INT8 source_input: "I" }`,
      'batch input data type must be TYPE_INT32 or TYPE_FP32 for m',
    ],
    [
      `${io} batch_input { target_name: "B" data_type: TYPE_FP32 source_input: "X" }`,
      "unknown source input name 'X' for m",
    ],
    [
      `${io} batch_output { target_name: "O" source_input: [ "I", "I" ] }`,
      "batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1 source input, got 2 for m",
    ],
    [
      `${io} batch_output { target_name: "O" source_input: "X" }`,
      "unknown source input name 'X' for m",
    ],
    [
      `${io} batch_output { target_name: "X" source_input: "I" }`,
      "unknown target output name 'X' for m",
    ],
    [
      `${io} batch_output { target_name: [ "O", "O" ] source_input: "I" }`,
      "target output name 'O' can only be specified once for m",
    ],
    [
      'instance_group { kind: KIND_GPU }',
      'instance group m_0 of model m has kind KIND_GPU but no GPUs are available',
    ],
    [
      'instance_group { kind: KIND_GPU gpus: 0 }',
      'instance group m_0 of model m has kind KIND_GPU but no GPUs are available',
    ],
    [
      'instance_group { kind: KIND_CPU gpus: 0 }',
      'instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs',
    ],
    [
      'instance_group { kind: KIND_MODEL gpus: 0 }',
      'instance group m_0 of model m has kind KIND_MODEL but specifies one or more GPUs',
    ],
    [
      'instance_group { count: 1025 kind: KIND_CPU }',
      'instance groups of model m ask for more than 1024 instances',
    ],
    [
      'instance_group { count: 1000 kind: KIND_CPU } instance_group { count: 25 kind: KIND_CPU }',
      'instance groups of model m ask for more than 1024 instances',
    ],
    [
      'instance_group { profile: "1" }',
      'instance group m_0 of model m and platform specifies profile field which is only supported for TensorRT models',
    ],
  ])('refuses %j', (text, message) => {
    expect(atLoad(text)).toBe(message);
    expect(beforeLoad(text)).toBe('no error');
  });

  it.each([
    io,
    input('dims: [ 1 ] reshape { }'),
    input('dims: [ 2, 4, -1, 6 ] reshape { shape: [ 8, -1, 1, 6 ] }'),
    input('dims: [ 3, 4, 5 ] format: FORMAT_NCHW'),
    `${io} batch_input { target_name: "B" data_type: TYPE_INT32 source_input: "I" } batch_output { target_name: "O" source_input: "I" }`,
    'instance_group { kind: KIND_MODEL }',
    'instance_group { kind: KIND_AUTO }',
  ])('accepts %j', (text) => {
    expect(atLoad(text)).toBe('no error');
  });
});
