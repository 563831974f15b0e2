import {
  create,
  fromBinary,
  fromJson,
  type JsonObject,
  toBinary,
  toJson,
} from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InferenceServerError } from '../../src/errors.js';
import { messageDescriptor } from '../../src/proto/descriptors.js';
import {
  type InferMessage,
  type ParameterMessage,
  type ParameterMessages,
  readInferMessage,
} from '../../src/protocol/infer-message-proto.js';

const descriptor = messageDescriptor('inference.ModelInferRequest');

/** What @bufbuild/protobuf makes of a JSON form: the other implementation in these tests. */
function encode(document: JsonObject): Uint8Array {
  return toBinary(descriptor, fromJson(descriptor, document));
}

function decode(bytes: Uint8Array): JsonObject {
  const json = toJson(descriptor, fromBinary(descriptor, bytes), { useProtoFieldName: true });
  return json as JsonObject;
}

/** Our reading in the same JSON form, without what is at its default. */
function document(message: InferMessage): JsonObject {
  return decode(
    encode({
      model_name: message.modelName,
      model_version: message.modelVersion,
      id: message.id,
      parameters: parameterDocuments(message.parameters),
      inputs: message.inputs.map((input) => ({
        name: input.name,
        datatype: input.datatype,
        shape: [...input.shape],
        parameters: parameterDocuments(input.parameters),
        ...(input.contents === undefined ? {} : { contents: contentsDocument(input.contents) }),
      })),
      outputs: message.outputs.map((output) => ({
        name: output.name,
        parameters: parameterDocuments(output.parameters),
      })),
      raw_input_contents: message.rawInputs.map(base64),
    }),
  );
}

function parameterDocuments(parameters: ParameterMessages): JsonObject {
  return Object.fromEntries(
    [...parameters].map(([name, parameter]) => [name, parameterDocument(parameter)]),
  );
}

function parameterDocument(parameter: ParameterMessage): JsonObject {
  switch (parameter.kind) {
    case 'none':
      return {};
    case 'int64_param':
    case 'uint64_param':
      return { [parameter.kind]: String(parameter.value) };
    case 'double_param':
      return { double_param: doubleDocument(parameter.value) };
    case 'bool_param':
    case 'string_param':
      return { [parameter.kind]: parameter.value };
  }
}

function doubleDocument(value: number): number | string {
  return Number.isFinite(value) ? value : String(value);
}

function contentsDocument(pieces: readonly Uint8Array[]): JsonObject {
  const contents = messageDescriptor('inference.InferTensorContents');
  return toJson(contents, fromBinary(contents, Buffer.concat(pieces)), {
    useProtoFieldName: true,
  }) as JsonObject;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const text = fc.string({ unit: 'grapheme', maxLength: 12 });
const bytes = fc.uint8Array({ maxLength: 40 }).map(base64);
const double = fc.double().map((value) => doubleDocument(value));
const parameters = fc.dictionary(
  text,
  fc.oneof(
    fc.record({ bool_param: fc.boolean() }),
    fc.record({ int64_param: int64.map(String) }),
    fc.record({ string_param: text }),
    fc.record({ double_param: double }),
    fc.record({ uint64_param: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String) }),
    fc.constant({}),
  ),
  { maxKeys: 3, noNullPrototype: true },
);
const contents = fc.record(
  {
    bool_contents: fc.array(fc.boolean(), { maxLength: 4 }),
    int_contents: fc.array(fc.integer(), { maxLength: 4 }),
    int64_contents: fc.array(int64.map(String), { maxLength: 4 }),
    fp32_contents: fc.array(fc.integer({ min: -999, max: 999 }), { maxLength: 4 }),
    fp64_contents: fc.array(double, { maxLength: 4 }),
    bytes_contents: fc.array(bytes, { maxLength: 4 }),
  },
  { requiredKeys: [], noNullPrototype: true },
);
const request = fc.record({
  model_name: text,
  model_version: text,
  id: text,
  parameters,
  inputs: fc.array(
    fc.record(
      {
        name: text,
        datatype: text,
        shape: fc.array(fc.maxSafeInteger(), { maxLength: 4 }),
        parameters,
        contents,
      },
      { requiredKeys: ['name', 'shape'], noNullPrototype: true },
    ),
    { maxLength: 3 },
  ),
  outputs: fc.array(fc.record({ name: text, parameters }), { maxLength: 3 }),
  raw_input_contents: fc.array(bytes, { maxLength: 3 }),
});

