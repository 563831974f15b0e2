import { fromJson, type JsonObject, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { notFound } from '../../src/errors.js';
import { messageDescriptor } from '../../src/proto/descriptors.js';
import { readInferMessage } from '../../src/protocol/infer-message-proto.js';
import {
  type BoundInferRequest,
  bindInferRequest,
} from '../../src/protocol/infer-request-proto.js';
import type { SharedMemoryRegions } from '../../src/protocol/shared-memory-regions.js';

const model = { config: { input: [{ name: 'X', data_type: 'TYPE_FP32' }] } };

const regions: SharedMemoryRegions = {
  read(name, offset, byteSize) {
    if (name !== 'region') throw notFound(`Unable to find shared memory region: '${name}'`);
    return Uint8Array.from({ length: byteSize }, (_, index) => offset + index);
  },
  write: () => undefined,
};

function bind(document: JsonObject): BoundInferRequest {
  const descriptor = messageDescriptor('inference.ModelInferRequest');
  const bytes = toBinary(descriptor, fromJson(descriptor, { model_name: 'm', ...document }));
  return bindInferRequest(readInferMessage(bytes), model, regions);
}

/** One input of a datatype with typed contents. */
function typed(datatype: string, contents: JsonObject): JsonObject {
  return { inputs: [{ name: 'X', datatype, shape: [1], contents }] };
}

function bytesOf(document: JsonObject): Uint8Array | undefined {
  return bind(document).request.inputs[0]?.bytes;
}

const raw = (...bytes: readonly number[]): string => Buffer.from(bytes).toString('base64');
const input = { name: 'X', datatype: 'UINT8', shape: [2] };

describe('bindInferRequest', () => {
  it('makes a request of raw tensors', () => {
    const { request, responseForm } = bind({
      id: 'r1',
      model_version: '3',
      inputs: [input],
      raw_input_contents: [raw(1, 2)],
    });
    expect(request).toMatchObject({ modelName: 'm', modelVersion: '3', id: 'r1', priority: 0 });
    expect(request.inputs).toEqual([
      { ...input, shape: [2], encoding: 'raw', bytes: Uint8Array.of(1, 2) },
    ]);
    expect(responseForm.unlisted.isBinary).toBe(true);
    expect(request.prefersJsonText).toBe(false);
  });

  it('counts raw tensors of inputs that are not in shared memory', () => {
    const shared = {
      ...input,
      name: 'S',
      parameters: {
        shared_memory_region: { string_param: 'region' },
        shared_memory_offset: { int64_param: '5' },
        shared_memory_byte_size: { int64_param: '2' },
      },
    };
    const { request } = bind({
      inputs: [{ ...input, name: 'A' }, shared, { ...input, name: 'B' }],
      raw_input_contents: [raw(1), raw(2)],
    });
    expect(request.inputs.map(({ bytes }) => [...bytes])).toEqual([[1], [5, 6], [2]]);
  });

  it('separates what the server heeds from what the model sees', () => {
    const { request, wantsEmptyFinalResponse } = bind({
      parameters: {
        sequence_id: { int64_param: '-1' },
        sequence_start: { bool_param: true },
        priority: { uint64_param: '2' },
        timeout: { int64_param: '1000' },
        triton_enable_empty_final_response: { bool_param: true },
        binary_data_output: { bool_param: true },
        text: { string_param: 'x' },
        large: { uint64_param: '18446744073709551615' },
        half: { double_param: 0.5 },
      },
    });
    expect(request.sequence).toEqual({
      correlationId: 18446744073709551615n,
      start: true,
      end: false,
    });
    expect([request.priority, request.timeoutUs, wantsEmptyFinalResponse]).toEqual([2, 1000, true]);
    expect(Object.fromEntries(request.parameters)).toEqual({
      binary_data_output: true,
      text: 'x',
      large: 2 ** 64,
      half: 0.5,
    });
  });

  it('reads how outputs leave, the first of each name', () => {
    const { request, responseForm } = bind({
      outputs: [
        { name: 'A', parameters: { classification: { int64_param: '3' } } },
        { name: 'A' },
        {
          name: 'B',
          parameters: {
            shared_memory_region: { string_param: 'region' },
            shared_memory_byte_size: { int64_param: '8' },
          },
        },
      ],
    });
    expect(request.requestedOutputs).toEqual(['A', 'B']);
    expect(responseForm.outputs.get('A')).toMatchObject({ classificationCount: 3 });
    expect(responseForm.outputs.get('B')?.sharedMemory).toEqual({
      region: 'region',
      offset: 0,
      byteSize: 8,
    });
  });
});

describe('typed contents', () => {
  const integers = [
    ['INT8', 'int_contents', Int8Array, -128, 127],
    ['INT16', 'int_contents', Int16Array, -32768, 32767],
    ['INT32', 'int_contents', Int32Array, -2147483648, 2147483647],
    ['UINT8', 'uint_contents', Uint8Array, 0, 255],
    ['UINT16', 'uint_contents', Uint16Array, 0, 65535],
    ['UINT32', 'uint_contents', Uint32Array, 0, 4294967295],
  ] as const;

  it.each(integers)('of %s are the tensor that %s say', (datatype, field, Elements, min, max) => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min, max }), { minLength: 1 }), (values) => {
        const bytes = bytesOf(typed(datatype, { [field]: values }));
        expect(bytes).toEqual(new Uint8Array(Elements.from(values).buffer));
      }),
      { numRuns: 30 },
    );
  });

  const outOfRange = integers.flatMap(([datatype, field, , min, max]) =>
    [min - 1, max + 1]
      .filter((value) => (field === 'uint_contents' ? value >= 0 : Math.abs(value) < 2 ** 31))
      .filter((value) => value <= 4294967295)
      .map((value) => [value, datatype, field] as const),
  );

  it.each(outOfRange)('refuse %i for %s', (value, datatype, field) => {
    expect(() => bind(typed(datatype, { [field]: [0, value] }))).toThrow(
      `input 'X': element 1 is ${value}, which is outside the range of ${datatype}`,
    );
  });

  it.each([
    ['INT64', 'int64_contents', ['-9223372036854775808', '-1', '9223372036854775807']],
    ['UINT64', 'uint64_contents', ['0', '9007199254740993', '18446744073709551615']],
  ])('of %s keep all 64 bits', (datatype, field, values) => {
    const expected = BigUint64Array.from(values, (value) => BigInt.asUintN(64, BigInt(value)));
    expect(bytesOf(typed(datatype, { [field]: values }))).toEqual(new Uint8Array(expected.buffer));
  });

  it.each([
    ['FP32', 'fp32_contents', Float32Array],
    ['FP64', 'fp64_contents', Float64Array],
  ])('of %s are their own bytes', (datatype, field, Elements) => {
    const values = [1.5, -0.25, 0];
    expect(bytesOf(typed(datatype, { [field]: values }))).toEqual(
      new Uint8Array(Elements.from(values).buffer),
    );
  });

  it('of BOOL are bytes of 0 and 1', () => {
    const contents = { bool_contents: [true, false, true] };
    expect([...(bytesOf(typed('BOOL', contents)) ?? [])]).toEqual([1, 0, 1]);
  });

  it('of BOOL may be written in more bits than one', () => {
    const contents = new BinaryWriter()
      .tag(1, WireType.LengthDelimited)
      .bytes(Uint8Array.of(0x80, 0x01, 0x05, 0x80, 0x00));
    const x = new BinaryWriter().tag(1, WireType.LengthDelimited).string('X');
    x.tag(2, WireType.LengthDelimited).string('BOOL');
    x.tag(5, WireType.LengthDelimited).bytes(contents.finish());
    const message = new BinaryWriter().tag(5, WireType.LengthDelimited).bytes(x.finish());
    const { request } = bindInferRequest(readInferMessage(message.finish()), model, regions);
    expect([...(request.inputs[0]?.bytes ?? [])]).toEqual([1, 1, 0]);
  });

  it('of BYTES get their lengths in front', () => {
    const contents = { bytes_contents: [raw(1, 0, 2), ''] };
    const expected = [3, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0];
    expect([...(bytesOf(typed('BYTES', contents)) ?? [])]).toEqual(expected);
  });

  it('may be written element by element, and in several runs', () => {
    const contents = new BinaryWriter();
    for (const value of [1, 300]) contents.tag(2, WireType.Varint).int32(value);
    contents.tag(2, WireType.LengthDelimited).bytes(Uint8Array.of(5, 6));
    const x = new BinaryWriter().tag(2, WireType.LengthDelimited).string('INT16');
    x.tag(5, WireType.LengthDelimited).bytes(contents.finish());
    const message = new BinaryWriter().tag(5, WireType.LengthDelimited).bytes(x.finish());
    const { request } = bindInferRequest(readInferMessage(message.finish()), model, regions);
    expect(request.inputs[0]?.bytes).toEqual(new Uint8Array(Int16Array.of(1, 300, 5, 6).buffer));
  });

  it('may hold nothing', () => {
    expect(bytesOf(typed('FP32', {}))).toHaveLength(0);
  });

  it('must be whole', () => {
    const contents = new BinaryWriter().tag(6, WireType.LengthDelimited).bytes(Uint8Array.of(1, 2));
    const x = new BinaryWriter().tag(2, WireType.LengthDelimited).string('FP32');
    x.tag(5, WireType.LengthDelimited).bytes(contents.finish());
    const message = new BinaryWriter().tag(5, WireType.LengthDelimited).bytes(x.finish());
    expect(() => bindInferRequest(readInferMessage(message.finish()), model, regions)).toThrow(
      'not a valid protobuf message',
    );
  });
});

