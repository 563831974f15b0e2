import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkTensorBytes,
  packMerged,
  packTensorLists,
  packTensors,
  splitRows,
  unpackTensorList,
  unpackTensors,
} from '../../src/execution/tensor-transfer.js';
import { encodeBytesElements } from '../../src/inference/bytes-elements.js';
import { newBuffer } from '../../src/inference/recycled-buffers.js';
import type { Tensor } from '../../src/inference/tensor.js';

const label = "model 'm' version 1";

function uint8(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  return { name, datatype: 'UINT8', shape, encoding: 'raw', bytes: Uint8Array.from(values) };
}

function strings(name: string, shape: readonly number[], elements: readonly string[]): Tensor {
  const bytes = encodeBytesElements(elements.map((element) => Buffer.from(element)));
  return { name, datatype: 'BYTES', shape, encoding: 'raw', bytes };
}

const valuesOf = (tensors: readonly Tensor[] | undefined) =>
  tensors?.map(({ name, shape, bytes }) => [name, shape, [...bytes]]);

describe('packing', () => {
  it('puts every tensor at a multiple of 64 bytes of one buffer', () => {
    const packed = packTensors([uint8('A', [3], [1, 2, 3]), uint8('B', [1], [4])]);
    expect(packed.tensors.map(({ byteOffset, byteLength }) => [byteOffset, byteLength])).toEqual([
      [0, 3],
      [64, 1],
    ]);
    expect(packed.buffer.byteLength).toBe(65);
  });

  it('copies: the tensors it was given are untouched and not moved', () => {
    const pooled = Buffer.from([1, 2, 3]);
    const tensor = { ...uint8('A', [3], []), bytes: pooled };
    const { buffer, tensors } = packTensors([tensor]);
    structuredClone(buffer, { transfer: [buffer] });
    expect([...pooled]).toEqual([1, 2, 3]);
    expect(tensors[0]?.byteLength).toBe(3);
  });

  it('of no tensors is an empty buffer', () => {
    expect(packTensors([]).buffer.byteLength).toBe(0);
    expect(packMerged([]).tensors).toEqual([]);
  });

  it('gives back what it was given, list by list', () => {
    const tensor = fc.record({
      name: fc.string(),
      datatype: fc.constant('UINT8' as const),
      shape: fc.constant([1]),
      encoding: fc.constantFrom('raw' as const, 'json' as const),
      bytes: fc.uint8Array({ maxLength: 200 }),
    });
    fc.assert(
      fc.property(fc.array(fc.array(tensor, { maxLength: 4 }), { maxLength: 4 }), (lists) => {
        const packed = packTensorLists(lists);
        const unpacked = packed.lists.map(({ tensors, byteOffset }) =>
          unpackTensorList(tensors, packed.buffer, byteOffset),
        );
        expect(unpacked).toEqual(lists);
      }),
      { numRuns: 50 },
    );
  });

  it.each<[string, Partial<Tensor>, boolean]>([
    ['other bytes', { bytes: Uint8Array.of(7, 8) }, true],
    ['another name', { name: 'b' }, false],
    ['another datatype', { datatype: 'INT8' }, false],
    ['another shape', { shape: [1, 2] }, false],
    ['another encoding', { encoding: 'json' }, false],
    ['another length', { bytes: Uint8Array.of(7) }, false],
  ])('describes two lists by the same object or not: %s', (_what, changes, areShared) => {
    const first: Tensor = {
      name: 'a',
      datatype: 'UINT8',
      shape: [2],
      encoding: 'raw',
      bytes: Uint8Array.of(1, 2),
    };
    const second = { ...first, ...changes };
    const { lists, buffer } = packTensorLists([[first], [second]]);
    expect(lists[0]?.tensors === lists[1]?.tensors).toBe(areShared);
    const unpacked = lists.map(({ tensors, byteOffset }) =>
      unpackTensorList(tensors, buffer, byteOffset),
    );
    expect(unpacked).toEqual([[first], [second]]);
    expect(packTensorLists([[first], []]).lists[1]?.tensors).toEqual([]);
  });

  it.each([0, 1, 65_535, 65_536, 1_000_000])(
    'makes buffers of %i bytes that can be moved',
    (size) => {
      const buffer = newBuffer(size);
      expect(buffer.byteLength).toBe(size);
      structuredClone(buffer, { transfer: [buffer] });
      expect(buffer.byteLength).toBe(0);
    },
  );
});

