import { expect, it } from 'vitest';
import { BodyMemory } from '../../src/http/body-buffer.js';

const uploadBytesMax = 1_000_000;
const large = 65_536;

it('serves a large body in the memory of one that came back', () => {
  const memory = new BodyMemory(uploadBytesMax);
  const body = memory.allocate(large + 8, 3);
  const { buffer } = body;
  memory.recycle(body);
  const next = memory.allocate(large, 5);
  expect(next.buffer).toBe(buffer);
  expect([next.byteLength, (next.byteOffset + 5) % 8]).toEqual([large, 0]);
  expect(memory.allocate(large, 0).buffer).not.toBe(buffer);
});

it('takes memory back with a view of a part of it', () => {
  const memory = new BodyMemory(uploadBytesMax);
  const body = memory.allocate(2 * large, 0);
  memory.recycle(body.subarray(0, large));
  expect(memory.allocate(2 * large, 0).buffer).toBe(body.buffer);
});

it.each([100, 4096, 4097, large - 1])('keeps no memory of a body of %i bytes', (bytes) => {
  const memory = new BodyMemory(uploadBytesMax);
  const body = memory.allocate(bytes, 0);
  memory.recycle(body);
  const next = memory.allocate(bytes, 0);
  const isShared = next.buffer === body.buffer && next.byteOffset === body.byteOffset;
  expect(isShared).toBe(false);
  expect(memory.allocate(large, 0).buffer).not.toBe(body.buffer);
});