describe('a request that is wrong is refused', () => {
  const inMemory = (parameters: JsonObject): JsonObject => ({ inputs: [{ ...input, parameters }] });
  const output = (parameters: JsonObject): JsonObject => ({ outputs: [{ name: 'Y', parameters }] });
  const parameter = (name: string, value: JsonObject): JsonObject => ({
    parameters: { [name]: value },
  });

  it.each<[string, JsonObject, string]>([
    [
      'typed and raw tensors',
      { ...typed('FP32', { fp32_contents: [1] }), raw_input_contents: [raw(1)] },
      "contents field must not be specified when using raw_input_contents for 'X' for model 'm'",
    ],
    [
      'no tensor',
      { inputs: [input] },
      "unable to find data for input tensor 'X' for model 'm' in request.",
    ],
    [
      'more raw tensors than inputs',
      { id: 'r', inputs: [input], raw_input_contents: [raw(1), raw(2)] },
      "[request id: r] got 2 raw_input_contents for 1 inputs for model 'm'",
    ],
    [
      'the wrong typed field',
      typed('FP32', { int_contents: [1] }),
      "unexpected explicit tensor data for input tensor 'X' for model 'm' of type 'INT32', expected datatype 'FP32'",
    ],
    [
      'typed contents of half floats',
      typed('FP16', { fp32_contents: [1] }),
      "unexpected explicit tensor data for input tensor 'X' for model 'm' of type 'FP32', expected datatype 'FP16': FP16 has no typed contents, use raw_input_contents",
    ],
    [
      'typed contents of an unknown datatype',
      typed('FOO', { fp32_contents: [1] }),
      "unexpected explicit tensor data for input tensor 'X' for model 'm' of type 'FP32', expected datatype '<invalid>'",
    ],
    [
      'two typed fields',
      typed('BOOL', { bool_contents: [true], fp32_contents: [1] }),
      "unexpected explicit tensor data for input tensor 'X' for model 'm', binary data was already supplied.",
    ],
    [
      'an unknown datatype',
      { inputs: [{ ...input, datatype: 'FOO' }], raw_input_contents: [raw(1)] },
      "[request id: <id_unknown>] inference input 'X' data-type is '<invalid>', but model 'm' expects 'FP32'",
    ],
    [
      'an unknown datatype of an unknown input',
      { inputs: [{ name: 'Z', datatype: 'FOO' }], raw_input_contents: [raw(1)] },
      "unexpected inference input 'Z' for model 'm'",
    ],
    [
      'a negative dimension',
      { inputs: [{ ...input, shape: [2, -1] }], raw_input_contents: [raw(1)] },
      "[request id: <id_unknown>] All input dimensions should be specified for input 'X' for model 'm', got [2,-1]",
    ],
    [
      'an input twice',
      { inputs: [input, input], raw_input_contents: [raw(1), raw(1)] },
      "[request id: <id_unknown>] input 'X' already exists in request",
    ],
    [
      'a sequence id that is a flag',
      parameter('sequence_id', { bool_param: true }),
      "invalid value type for 'sequence_id' parameter, expected int64_param or string_param.",
    ],
    [
      'a flag that is a number',
      parameter('sequence_start', { int64_param: '1' }),
      "invalid value type for 'sequence_start' parameter, expected bool_param.",
    ],
    [
      'a priority that is text',
      parameter('priority', { string_param: '1' }),
      "invalid value type for 'priority' parameter, expected int64_param or uint64_param.",
    ],
    [
      'a negative time-out',
      parameter('timeout', { int64_param: '-1' }),
      "invalid value for 'timeout' parameter, expected >= 0",
    ],
    [
      'a reserved parameter',
      parameter('triton_x', { bool_param: true }),
      "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
    ],
    [
      'a parameter without a value',
      parameter('p', {}),
      "invalid value type for 'p' parameter, expected bool_param, int64_param, string_param or double_param.",
    ],
    [
      'an offset without a region',
      inMemory({ shared_memory_offset: { int64_param: '0' } }),
      "'shared_memory_offset' can not be specified without 'shared_memory_region' parameter for tensor 'X'",
    ],
    [
      'a size without a region',
      inMemory({ shared_memory_byte_size: { int64_param: '0' } }),
      "'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'X'",
    ],
    [
      'a region without a size',
      inMemory({ shared_memory_region: { string_param: 'region' } }),
      "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'X'",
    ],
    [
      'a region that is a number',
      inMemory({ shared_memory_region: { int64_param: '1' } }),
      "invalid value type for 'shared_memory_region' parameter for tensor 'X', expected string_param.",
    ],
    [
      'a size that is text',
      inMemory({
        shared_memory_region: { string_param: 'region' },
        shared_memory_byte_size: { string_param: '1' },
      }),
      "invalid value type for 'shared_memory_byte_size' parameter for tensor 'X', expected int64_param.",
    ],
    [
      'an unknown region',
      inMemory({
        shared_memory_region: { string_param: 'other' },
        shared_memory_byte_size: { int64_param: '1' },
      }),
      "Unable to find shared memory region: 'other'",
    ],
    [
      'contents in shared memory',
      {
        inputs: [
          {
            ...input,
            contents: { uint_contents: [1] },
            parameters: {
              shared_memory_region: { string_param: 'region' },
              shared_memory_byte_size: { int64_param: '1' },
            },
          },
        ],
      },
      "unexpected 'content' provided when using shared memory for input tensor 'X' for model 'm'",
    ],
    [
      'no class',
      output({ classification: { int64_param: '0' } }),
      "invalid value for 'classification' parameter, expected >= 0",
    ],
    [
      'classes that are text',
      output({ classification: { string_param: '1' } }),
      "invalid value type for 'classification' parameter, expected int64_param",
    ],
    [
      'classes in shared memory',
      output({
        classification: { int64_param: '1' },
        shared_memory_region: { string_param: 'region' },
        shared_memory_byte_size: { int64_param: '1' },
      }),
      "output can't set both 'shared_memory_region' and 'classification'",
    ],
  ])('with %s', (_what, document, message) => {
    expect(() => bind(document)).toThrow(expect.objectContaining({ message }));
  });
});
