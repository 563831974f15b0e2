import { describe, expect, it } from 'vitest';
import {
  fromCallTensor,
  fromGivenTensor,
  outputRules,
  toReceivedTensor,
} from '../../../src/backends/javascript/javascript-tensors.js';
import type { Datatype } from '../../../src/inference/datatype.js';
import { modelConfig, modelOutput } from '../../support/model-configs.js';

const rulesFor = (dataType: string, dims: number[], maxBatchSize = 0) =>
  outputRules(
    modelConfig({
      max_batch_size: maxBatchSize,
      output: [modelOutput('OUT', dataType, dims)],
    }),
  );

describe('a tensor that a model receives', () => {
  const bytes = Uint8Array.from({ length: 16 }, (_, index) => index);
  it.each<[Datatype, string, number]>([
    ['BOOL', 'Uint8Array', 16],
    ['UINT8', 'Uint8Array', 16],
    ['UINT16', 'Uint16Array', 8],
    ['UINT32', 'Uint32Array', 4],
    ['UINT64', 'BigUint64Array', 2],
    ['INT8', 'Int8Array', 16],
    ['INT16', 'Int16Array', 8],
    ['INT32', 'Int32Array', 4],
    ['INT64', 'BigInt64Array', 2],
    ['FP16', 'Uint16Array', 8],
    ['BF16', 'Uint16Array', 8],
    ['FP32', 'Float32Array', 4],
    ['FP64', 'Float64Array', 2],
  ])('of %s has its data in a %s', (datatype, array, length) => {
    const tensor = toReceivedTensor({
      name: 'X',
      datatype,
      shape: [length],
      encoding: 'raw',
      bytes,
    });
    expect(tensor.data.constructor.name).toBe(array);
    expect(tensor.data).toHaveLength(length);
    expect(tensor.data).toBe(tensor.data);
    expect(() => tensor.strings()).toThrow(`tensor 'X' is ${datatype}, only BYTES have strings`);
  });

  it('is copied where its bytes do not lie at a multiple of the element size', () => {
    const odd = Uint8Array.from([0, ...new Uint8Array(Int32Array.of(7).buffer)]).subarray(1);
    const tensor = toReceivedTensor({
      name: 'X',
      datatype: 'INT32',
      shape: [1],
      encoding: 'raw',
      bytes: odd,
    });
    expect(tensor.data).toEqual(Int32Array.of(7));
  });

  it('of BYTES has one array of bytes an element, and strings', () => {
    const raw = Buffer.from([1, 0, 0, 0, 0x61, 0, 0, 0, 0, 2, 0, 0, 0, 0xc3, 0xa4]);
    const tensor = toReceivedTensor({
      name: 'X',
      datatype: 'BYTES',
      shape: [3],
      encoding: 'raw',
      bytes: raw,
    });
    expect(tensor.strings()).toEqual(['a', '', 'ä']);
    expect([...tensor.data].map((element) => element.valueOf())).toHaveLength(3);
  });
});

