import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InferenceServerError, notFound, unsupported } from '../../src/errors.js';
import { encodeBytesElements } from '../../src/inference/bytes-elements.js';
import { type Datatype, elementBytes } from '../../src/inference/datatype.js';
import { elementCount } from '../../src/inference/shape.js';
import { EnvelopeCache } from '../../src/protocol/envelope-cache.js';
import {
  deferredBytesMin,
  type InferLimits,
  type ParsedInferRequest,
  parseInferRequest,
} from '../../src/protocol/infer-request-json.js';
import {
  noSharedMemoryRegions,
  type SharedMemoryRegions,
} from '../../src/protocol/shared-memory-regions.js';
import { encodeTensorJson } from '../../src/protocol/tensor-text.js';

const target = { modelName: 'm', modelVersion: '3' };
const limits: InferLimits = { inputBytesMax: 67_108_864 };

interface ParseCase {
  readonly binary?: Uint8Array;
  readonly limits?: InferLimits;
  readonly regions?: SharedMemoryRegions;
  readonly cache?: EnvelopeCache;
}

function parse(header: unknown, options: ParseCase = {}): ParsedInferRequest {
  const json = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const binary = options.binary ?? new Uint8Array(0);
  return parseInferRequest(
    target,
    Buffer.concat([json, binary]),
    json.byteLength,
    options.limits ?? limits,
    options.regions ?? noSharedMemoryRegions,
    options.cache ?? new EnvelopeCache(),
  );
}

function input(fields: Record<string, unknown>): Record<string, unknown> {
  return { name: 'IN', datatype: 'FP32', shape: [2], ...fields };
}

const binaryInput = input({ parameters: { binary_data_size: 8 } });
const floats = Buffer.from(Float32Array.of(1.5, -2).buffer);

