import { describe, expect, it } from 'vitest';
import { InferenceServerError } from '../../src/errors.js';
import { encodeBytesElements } from '../../src/inference/bytes-elements.js';
import { type Datatype, elementBytes } from '../../src/inference/datatype.js';
import { type InferenceRequest, noParameters } from '../../src/inference/infer-request.js';
import { elementCount } from '../../src/inference/shape.js';
import type { Tensor } from '../../src/inference/tensor.js';
import type { ModelConfig, ModelInput } from '../../src/model-config/model-config.js';
import { createRequestValidator, type ValidRequest } from '../../src/server/request-validation.js';
import { modelConfig, modelInput, modelOutput } from '../support/model-configs.js';

function request(
  inputs: readonly Tensor[],
  fields: Partial<InferenceRequest> = {},
): InferenceRequest {
  return {
    modelName: 'm',
    modelVersion: '',
    id: 'r1',
    parameters: noParameters,
    priority: 0,
    timeoutUs: 0,
    sequence: undefined,
    inputs,
    requestedOutputs: [],
    prefersJsonText: false,
    ...fields,
  };
}

function tensor(name: string, shape: readonly number[], fields: Partial<Tensor> = {}): Tensor {
  const datatype: Datatype = fields.datatype ?? 'FP32';
  const bytes = fields.bytes ?? new Uint8Array(elementCount(shape) * elementBytes[datatype]);
  return { name, datatype, shape, encoding: 'raw', ...fields, bytes };
}

function fp32(name: string, dims: number[], fields: Partial<ModelInput> = {}): ModelInput {
  return modelInput(name, 'TYPE_FP32', dims, fields);
}

const plain = modelConfig({
  input: [fp32('A', [4]), fp32('B', [-1, 2])],
  output: [modelOutput('OUT', 'TYPE_FP32', [4])],
});
const batching: ModelConfig = { ...plain, max_batch_size: 8 };

function validate(config: ModelConfig, given: InferenceRequest): ValidRequest {
  return createRequestValidator(config)(given);
}