describe('a tensor that a model gives', () => {
  it.each<[string, string, unknown, readonly number[]]>([
    ['numbers for INT32', 'TYPE_INT32', [1, -1], [1, 0, 0, 0, 255, 255, 255, 255]],
    ['numbers for INT64', 'TYPE_INT64', [2], [2, 0, 0, 0, 0, 0, 0, 0]],
    ['bigints for UINT64', 'TYPE_UINT64', [2n], [2, 0, 0, 0, 0, 0, 0, 0]],
    ['booleans for BOOL', 'TYPE_BOOL', [true, false], [1, 0]],
    ['numbers for FP16', 'TYPE_FP16', [1], [0, 0x3c]],
    ['numbers for BF16', 'TYPE_BF16', [1], [0x80, 0x3f]],
    ['bit patterns for FP16', 'TYPE_FP16', Uint16Array.of(0x3c00), [0, 0x3c]],
    ['a view of part of a buffer', 'TYPE_UINT8', Uint8Array.of(1, 2, 3).subarray(1), [2, 3]],
    ['strings for BYTES', 'TYPE_STRING', ['ä'], [2, 0, 0, 0, 0xc3, 0xa4]],
    ['bytes for BYTES', 'TYPE_STRING', [Uint8Array.of(0)], [1, 0, 0, 0, 0]],
  ])('may hold %s', (_, dataType, data, bytes) => {
    const tensor = fromGivenTensor({ name: 'OUT', data }, rulesFor(dataType, [-1]), undefined);
    expect([...tensor.bytes]).toEqual(bytes);
  });

  it.each<[string, string, unknown, string]>([
    ['text for INT32', 'TYPE_INT32', ['1'], 'has string as element 0 of INT32'],
    ['a fraction for INT64', 'TYPE_INT64', [1.5], 'has an element that is no INT64'],
    [
      'another array',
      'TYPE_FP32',
      Float64Array.of(1),
      'has data of Float64Array, expected Float32Array',
    ],
    ['no data', 'TYPE_FP32', undefined, 'has data of undefined, expected Float32Array for FP32'],
    ['a number for BYTES', 'TYPE_STRING', [1], 'has number as element 0 of BYTES'],
    ['one string for BYTES', 'TYPE_STRING', 'a', 'has data of string, expected a list'],
  ])('may not hold %s', (_, dataType, data, message) => {
    const give = () => fromGivenTensor({ name: 'OUT', data }, rulesFor(dataType, [-1]), undefined);
    expect(give).toThrow(`model 'm': output 'OUT' ${message}`);
  });

  it.each<[string, number[], number, number | undefined, number[], number[]]>([
    ['fixed', [2, 2], 0, undefined, [1, 2, 3, 4], [2, 2]],
    ['one variable dimension', [2, -1], 0, undefined, [1, 2, 3, 4, 5, 6], [2, 3]],
    ['the rows of the request', [2], 4, 3, [1, 2, 3, 4, 5, 6], [3, 2]],
    ['any rows', [2], 4, undefined, [1, 2, 3, 4], [2, 2]],
    ['nothing', [2], 4, undefined, [], [0, 2]],
  ])('gets a shape from the configuration: %s', (_, dims, maxBatch, rows, data, shape) => {
    const rules = rulesFor('TYPE_UINT8', dims, maxBatch);
    expect(fromGivenTensor({ name: 'OUT', data }, rules, rows).shape).toEqual(shape);
  });

  it.each<[string, number[], number[], string]>([
    ['two variable dimensions', [-1, -1], [1], 'has 1 elements and no shape, which [-1,-1]'],
    ['a remainder', [2, -1], [1, 2, 3], 'has 3 elements and no shape, which [2,-1]'],
    ['too many elements', [2], [1, 2, 3], 'has 3 elements, expected 2 for shape [2]'],
  ])('gets no shape from the configuration with %s', (_, dims, data, message) => {
    const give = () =>
      fromGivenTensor({ name: 'OUT', data }, rulesFor('TYPE_UINT8', dims), undefined);
    expect(give).toThrow(`model 'm': output 'OUT' ${message}`);
  });

  it.each<[string, unknown]>([
    ['text', 'wide'],
    ['a negative size', [-1]],
    ['a fraction', [0.5]],
  ])('may not have %s for a shape', (_, shape) => {
    const give = () =>
      fromGivenTensor({ name: 'OUT', shape, data: [1] }, rulesFor('TYPE_UINT8', [1]), undefined);
    expect(give).toThrow('has a shape that is no list of sizes, expected [1]');
  });

  it('for another model needs datatype and shape of its own', () => {
    const call = { name: 'X', datatype: 'UINT8' as const, shape: [2], data: [1, 2] };
    expect(fromCallTensor(call)).toMatchObject({ name: 'X', datatype: 'UINT8', shape: [2] });
    expect(() => fromCallTensor({ ...call, shape: [3] })).toThrow(
      "input 'X' has 2 elements, expected 3 for shape [3]",
    );
  });
});