describe('joining and splitting rows', () => {
  it('joins each input of the requests in the order of the requests', () => {
    const { buffer, tensors } = packMerged([
      [uint8('A', [1, 2], [1, 2]), uint8('B', [1, 1], [9])],
      [uint8('B', [2, 1], [8, 7]), uint8('A', [2, 2], [3, 4, 5, 6])],
    ]);
    expect(valuesOf(unpackTensors(tensors, buffer))).toEqual([
      ['A', [3, 2], [1, 2, 3, 4, 5, 6]],
      ['B', [3, 1], [9, 8, 7]],
    ]);
  });

  it('says that a batch with different inputs is a bug', () => {
    const mixed = [[uint8('A', [1], [1])], [uint8('B', [1], [1])]];
    expect(() => packMerged(mixed)).toThrow("a batch mixes inputs: no 'A'; this is a bug");
  });

  it('splits by the rows of the requests, elements of any length too', () => {
    const outputs = [
      uint8('A', [4, 2], [1, 2, 3, 4, 5, 6, 7, 8]),
      strings('S', [4, 1], ['a', '', 'ccc', 'dd']),
    ];
    const split = splitRows(outputs, [1, 0, 3], label);
    expect(split.map((own) => valuesOf(own)?.[0])).toEqual([
      ['A', [1, 2], [1, 2]],
      ['A', [0, 2], []],
      ['A', [3, 2], [3, 4, 5, 6, 7, 8]],
    ]);
    expect(split.map((own) => own[1]?.bytes)).toEqual([
      strings('S', [], ['a']).bytes,
      new Uint8Array(0),
      strings('S', [], ['', 'ccc', 'dd']).bytes,
    ]);
  });

  it('gives views of the same memory and copies nothing', () => {
    const output = uint8('A', [2, 1], [1, 2]);
    const [first] = splitRows([output], [1, 1], label);
    expect(first?.[0]?.bytes.buffer).toBe(output.bytes.buffer);
  });

  const wrong: readonly [string, readonly number[]][] = [
    ['fewer rows', [2, 1]],
    ['more rows', [4, 1]],
    ['no dimension', []],
  ];
  it.each(wrong)('refuses an output of %s, naming model, output and shape', (_, shape) => {
    const output = uint8('A', shape, [1, 2, 3, 4]);
    expect(() => splitRows([output], [1, 2], label)).toThrow(
      `model 'm' version 1: output 'A' has shape [${shape.join(',')}], ` +
        'expected a first dimension of 3, the rows of the batch',
    );
  });

  it('split of merged is what was merged', () => {
    const request = fc.array(fc.uint8Array({ minLength: 3, maxLength: 3 }), { maxLength: 5 });
    fc.assert(
      fc.property(fc.array(request, { minLength: 1, maxLength: 8 }), (requests) => {
        const tensors = requests.map((rows) =>
          uint8(
            'A',
            [rows.length, 3],
            rows.flatMap((row) => [...row]),
          ),
        );
        const merged = packMerged(tensors.map((tensor) => [tensor]));
        const rows = requests.map((own) => own.length);
        const split = splitRows(unpackTensors(merged.tensors, merged.buffer), rows, label);
        expect(split.map(([own]) => valuesOf(own ? [own] : []))).toEqual(
          tensors.map((tensor) => valuesOf([tensor])),
        );
      }),
      { numRuns: 50 },
    );
  });
});

describe('the size of a raw tensor', () => {
  it('fits its datatype and shape', () => {
    expect(() => checkTensorBytes(uint8('A', [2, 2], [1, 2, 3, 4]), label)).not.toThrow();
    expect(() => checkTensorBytes(strings('S', [7], []), label)).not.toThrow();
  });

  it.each([3, 5])('of %i bytes where 4 belong is refused', (size) => {
    const tensor = uint8('A', [2, 2], Array(size).fill(0));
    expect(() => checkTensorBytes(tensor, label)).toThrow(
      `model 'm' version 1: output 'A' has ${size} bytes, expected 4 for UINT8 [2,2]`,
    );
  });
});