describe('parseInferRequest', () => {
  it('reads a request with everything in it', () => {
    const { request, responseForm } = parse({
      id: 'r1',
      parameters: {
        sequence_id: 7,
        sequence_start: true,
        priority: 2,
        timeout: 1000,
        binary_data_output: false,
        text: 'x',
        flag: true,
        whole: -3,
        huge: 2 ** 53,
        real: 1.5,
      },
      inputs: [input({ data: [[1.5], -2] })],
      outputs: [
        { name: 'A', parameters: { binary_data: true } },
        { name: 'B', parameters: { classification: 3 } },
        { name: 'A' },
      ],
    });
    expect(request).toEqual({
      modelName: 'm',
      modelVersion: '3',
      id: 'r1',
      parameters: new Map<string, unknown>([
        ['text', 'x'],
        ['flag', true],
        ['whole', -3n],
        ['huge', 2n ** 53n],
        ['real', 1.5],
      ]),
      priority: 2,
      timeoutUs: 1000,
      sequence: { correlationId: 7n, start: true, end: false },
      inputs: [
        {
          name: 'IN',
          datatype: 'FP32',
          shape: [2],
          encoding: 'raw',
          bytes: new Uint8Array(floats),
        },
      ],
      requestedOutputs: ['A', 'B'],
      prefersJsonText: false,
    });
    expect(responseForm.outputs).toEqual(
      new Map([
        ['A', { isBinary: true, classificationCount: 0, sharedMemory: undefined }],
        ['B', { isBinary: false, classificationCount: 3, sharedMemory: undefined }],
      ]),
    );
  });

  it.each<[string, unknown, boolean]>([
    ['asks for nothing in particular', {}, true],
    ['asks for a JSON output', { outputs: [{ name: 'A' }] }, true],
    ['asks for binary by default', { parameters: { binary_data_output: true } }, false],
    [
      'lists a binary output',
      { outputs: [{ name: 'A', parameters: { binary_data: true } }] },
      false,
    ],
    [
      'lists an output without a form, beside a binary default',
      { parameters: { binary_data_output: true }, outputs: [{ name: 'A' }] },
      true,
    ],
    ['asks for classes', { outputs: [{ name: 'A', parameters: { classification: 1 } }] }, false],
  ])('prefers JSON text or not where a request %s', (_what, fields, expected) => {
    const { request } = parse({ inputs: [], ...(fields as object) });
    expect(request.prefersJsonText).toBe(expected);
  });

  it('takes a text as sequence id and cuts texts at a NUL', () => {
    const { request } = parse({ id: 'a\0b', parameters: { sequence_id: 's\0t' }, inputs: [] });
    expect(request.id).toBe('a');
    expect(request.sequence).toEqual({ correlationId: 's', start: false, end: false });
  });

  it('gives binary inputs as views of the body, in order', () => {
    const header = JSON.stringify({
      inputs: [binaryInput, input({ name: 'B', parameters: { binary_data_size: 4 }, shape: [1] })],
    });
    const body = Buffer.concat([Buffer.from(header), floats, floats.subarray(4)]);
    const { request } = parseInferRequest(
      target,
      body,
      header.length,
      limits,
      noSharedMemoryRegions,
      new EnvelopeCache(),
    );
    expect(request.inputs.map((tensor) => tensor.bytes.buffer === body.buffer)).toEqual([
      true,
      true,
    ]);
    expect(request.inputs.map((tensor) => [...tensor.bytes])).toEqual([
      [...floats],
      [...floats.subarray(4)],
    ]);
  });

  it('answers the same from a remembered header as from a new one', () => {
    const cache = new EnvelopeCache();
    const header = { id: 'r1', inputs: [binaryInput], parameters: { p: 1 } };
    const first = parse(header, { binary: floats, cache });
    parse(header, { binary: floats, cache });
    const other = Buffer.from(Float32Array.of(7, 8).buffer);
    const third = parse({ ...header, id: 'r3' }, { binary: other, cache });
    expect(third.request).toEqual({
      ...first.request,
      id: 'r3',
      inputs: [{ ...first.request.inputs[0], bytes: new Uint8Array(other) }],
    });
    expect(parse({ ...header, id: '' }, { binary: floats, cache }).request.id).toBe('');
    expect(() => parse(header, { binary: floats.subarray(4), cache })).toThrow(
      "unexpected size for input 'IN', expecting 4 additional bytes for model 'm'",
    );
  });

  it('leaves long arrays as text for the instance and decodes short ones', () => {
    const values = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
    const short = parse({ inputs: [input({ shape: [100], data: values(100) })] });
    expect(short.request.inputs[0]?.encoding).toBe('raw');
    const long = values(deferredBytesMin / 4);
    const { request } = parse({ inputs: [input({ shape: [long.length], data: long })] });
    expect(request.inputs[0]?.encoding).toBe('json');
    expect(Buffer.from(request.inputs[0]?.bytes ?? []).toString()).toBe(JSON.stringify(long));
  });

  it('reads no data of an empty tensor or a shape without dimensions', () => {
    for (const shape of [[], [0], [3, 0]]) {
      const { request } = parse({ inputs: [input({ shape, data: [] })] });
      expect(request.inputs[0]?.bytes.byteLength).toBe(0);
    }
  });

  it('leaves a shape beyond 63 bits to be compared with the model', () => {
    const { request } = parse({ inputs: [input({ shape: [2 ** 40, 2 ** 40], data: [1] })] });
    expect(request.inputs[0]).toMatchObject({ encoding: 'json', shape: [2 ** 40, 2 ** 40] });
  });

  it('takes any number of strings: their count is checked with the model', () => {
    const { request } = parse({ inputs: [input({ datatype: 'BYTES', data: ['a'] })] });
    expect(request.inputs[0]?.bytes).toEqual(encodeBytesElements([Buffer.from('a')]));
  });

  it('reads inputs from shared memory', () => {
    const regions: SharedMemoryRegions = {
      read: (name, offset, byteSize) => Buffer.from(`${name} ${offset} ${byteSize}`),
      write: () => {},
    };
    const parameters = {
      shared_memory_region: 'r',
      shared_memory_offset: 5,
      shared_memory_byte_size: 8,
    };
    const { request } = parse({ inputs: [input({ parameters })] }, { regions });
    expect(Buffer.from(request.inputs[0]?.bytes ?? []).toString()).toBe('r 5 8');
    expect(() => parse({ inputs: [input({ parameters })] })).toThrow(
      notFound("Unable to find shared memory region: 'r'"),
    );
  });

  it.each<[string, unknown]>([
    ["Unable to parse 'id': attempt to access JSON non-string as string", { id: 5 }],
    ["Unable to parse 'inputs': attempt to access non-existing object member 'inputs'", {}],
    ["Unable to parse 'inputs': attempt to access non-existing object member 'inputs'", []],
    ["Unable to parse 'inputs': attempt to access JSON non-array as array", { inputs: 1 }],
    [
      'failed to get request params.: attempt to get members for non-object',
      { inputs: [], parameters: 1 },
    ],
    [
      "Unable to parse 'sequence_id': attempt to access JSON non-string as string",
      { inputs: [], parameters: { sequence_id: -1 } },
    ],
    [
      "Unable to parse 'sequence_end': attempt to access JSON non-boolean as boolean",
      { inputs: [], parameters: { sequence_end: 1 } },
    ],
    [
      "Unable to parse 'timeout': attempt to access JSON non-unsigned-integer as unsigned-integer",
      { inputs: [], parameters: { timeout: 1.5 } },
    ],
    [
      "parameter 'p' has invalid type. It should be either 'int', 'bool', or 'string'.",
      { inputs: [], parameters: { p: null } },
    ],
    [
      "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
      { inputs: [], parameters: { triton_x: 1 } },
    ],
    [
      "Unable to parse 'name': attempt to access non-existing object member 'name' (inputs[0])",
      { inputs: [{ data: [] }] },
    ],
    [
      "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer (input 'IN')",
      { inputs: [input({ shape: [-1], data: [] })] },
    ],
    ['invalid datatype for input IN', { inputs: [input({ datatype: 'FLOAT', data: [] })] }],
    ['invalid datatype for input IN', { inputs: [input({ datatype: 'toString', data: [] })] }],
    [
      "Unable to parse 'data': attempt to access JSON non-array as array (input 'IN')",
      { inputs: [input({ data: 'abc' })] },
    ],
    [
      "[request id: r] input 'IN' already exists in request",
      { id: 'r', inputs: [input({ data: [1, 2] }), input({ data: [1, 2] })] },
    ],
    [
      'receiving FP16 data via JSON is not supported. Please use the binary data format for input IN',
      { inputs: [input({ datatype: 'FP16', data: [1, 2] })] },
    ],
    [
      "Unable to parse 'outputs': attempt to access JSON non-array as array",
      { inputs: [], outputs: null },
    ],
    [
      "Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean (output 'A')",
      { inputs: [], outputs: [{ name: 'A', parameters: { binary_data: 1 } }] },
    ],
    [
      "Unable to set 'classification': attempt to access JSON non-unsigned-integer as unsigned-integer (output 'A')",
      { inputs: [], outputs: [{ name: 'A', parameters: { classification: true } }] },
    ],
    [
      "Output can't set both 'shared_memory_region' and 'classification'",
      {
        inputs: [],
        outputs: [{ name: 'A', parameters: { shared_memory_region: 'r', classification: 1 } }],
      },
    ],
    [
      "Output can't set both 'shared_memory_region' and 'binary_data'",
      {
        inputs: [],
        outputs: [{ name: 'A', parameters: { shared_memory_region: 'r', binary_data: true } }],
      },
    ],
    [
      "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But set 'data' 'shared_memory_region'",
      { inputs: [input({ data: [1, 2], parameters: { shared_memory_region: 'r' } })] },
    ],
    [
      "unexpected size for input 'IN', expecting 8 additional bytes for model 'm'",
      { inputs: [binaryInput] },
    ],
  ])('fails with %s', (message, header) => {
    expect(() => parse(header)).toThrow(new InferenceServerError('INVALID_ARG', message));
  });

  it('refuses what is left over of the body', () => {
    expect(() => parse({ inputs: [binaryInput] }, { binary: Buffer.alloc(9) })).toThrow(
      "unexpected additional input data for model 'm'",
    );
  });

  it('checks both limits before anything is allocated', () => {
    const small = { inputBytesMax: 400 };
    const header = { inputs: [input({ shape: [100], data: [1] })] };
    expect(() => parse(header, { limits: small })).toThrow(countMismatch);
    expect(() =>
      parse({ inputs: [input({ shape: [101], data: [1] })] }, { limits: small }),
    ).toThrow(
      "JSON input 'IN' has a byte_size (404 bytes) that exceeds the maximum allowed value of 400 bytes. Use --http-max-input-size to increase the limit.",
    );
    const padded = (length: number): string => '{"inputs":[]}'.padEnd(length);
    expect(parse(padded(400), { limits: small }).request.inputs).toEqual([]);
    expect(() => parse(padded(401), { limits: small })).toThrow(
      'request JSON size of 401 bytes exceeds the maximum allowed input size of 400 bytes.',
    );
  });

  it.each([2 ** 31, 10 ** 13, 2 ** 62])('refuses a tensor of %d elements at once', (count) => {
    expect(() => parse({ inputs: [input({ shape: [count], data: [1] })] })).toThrow(
      "JSON input 'IN' has a byte_size",
    );
  });

  it('says that a header is missing where binary data follows the JSON without one', () => {
    const json = JSON.stringify({ inputs: [binaryInput] });
    expect(() => parse(`${json}\x01\x02`)).toThrow(
      'needs the header Inference-Header-Content-Length',
    );
    expect(() => parse('{')).not.toThrow('Inference-Header-Content-Length');
  });

  it.each([
    ['inputs', 1024, (index: number) => input({ name: `I${index}`, shape: [0], data: [] })],
    ['outputs', 1024, (index: number) => ({ name: `O${index}` })],
  ])('limits the number of %s to %d', (member, limit, make) => {
    const header = (count: number): unknown => ({
      inputs: [],
      [member]: Array.from({ length: count }, (_, index) => make(index)),
    });
    expect(() => parse(header(limit))).not.toThrow();
    expect(() => parse(header(limit + 1))).toThrow(
      `Unable to parse '${member}': more than 1024 of them`,
    );
  });

  it('takes up to 16384 parameters and sequence ids of 128 characters', () => {
    const parameters = (count: number): unknown =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, index]));
    expect(parse({ inputs: [], parameters: parameters(16_384) }).request.parameters.size).toBe(
      16_384,
    );
    expect(() => parse({ inputs: [], parameters: parameters(16_385) })).toThrow(
      'failed to get request params.: more than 16384 of them',
    );
    const sequence = (length: number): unknown => ({
      inputs: [],
      parameters: { sequence_id: 'x'.repeat(length) },
    });
    expect(() => parse(sequence(128))).not.toThrow();
    expect(() => parse(sequence(129))).toThrow(
      unsupported('string correlation ID cannot be longer than 128 characters but got 129'),
    );
  });

  it('reads back what a client may write, in JSON, in binary or mixed', () => {
    const datatypes: readonly Datatype[] = [
      'BOOL',
      'UINT8',
      'INT16',
      'UINT64',
      'FP32',
      'FP64',
      'BYTES',
    ];
    const tensor = fc
      .record({
        datatype: fc.constantFrom(...datatypes),
        shape: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 3 }),
        isBinary: fc.boolean(),
        seed: fc.nat(250),
      })
      .map(({ datatype, shape, isBinary, seed }) => {
        const bytes = someBytes(datatype, elementCount(shape), seed);
        return { datatype, shape, isBinary, bytes };
      });
    const id = fc.string({ maxLength: 10 }).filter((text) => !text.includes('\0'));
    fc.assert(
      fc.property(fc.array(tensor, { maxLength: 4 }), id, (tensors, requestId) => {
        const inputs = tensors.map(({ datatype, shape, isBinary, bytes }, index) => ({
          name: `I${index}`,
          datatype,
          shape,
          ...(isBinary
            ? { parameters: { binary_data_size: bytes.byteLength } }
            : { data: `<${index}>` }),
        }));
        const header = JSON.stringify({ id: requestId, inputs }).replace(
          /"<(\d)>"/g,
          (_match, index) => {
            const { datatype = 'BOOL', bytes = new Uint8Array(0) } = tensors[Number(index)] ?? {};
            return Buffer.from(encodeTensorJson(datatype, bytes)).toString();
          },
        );
        const binary = Buffer.concat(
          tensors.filter(({ isBinary }) => isBinary).map(({ bytes }) => bytes),
        );
        const { request } = parse(header, { binary });
        expect(request.id).toBe(requestId);
        expect(request.inputs).toEqual(
          tensors.map(({ datatype, shape, bytes }, index) => ({
            name: `I${index}`,
            datatype,
            shape,
            encoding: 'raw',
            bytes,
          })),
        );
      }),
    );
  });

  it('fails with nothing but InferenceServerError whatever the body', () => {
    const whole = Buffer.from(
      JSON.stringify({
        id: 'r',
        parameters: { sequence_id: 1, a: 'b' },
        inputs: [binaryInput, input({ name: 'J', data: [1, 2] })],
        outputs: [{ name: 'A', parameters: { classification: 1 } }],
      }),
    );
    const edit = fc.record({ at: fc.nat(whole.length - 1), byte: fc.nat(255) });
    fc.assert(
      fc.property(fc.array(edit, { minLength: 1, maxLength: 4 }), fc.nat(16), (edits, extra) => {
        const json = Buffer.from(whole);
        for (const { at, byte } of edits) json[at] = byte;
        try {
          parse(json.toString('latin1'), { binary: Buffer.alloc(extra) });
        } catch (error) {
          expect(error).toBeInstanceOf(InferenceServerError);
        }
      }),
      { numRuns: 2000 },
    );
  });
});

const countMismatch =
  "Unable to parse 'data': Shape does not match true shape of 'data' field (input 'IN')";

function someBytes(datatype: Datatype, count: number, seed: number): Uint8Array {
  const values = Array.from({ length: count }, (_, index) => (seed + 7 * index) % 251);
  if (datatype === 'BYTES') {
    return encodeBytesElements(values.map((value) => Buffer.from('x"é\n'.repeat(value % 3))));
  }
  if (datatype === 'BOOL') return Uint8Array.from(values, (value) => value % 2);
  const bytes = new Uint8Array(count * elementBytes[datatype]);
  // Below 0x40 in every last byte: no NaN, whose pattern a text does not keep.
  for (let at = 0; at < bytes.length; at++) bytes[at] = (values[at % count] ?? 0) % 64;
  return bytes;
}
