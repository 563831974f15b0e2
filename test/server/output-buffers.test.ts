import { expect, it } from 'vitest';
import { OutputBuffers, outputBytesOf } from '../../src/server/output-buffers.js';

const large = 100_000;

it('gives a buffer to a later batch when all that read it have told', () => {
  const outputs = new OutputBuffers();
  const buffer = new ArrayBuffer(large);
  const release = outputs.lend(buffer, large, 2, 2);
  expect(outputs.spareFor(2)).toBeUndefined();
  release?.();
  expect(outputs.spareFor(2)).toBeUndefined();
  release?.();
  expect(outputs.spareFor(2)).toBe(buffer);
  expect(outputs.spareFor(2)).toBeUndefined();
});

it.each([
  [2, true],
  [3, false],
])('finds room for %i rows where 2 fill the buffer: %s', (rows, isFound) => {
  const outputs = new OutputBuffers();
  outputs.lend(new ArrayBuffer(2 * large), 2 * large, 2, 1)?.();
  expect(outputs.spareFor(rows) !== undefined).toBe(isFound);
});

it('counts what the outputs need, not what their buffer has', () => {
  const outputs = new OutputBuffers();
  outputs.lend(new ArrayBuffer(2 * large), large, 1, 1)?.();
  expect(outputs.spareFor(1)?.byteLength).toBe(2 * large);
});

it('does not lend a small buffer', () => {
  expect(new OutputBuffers().lend(new ArrayBuffer(65_535), 65_535, 1, 1)).toBeUndefined();
});

it('adds up the outputs of an answer in either form', () => {
  const tensor = {
    name: 'y',
    datatype: 'FP32',
    shape: [1, 2],
    encoding: 'raw',
    byteOffset: 0,
    byteLength: 8,
  } as const;
  const common = { buffer: new ArrayBuffer(16), stamps: [1, 2, 3, 4] } as const;
  const merged = {
    type: 'executed-merged',
    recycled: undefined,
    outputs: [tensor, tensor],
  } as const;
  const response = { outputs: [tensor], parameters: [] };
  const results = [
    { type: 'response', response, byteOffset: 0 },
    { type: 'streamed' },
    { type: 'response', response, byteOffset: 0 },
  ] as const;
  expect(outputBytesOf({ ...common, ...merged })).toBe(16);
  expect(
    outputBytesOf({
      ...common,
      type: 'executed-requests',
      recycled: undefined,
      results,
      eachStamps: undefined,
    }),
  ).toBe(16);
});
