import { fromBinary, type JsonValue, toJson } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { noParameters, type ParameterValue } from '../../src/inference/infer-request.js';
import type { InferenceResponse } from '../../src/inference/infer-response.js';
import type { Tensor } from '../../src/inference/tensor.js';
import { messageDescriptor } from '../../src/proto/descriptors.js';
import {
  encodeEmptyFinalResponse,
  encodeInferResponse,
  encodeStreamError,
  encodeStreamResponse,
} from '../../src/protocol/infer-response-proto.js';
import { binaryOutput, binaryResponseForm } from '../../src/protocol/response-form.js';
import {
  noSharedMemoryRegions,
  type SharedMemoryRegions,
} from '../../src/protocol/shared-memory-regions.js';

const model = { config: { max_batch_size: 0 }, labels: new Map([['X', ['cat', 'dog']]]) };

function decode(typeName: string, bytes: Uint8Array): JsonValue {
  const descriptor = messageDescriptor(typeName);
  return toJson(descriptor, fromBinary(descriptor, bytes), { useProtoFieldName: true });
}

function fp32(name: string, values: readonly number[]): Tensor {
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  return { name, datatype: 'FP32', shape: [values.length], encoding: 'raw', bytes };
}

function response(outputs: readonly Tensor[]): InferenceResponse {
  return { modelName: 'm', modelVersion: '1', id: '', parameters: noParameters, outputs };
}

const encode = (given: InferenceResponse, form = binaryResponseForm): JsonValue =>
  decode(
    'inference.ModelInferResponse',
    encodeInferResponse(given, form, model, noSharedMemoryRegions),
  );

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

describe('encodeInferResponse', () => {
  it('writes what another implementation reads', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 20 });
    const tensor = fc
      .record({
        name: text,
        shape: fc.array(fc.maxSafeInteger(), { maxLength: 4 }),
        // Around the sizes from which bytes are no longer gathered with their neighbours.
        bytes: fc.oneof(fc.uint8Array(), fc.uint8Array({ minLength: 1000, maxLength: 1100 })),
      })
      .map((given): Tensor => ({ ...given, datatype: 'UINT8', encoding: 'raw' }));
    const parameter = fc.oneof<fc.Arbitrary<ParameterValue>[]>(
      fc.boolean(),
      text,
      fc.string({ minLength: 1000, maxLength: 1200 }),
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      fc.integer().map((value) => value / 8),
    );
    const any = fc.record({
      modelName: text,
      modelVersion: fc.constantFrom('1', '12'),
      id: text,
      parameters: fc.dictionary(text, parameter, { noNullPrototype: true, maxKeys: 4 }),
      outputs: fc.array(tensor, { maxLength: 4 }),
    });
    fc.assert(
      fc.property(any, (given) => {
        const parameters = new Map(Object.entries(given.parameters));
        const bytes = encodeInferResponse(
          { ...given, parameters },
          binaryResponseForm,
          model,
          noSharedMemoryRegions,
        );
        const descriptor = messageDescriptor('inference.ModelInferResponse');
        const read = toJson(descriptor, fromBinary(descriptor, bytes), {
          useProtoFieldName: true,
          alwaysEmitImplicit: true,
        });
        expect(read).toEqual({
          model_name: given.modelName,
          model_version: given.modelVersion,
          id: given.id,
          parameters: Object.fromEntries(
            [...parameters].map(([name, value]) => [name, parameterDocument(value)]),
          ),
          outputs: given.outputs.map(({ name, shape }) => ({
            name,
            datatype: 'UINT8',
            shape: shape.map(String),
            parameters: {},
          })),
          raw_output_contents: given.outputs.map((output) => base64(output.bytes)),
        });
      }),
      { numRuns: 200 },
    );
  });

  it('leaves out outputs that were not asked for', () => {
    const form = { ...binaryResponseForm, outputs: new Map([['B', binaryOutput]]) };
    expect(encode(response([fp32('A', [1]), fp32('B', [2])]), form)).toMatchObject({
      outputs: [{ name: 'B', datatype: 'FP32', shape: ['1'] }],
      raw_output_contents: [base64(fp32('B', [2]).bytes)],
    });
  });

  it('writes classes with their labels as BYTES', () => {
    const output = { ...binaryOutput, classificationCount: 1 };
    const form = { ...binaryResponseForm, outputs: new Map([['X', output]]) };
    expect(encode(response([fp32('X', [0.5, 0.75])]), form)).toMatchObject({
      outputs: [{ name: 'X', datatype: 'BYTES', shape: ['1'] }],
      raw_output_contents: [base64(Buffer.from('\u000e\0\0\u00000.750000:1:dog'))],
    });
  });

  it('puts an output into shared memory and leaves its place in the message empty', () => {
    const written: unknown[] = [];
    const regions: SharedMemoryRegions = {
      read: noSharedMemoryRegions.read,
      write: (name, offset, bytes) => written.push([name, offset, bytes.byteLength]),
    };
    const inMemory = (byteSize: number) => ({
      ...binaryResponseForm,
      outputs: new Map([
        ['X', { ...binaryOutput, sharedMemory: { region: 'r', offset: 8, byteSize } }],
        ['Y', binaryOutput],
      ]),
    });
    const given = response([fp32('X', [1, 2]), fp32('Y', [3])]);
    const bytes = encodeInferResponse(given, inMemory(8), model, regions);
    expect(decode('inference.ModelInferResponse', bytes)).toMatchObject({
      outputs: [{ name: 'X' }, { name: 'Y' }],
      raw_output_contents: ['', base64(fp32('Y', [3]).bytes)],
    });
    expect(written).toEqual([['r', 8, 8]]);
    expect(() => encodeInferResponse(given, inMemory(7), model, regions)).toThrow(
      "shared memory size specified with the request for output 'X' (7 bytes) should be at least 8 bytes to hold the results",
    );
  });
});

describe('messages of a stream', () => {
  it.each([true, false])('say whether they are the last of a request: %s', (isFinal) => {
    const bytes = encodeStreamResponse(
      { ...response([fp32('X', [1])]), id: 'r' },
      isFinal,
      binaryResponseForm,
      model,
      noSharedMemoryRegions,
    );
    expect(decode('inference.ModelStreamInferResponse', bytes)).toEqual({
      infer_response: {
        model_name: 'm',
        model_version: '1',
        id: 'r',
        parameters: { triton_final_response: { bool_param: isFinal } },
        outputs: [{ name: 'X', datatype: 'FP32', shape: ['1'] }],
        raw_output_contents: [base64(fp32('X', [1]).bytes)],
      },
    });
  });

  it('may be an end and nothing else', () => {
    const bytes = encodeEmptyFinalResponse({ modelName: 'm', modelVersion: '', id: 'r' });
    expect(decode('inference.ModelStreamInferResponse', bytes)).toEqual({
      infer_response: {
        model_name: 'm',
        id: 'r',
        parameters: { triton_final_response: { bool_param: true } },
      },
    });
  });

  it('may be a failure with the id of its request', () => {
    expect(
      decode('inference.ModelStreamInferResponse', encodeStreamError('no such model', 'r')),
    ).toEqual({ error_message: 'no such model', infer_response: { id: 'r' } });
    expect(decode('inference.ModelStreamInferResponse', encodeStreamError('x', ''))).toEqual({
      error_message: 'x',
      infer_response: {},
    });
  });
});

function parameterDocument(value: ParameterValue): JsonValue {
  if (typeof value === 'boolean') return { bool_param: value };
  if (typeof value === 'string') return { string_param: value };
  if (typeof value === 'bigint') return { int64_param: String(value) };
  return { double_param: value };
}
