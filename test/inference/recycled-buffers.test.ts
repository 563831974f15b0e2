import { expect, it } from 'vitest';
import { RecycledBuffers } from '../../src/inference/recycled-buffers.js';

const large = 100_000;

it('gives a large buffer that came back, once', () => {
  const buffers = new RecycledBuffers();
  const buffer = buffers.take(large);
  buffers.give(buffer);
  expect(buffers.take(large)).toBe(buffer);
  expect(buffers.take(large)).not.toBe(buffer);
});

it.each([
  [large, true],
  [70_000, true],
  [large - 1, true],
  [large + 1, false],
])('a buffer of %i bytes may come from one of 100000: %s', (byteLength, isReused) => {
  const buffers = new RecycledBuffers();
  const buffer = new ArrayBuffer(large);
  buffers.give(buffer);
  expect(buffers.take(byteLength) === buffer).toBe(isReused);
});

it('makes small buffers anew, of exactly their size', () => {
  const buffers = new RecycledBuffers();
  buffers.give(new ArrayBuffer(100));
  expect(buffers.take(90).byteLength).toBe(90);
});

it('lets the oldest go where there are more than four, or too many bytes', () => {
  const buffers = new RecycledBuffers();
  const kept = Array.from({ length: 5 }, () => new ArrayBuffer(large));
  for (const buffer of kept) buffers.give(buffer);
  expect(Array.from({ length: 5 }, () => kept.indexOf(buffers.take(large)))).toEqual([
    1, 2, 3, 4, -1,
  ]);
  const [first, second] = [new ArrayBuffer(40_000_000), new ArrayBuffer(40_000_000)];
  buffers.give(first);
  buffers.give(second);
  expect([buffers.take(40_000_000), buffers.take(40_000_000)].indexOf(first)).toBe(-1);
});