describe('createRequestValidator', () => {
  it('passes the inputs of a sound request on, untouched', () => {
    const given = request([tensor('B', [3, 2]), tensor('A', [4])], { requestedOutputs: ['OUT'] });
    expect(validate(plain, given)).toEqual({ rows: 1, modelInputs: given.inputs });
    expect(validate(plain, given).modelInputs).toBe(given.inputs);
  });

  it.each([0, 1, 8])('counts %d rows', (rows) => {
    const given = request([tensor('A', [rows, 4]), tensor('B', [rows, 3, 2])]);
    expect(validate(batching, given).rows).toBe(rows);
  });

  it.each<[string, ModelConfig, readonly Tensor[], string]>([
    [
      'too few inputs',
      plain,
      [tensor('B', [1, 2])],
      "[request id: r1] expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['B'], but missing required input(s) ['A']. Please provide all required input(s).",
    ],
    [
      'no inputs',
      plain,
      [],
      "[request id: r1] expected 2 inputs but got 0 inputs for model 'm'. Got input(s) [], but missing required input(s) ['A','B']. Please provide all required input(s).",
    ],
    [
      'too many inputs, in the order of the hash table',
      plain,
      [tensor('A', [4]), tensor('B', [1, 2]), tensor('C', [1])],
      "[request id: r1] expected 2 inputs but got 3 inputs for model 'm'. Got input(s) ['B','C','A'], but missing required input(s) ]. Please provide all required input(s).",
    ],
    [
      'an unknown input',
      plain,
      [tensor('A', [4]), tensor('X', [1, 2])],
      "unexpected inference input 'X' for model 'm'",
    ],
    [
      'an input given twice',
      plain,
      [tensor('A', [4]), tensor('A', [4])],
      "[request id: r1] input 'A' already exists in request",
    ],
    [
      'another datatype',
      plain,
      [tensor('A', [4], { datatype: 'INT32' }), tensor('B', [1, 2])],
      "[request id: r1] inference input 'A' data-type is 'INT32', but model 'm' expects 'FP32'",
    ],
    [
      'another shape',
      plain,
      [tensor('A', [5]), tensor('B', [1, 2])],
      "[request id: r1] unexpected shape for input 'A' for model 'm'. Expected [4], got [5]. ",
    ],
    [
      'another rank',
      plain,
      [tensor('A', [4]), tensor('B', [1, 2, 1])],
      "[request id: r1] unexpected shape for input 'B' for model 'm'. Expected [-1,2], got [1,2,1]. ",
    ],
    [
      'two wrong shapes: the last comes first in the hash table',
      plain,
      [tensor('A', [5]), tensor('B', [1])],
      "[request id: r1] unexpected shape for input 'B' for model 'm'. Expected [-1,2], got [1]. ",
    ],
    [
      'no batch dimension',
      batching,
      [tensor('A', [1, 4]), tensor('B', [], { bytes: new Uint8Array(0) })],
      "[request id: r1] input 'B' has no shape but model requires batch dimension for 'm'",
    ],
    [
      'a batch dimension that is missing',
      batching,
      [tensor('A', [4]), tensor('B', [4, 1, 2])],
      "[request id: r1] unexpected shape for input 'A' for model 'm'. Expected [-1,4], got [4]. NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size.",
    ],
    [
      'unequal batch dimensions',
      batching,
      [tensor('A', [1, 4]), tensor('B', [2, 1, 2])],
      "[request id: r1] input 'A' batch size does not match other inputs for 'm'",
    ],
    [
      'no rows in its first input only',
      batching,
      [tensor('A', [0, 4]), tensor('B', [1, 1, 2])],
      "[request id: r1] input 'A' batch size does not match other inputs for 'm'",
    ],
    [
      'no rows in its second input only',
      batching,
      [tensor('A', [1, 4]), tensor('B', [0, 1, 2])],
      "[request id: r1] input 'A' batch size does not match other inputs for 'm'",
    ],
    [
      'a batch that is too large',
      batching,
      [tensor('A', [9, 4]), tensor('B', [9, 1, 2])],
      "[request id: r1] inference request batch-size must be <= 8 for 'm'",
    ],
    [
      'too few bytes',
      plain,
      [tensor('A', [4], { bytes: new Uint8Array(12) }), tensor('B', [1, 2])],
      "[request id: r1] input byte size mismatch for input 'A' for model 'm'. Expected 16, got 12",
    ],
    [
      'an element count beyond 63 bits',
      plain,
      [tensor('A', [4]), tensor('B', [2 ** 62, 2], { encoding: 'json', bytes: new Uint8Array(3) })],
      "[request id: r1] invalid shape for input 'B': shape [4611686018427387904,2] causes total element count to exceed maximum size of 9223372036854775807",
    ],
    [
      'a byte size beyond 63 bits',
      plain,
      [tensor('A', [4]), tensor('B', [2 ** 60, 2], { encoding: 'json', bytes: new Uint8Array(3) })],
      "[request id: r1] invalid shape for input 'B': shape [1152921504606846976,2] causes total byte size to exceed maximum size of 9223372036854775807",
    ],
  ])('refuses a request with %s', (_what, config, inputs, message) => {
    expect(() => validate(config, request(inputs))).toThrow(
      new InferenceServerError('INVALID_ARG', message),
    );
  });

  it('names a request without an id so', () => {
    expect(() => validate(plain, request([], { id: '' }))).toThrow(
      /^\[request id: <id_unknown>\] /,
    );
  });

  it('reports unknown outputs first, by name', () => {
    expect(() => validate(plain, request([], { requestedOutputs: ['Z', 'OUT', 'Y'] }))).toThrow(
      new InferenceServerError('INVALID_ARG', "unexpected inference output 'Y' for model 'm'"),
    );
  });

  it('says the same about a request however often sound ones came before', () => {
    const check = createRequestValidator(plain);
    const shape = [4];
    const given = request([tensor('A', shape), tensor('B', [1, 2])]);
    for (let times = 0; times < 3; times++) expect(check(given).rows).toBe(1);
    const short = { ...tensor('A', shape), bytes: new Uint8Array(12) };
    expect(() => check(request([short, tensor('B', [1, 2])]))).toThrow('Expected 16, got 12');
    expect(() =>
      check(request([{ ...tensor('A', shape), datatype: 'INT32' }, tensor('B', [1, 2])])),
    ).toThrow("data-type is 'INT32'");
  });

  describe('with BYTES', () => {
    const config = modelConfig({ input: [modelInput('S', 'TYPE_STRING', [2])] });
    const elements = (...texts: string[]): Uint8Array =>
      encodeBytesElements(texts.map((text) => Buffer.from(text)));
    const cut = (bytes: Uint8Array, by: number): Uint8Array => bytes.subarray(0, bytes.length - by);

    it('counts the elements', () => {
      const given = request([tensor('S', [2], { datatype: 'BYTES', bytes: elements('a', '') })]);
      expect(validate(config, given).rows).toBe(1);
    });

    it.each<[string, Uint8Array, string]>([
      [
        'too few',
        elements('a'),
        "[request id: r1] expected 2 string elements for inference input 'S' for model 'm', got 1",
      ],
      [
        'too many, counted up to the first of them',
        elements('a', 'b', 'c', 'd'),
        "[request id: r1] unexpected number of string elements 3 for inference input 'S' for model 'm', expecting 2",
      ],
      [
        'the last one cut off',
        cut(elements('a', 'bcd'), 1),
        "incomplete string data for inference input 'S', expecting string of length 3 but only 2 bytes available",
      ],
      [
        'the first of two cut off',
        cut(elements('bcd'), 1),
        "[request id: r1] expected 2 string elements for inference input 'S' for model 'm', got 1",
      ],
      [
        'a length cut off',
        cut(elements('a', ''), 2),
        "[request id: r1] incomplete string length indicator for inference input 'S' for model 'm', expecting 4 bytes but only 2 bytes available. Please make sure the string length indicator is in one buffer.",
      ],
    ])('refuses %s', (_what, bytes, message) => {
      const given = request([tensor('S', [2], { datatype: 'BYTES', bytes })]);
      expect(() => validate(config, given)).toThrow(
        new InferenceServerError('INVALID_ARG', message),
      );
    });
  });

  describe('with optional inputs', () => {
    const config = modelConfig({
      max_batch_size: 4,
      input: [fp32('A', [2]), fp32('B', [2], { optional: true })],
    });

    it('accepts a request without them', () => {
      expect(validate(config, request([tensor('A', [1, 2])])).rows).toBe(1);
    });

    it.each<[readonly Tensor[], string]>([
      [
        [],
        "[request id: r1] expected number of inputs between 1 and 2 but got 0 inputs for model 'm'. Got input(s) [], but missing required input(s) ['A']. Please provide all required input(s).",
      ],
      [[tensor('B', [1, 2])], "[request id: r1] missing required input 'A' for model 'm'"],
    ])('requires the others', (inputs, message) => {
      expect(() => validate(config, request(inputs))).toThrow(
        new InferenceServerError('INVALID_ARG', message),
      );
    });
  });

  it.each<[ModelConfig, number[], number[]]>([
    [modelConfig({ input: [fp32('A', [2, 3], { reshape: { shape: [6] } })] }), [2, 3], [6]],
    [
      modelConfig({ max_batch_size: 4, input: [fp32('A', [1], { reshape: { shape: [] } })] }),
      [3, 1],
      [3],
    ],
    [
      modelConfig({ input: [fp32('A', [-1, 4, -1], { reshape: { shape: [2, -1, 2, -1] } })] }),
      [5, 4, 7],
      [2, 5, 2, 7],
    ],
  ])('reshapes inputs as the model says', (config, shape, reshaped) => {
    const given = request([tensor('A', shape)]);
    const { modelInputs } = validate(config, given);
    expect(modelInputs[0]?.shape).toEqual(reshaped);
    expect(modelInputs[0]?.bytes).toBe(given.inputs[0]?.bytes);
    expect(given.inputs[0]?.shape).toEqual(shape);
  });

  it('lets ragged inputs have any dimensions, of the right rank', () => {
    const config = modelConfig({
      max_batch_size: 4,
      input: [fp32('A', [1], { allow_ragged_batch: true })],
    });
    expect(validate(config, request([tensor('A', [1, 5])])).rows).toBe(1);
    expect(() => validate(config, request([tensor('A', [1, 5, 1])]))).toThrow('unexpected shape');
  });

  it('takes shape tensors without a batch dimension', () => {
    const config = modelConfig({
      max_batch_size: 4,
      input: [fp32('A', [2]), fp32('S', [2], { is_shape_tensor: true })],
    });
    expect(validate(config, request([tensor('S', [2]), tensor('A', [3, 2])])).rows).toBe(3);
  });

  it('checks the shape of inputs that are still text, not their size', () => {
    const text = { encoding: 'json', bytes: Buffer.from('[1,2,3,4,5]') } as const;
    const given = request([tensor('A', [4], text), tensor('B', [1, 2])]);
    expect(validate(plain, given).rows).toBe(1);
    expect(() => validate(plain, request([tensor('A', [5], text), tensor('B', [1, 2])]))).toThrow(
      'unexpected shape',
    );
  });
});
