import { describe, expect, it } from 'vitest';
import { invalidArg } from '../../src/errors.js';
import { encodeBytesElements } from '../../src/inference/bytes-elements.js';
import type { InferenceRequest } from '../../src/inference/infer-request.js';
import type { Tensor } from '../../src/inference/tensor.js';
import {
  generateEvent,
  generateResponseBody,
  parseGenerateRequest,
} from '../../src/protocol/generate-json.js';
import { modelConfig, modelInput } from '../support/model-configs.js';

const config = modelConfig({
  input: [
    modelInput('text', 'TYPE_STRING', [-1]),
    modelInput('n', 'TYPE_INT32', [1]),
    modelInput('pair', 'TYPE_FP32', [-1, 2]),
    modelInput('half', 'TYPE_FP16', [1]),
  ],
});
const limits = { inputBytesMax: 1000 };

function parse(body: unknown, model = config): InferenceRequest {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return parseGenerateRequest(
    { modelName: 'm', modelVersion: '' },
    Buffer.from(text),
    model,
    limits,
  );
}

describe('parseGenerateRequest', () => {
  it('makes tensors of members named like inputs, and parameters of all others', () => {
    const request = parse({
      id: 'g1',
      text: 'hi',
      n: 3,
      temperature: 0.5,
      priority: 1,
      triton_x: 2,
      parameters: { stop: 'x', pair: [1, 2, 3, 4] },
    });
    expect(request).toMatchObject({ id: 'g1', priority: 0, timeoutUs: 0, sequence: undefined });
    expect(request.parameters).toEqual(
      new Map<string, unknown>([
        ['id', 'g1'],
        ['temperature', 0.5],
        ['priority', 1n],
        ['triton_x', 2n],
        ['stop', 'x'],
      ]),
    );
    expect(request.inputs.map(({ name, shape }) => [name, shape])).toEqual([
      ['text', [1]],
      ['n', [1]],
      ['pair', [2, 2]],
    ]);
    expect(request.inputs[0]?.bytes).toEqual(encodeBytesElements([Buffer.from('hi')]));
    expect(request.inputs[1]?.bytes).toEqual(Uint8Array.of(3, 0, 0, 0));
  });

  it('fills the batch dimension with what is left', () => {
    const batching = modelConfig({
      max_batch_size: 4,
      input: [modelInput('n', 'TYPE_INT32', [2])],
    });
    expect(parse({ n: [1, 2, 3, 4, 5, 6] }, batching).inputs[0]?.shape).toEqual([3, 2]);
    const variable = modelConfig({
      max_batch_size: 4,
      input: [modelInput('n', 'TYPE_INT32', [-1])],
    });
    expect(parse({ n: [1, 2, 3] }, variable).inputs[0]?.shape).toEqual([1, 3]);
    expect(parse({ n: [] }, variable).inputs[0]?.shape).toEqual([1, 0]);
  });

  it.each<[unknown, string]>([
    ['', 'failed to parse the request JSON buffer: The document is empty. at 0'],
    [[], 'attempt to get members for non-object'],
    [{ id: 5 }, "Unable to parse 'id': attempt to access JSON non-string as string"],
    [
      { foo: { a: 1 } },
      "parameter 'foo' has invalid type. It should be either 'int', 'bool', or 'string'.",
    ],
    [{ text: 5 }, 'Unable to parse JSON bytes array: attempt to access JSON non-string as string'],
    [{ n: [1, 2] }, "The schema can not convert input 'n' to tensor with proper shape"],
    [{ n: [] }, "The schema can not convert input 'n' to tensor with proper shape"],
    [{ pair: [1, 2, 3] }, "The schema can not convert input 'pair' to tensor with proper shape"],
    [
      { n: true },
      "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer",
    ],
    ['{"n":1,"n":2}', "[request id: <id_unknown>] input 'n' already exists in request"],
    [
      { half: 1 },
      'receiving FP16 data via JSON is not supported. Please use the binary data format for input half',
    ],
    [
      { parameters: 3 },
      "Expected JSON object for keyword: 'parameters': attempt to access JSON non-object as object",
    ],
    [
      { text: 'x'.repeat(1000) },
      'request JSON size of 1011 bytes exceeds the maximum allowed input size of 1000 bytes. Use --http-max-input-size to increase the limit.',
    ],
  ])('refuses %j', (body, message) => {
    expect(() => parse(body)).toThrow(invalidArg(message));
  });

  it('refuses `parameters` where an input has that name', () => {
    const model = modelConfig({ input: [modelInput('parameters', 'TYPE_INT32', [1])] });
    expect(() => parse({ parameters: 1 }, model)).toThrow(
      "Keyword 'parameters' for nested schema also given as input tensor name",
    );
  });
});

describe('generateResponseBody', () => {
  const int32 = (name: string, ...values: number[]): Tensor => ({
    name,
    datatype: 'INT32',
    shape: [values.length],
    encoding: 'raw',
    bytes: new Uint8Array(Int32Array.from(values).buffer),
  });

  it('sorts members, unpacks single elements and lets the first of a name win', () => {
    const body = generateResponseBody({
      modelName: 'm',
      modelVersion: '1',
      id: 'g',
      parameters: new Map<string, string | bigint>([
        ['z', 'q'],
        ['id', 'other'],
      ]),
      outputs: [
        int32('n', 1, 2),
        int32('Z', 7),
        int32('empty'),
        {
          name: 'text',
          datatype: 'BYTES',
          shape: [1],
          encoding: 'raw',
          bytes: encodeBytesElements([Buffer.from('a"b')]),
        },
        { ...int32('long'), encoding: 'json', bytes: Buffer.from('[5,6]') },
      ],
    });
    expect(Buffer.from(body).toString()).toBe(
      '{"Z":7,"empty":[],"id":"g","long":[5,6],"model_name":"m","model_version":"1","n":[1,2],"text":"a\\"b","z":"q"}',
    );
  });

  it('becomes a server-sent event', () => {
    expect(Buffer.from(generateEvent(Buffer.from('{}'))).toString()).toBe('data: {}\n\n');
  });
});
