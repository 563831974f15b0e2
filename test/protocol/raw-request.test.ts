import { describe, expect, it } from 'vitest';
import { invalidArg } from '../../src/errors.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import { parseRawRequest } from '../../src/protocol/raw-request.js';
import { binaryResponseForm } from '../../src/protocol/response-form.js';
import { modelConfig, modelInput } from '../support/model-configs.js';

const target = { modelName: 'm', modelVersion: '' };
const limits = { inputBytesMax: 100 };

function model(dataType: string, dims: number[], maxBatchSize = 0): ModelConfig {
  return modelConfig({ max_batch_size: maxBatchSize, input: [modelInput('IN', dataType, dims)] });
}

describe('parseRawRequest', () => {
  it.each([
    [model('TYPE_FP32', [-1]), 12, [3]],
    [model('TYPE_FP32', [-1], 8), 0, [1, 0]],
    [model('TYPE_INT8', [2, -1, 3], 8), 24, [1, 2, 4, 3]],
    [model('TYPE_FP64', [2]), 16, [2]],
  ])('deduces the shape of the only input', (config, byteLength, shape) => {
    const body = Buffer.alloc(byteLength);
    const { request, responseForm } = parseRawRequest(target, body, config, limits);
    expect(request.inputs).toEqual([
      { name: 'IN', datatype: expect.any(String), shape, encoding: 'raw', bytes: body },
    ]);
    expect(responseForm).toBe(binaryResponseForm);
  });

  it('takes the body as one element of BYTES', () => {
    const { request } = parseRawRequest(
      target,
      Buffer.from('hi'),
      model('TYPE_STRING', [1]),
      limits,
    );
    expect(request.inputs[0]?.bytes).toEqual(Uint8Array.of(2, 0, 0, 0, 0x68, 0x69));
  });

  it.each<[ModelConfig, number, string]>([
    [
      model('TYPE_FP32', [-1]),
      101,
      'Raw input has a byte_size (101 bytes) that exceeds the maximum allowed value of 100 bytes. Use --http-max-input-size to increase the limit.',
    ],
    [
      modelConfig({ input: [] }),
      4,
      "[request id: <id_unknown>] Raw request must only have 1 input (found 1) to be deduced but got 0 inputs in 'm' model configuration",
    ],
    [
      model('TYPE_FP32', [-1, -1]),
      4,
      "[request id: <id_unknown>] The shape of the raw input 'IN' can not be deduced because there are more than one variable-sized dimension",
    ],
    [
      model('TYPE_STRING', [-1]),
      4,
      "[request id: <id_unknown>] For BYTE datatype raw input 'IN', the model must have input shape [1]",
    ],
    [
      model('TYPE_FP32', [-1]),
      7,
      "[request id: <id_unknown>] input byte size mismatch for input 'raw_input' for model 'm'. Expected 4, got 7",
    ],
    [
      model('TYPE_FP32', [4]),
      12,
      "[request id: <id_unknown>] input byte size mismatch for input 'raw_input' for model 'm'. Expected 16, got 12",
    ],
  ])('refuses what cannot be deduced', (config, byteLength, message) => {
    expect(() => parseRawRequest(target, Buffer.alloc(byteLength), config, limits)).toThrow(
      invalidArg(message),
    );
  });
});