function attempt<Value>(run: () => Value): Value | Error {
  try {
    return run();
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}

describe('readInferMessage', () => {
  it('reads what another implementation writes', () => {
    fc.assert(
      fc.property(request, (given) => {
        const message = encode(given);
        expect(document(readInferMessage(message))).toEqual(decode(message));
      }),
      { numRuns: 150 },
    );
  });

  it('reads damaged messages as the other implementation does, or refuses them', () => {
    // Contents are looked at later; a damaged dimension may be beyond what a double holds.
    const withoutTensors = request.map((given) => ({ ...given, inputs: [] }));
    const damage = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(withoutTensors, damage, (given, changes) => {
        const message = encode(given);
        for (const [at, byte] of changes) message[at % Math.max(message.length, 1)] = byte;
        const read = attempt(() => readInferMessage(message));
        const expected = attempt(() => fromBinary(descriptor, message));
        if (read instanceof Error) expect(read).toBeInstanceOf(InferenceServerError);
        if (read instanceof Error || expected instanceof Error || read.inputs.length > 0) return;
        expect(toBinary(descriptor, fromJson(descriptor, document(read)))).toEqual(
          toBinary(descriptor, fromJson(descriptor, decode(message))),
        );
      }),
      { numRuns: 200 },
    );
  });

  it('takes any bytes without harm', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (noise) => {
        try {
          readInferMessage(noise);
        } catch (thrown) {
          expect(thrown).toMatchObject({ code: 'INVALID_ARG' });
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('hands out raw tensors as views of the message', () => {
    const message = encode({ raw_input_contents: [base64(Uint8Array.of(1, 2, 3))] });
    const [raw] = readInferMessage(message).rawInputs;
    expect(raw?.buffer).toBe(message.buffer);
    expect([...(raw ?? [])]).toEqual([1, 2, 3]);
  });

  it('skips fields that it does not know, of every wire type, and groups', () => {
    const writer = new BinaryWriter();
    writer.tag(90, WireType.Varint).uint64(2n ** 64n - 1n);
    writer.tag(91, WireType.Bit64).double(1);
    writer.tag(92, WireType.LengthDelimited).string('x');
    writer.tag(93, WireType.Bit32).float(1);
    writer.tag(94, WireType.StartGroup).tag(1, WireType.StartGroup).tag(1, WireType.EndGroup);
    writer.tag(3, WireType.Varint).int32(5).tag(94, WireType.EndGroup);
    // Known fields of another wire type are unknown fields.
    writer.tag(1, WireType.Varint).int32(5);
    writer.tag(3, WireType.LengthDelimited).string('r1');
    expect(readInferMessage(writer.finish())).toMatchObject({ modelName: '', id: 'r1' });
  });

  it('lets the last of several values count, and joins the pieces of contents', () => {
    const part = (value: number): Uint8Array =>
      toBinary(
        messageDescriptor('inference.InferTensorContents'),
        fromJson(messageDescriptor('inference.InferTensorContents'), { int_contents: [value] }),
      );
    const input = new BinaryWriter();
    for (const value of [7, 8]) input.tag(5, WireType.LengthDelimited).bytes(part(value));
    const writer = new BinaryWriter();
    for (const id of ['first', 'last']) writer.tag(3, WireType.LengthDelimited).string(id);
    writer.tag(5, WireType.LengthDelimited).bytes(input.finish());
    const read = readInferMessage(writer.finish());
    expect(read.id).toBe('last');
    expect(read.inputs[0]?.contents).toEqual([part(7), part(8)]);
  });

  it.each([
    ['a length beyond the end', [0x0a, 0x05, 0x61]],
    ['a length of more than 32 bits', [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]],
    ['a varint of more than ten bytes', [0x08, ...Array<number>(10).fill(0x80), 0x01]],
    ['a varint that does not end', [0x08, 0x80]],
    ['field number 0', [0x02, 0x00]],
    ['an end of a group that did not begin', [0x0c]],
    ['a group that does not end', [0x0b, 0x08, 0x01]],
    ['a wire type that there is not', [0x0e]],
    ['text that is not UTF-8', [0x0a, 0x02, 0xc3, 0x28]],
    ['groups without end', Array<number>(200).fill(0x0b)],
  ])('refuses %s', (_what, message) => {
    expect(() => readInferMessage(Uint8Array.from(message))).toThrow(
      expect.objectContaining({ code: 'INVALID_ARG' }),
    );
  });

  it('keeps a replacement character that the client sent', () => {
    expect(readInferMessage(encode({ id: '\ufffd' })).id).toBe('\ufffd');
  });

  it('reads an empty message', () => {
    expect(document(readInferMessage(toBinary(descriptor, create(descriptor))))).toEqual({});
  });
});
