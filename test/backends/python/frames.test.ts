import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  FrameSplitter,
  frameHeaderBytes,
  frameKind,
  sharedPayloadBytesMax,
  sharedPayloadFlag,
  writeFrameHeader,
} from '../../../src/backends/python/frames.js';

function frame(kind: number, id: number, payload: Uint8Array): Buffer {
  const buffer = Buffer.alloc(frameHeaderBytes + payload.length);
  writeFrameHeader(buffer, kind, id, payload.length);
  buffer.set(payload, frameHeaderBytes);
  return buffer;
}

function unshared(): void {
  throw new Error('no payload lies in a shared file');
}

/** Frames that come out of `stream` when it arrives in pieces of the given sizes, again and again. */
function split(stream: Buffer, sizes: readonly number[]): [number, number, Buffer][] {
  const frames: [number, number, Buffer][] = [];
  const splitter = new FrameSplitter((kind, id, payload) => {
    frames.push([kind, id, Buffer.from(payload)]);
  }, unshared);
  for (let at = 0, turn = 0; at < stream.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? 1;
    splitter.push(stream.subarray(at, at + size));
    at += size;
  }
  return frames;
}

describe('FrameSplitter', () => {
  it('finds the same frames however the stream is cut', () => {
    const frames = fc.array(
      fc.tuple(
        fc.constantFrom(frameKind.executed, frameKind.log),
        fc.nat(0xffff_ffff),
        fc.uint8Array({ maxLength: 100 }),
      ),
      { maxLength: 8 },
    );
    const sizes = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(frames, sizes, (expected, cuts) => {
        const stream = Buffer.concat(expected.map((fields) => frame(...fields)));
        expect(split(stream, cuts)).toEqual(
          expected.map(([kind, id, payload]) => [kind, id, Buffer.from(payload)]),
        );
      }),
    );
  });

  it('gives a payload of one chunk as a view of it', () => {
    const chunk = frame(frameKind.executed, 1, Uint8Array.of(1, 2, 3));
    let seen: Buffer = Buffer.alloc(0);
    new FrameSplitter((_kind, _id, payload) => {
      seen = payload;
    }, unshared).push(chunk);
    expect(seen.buffer).toBe(chunk.buffer);
  });

  it.each([
    ['reuses the memory of answers', frameKind.executed, true],
    ['keeps the memory of other frames apart', frameKind.infer, false],
  ])('%s that came in pieces', (_what, kind, isShared) => {
    const buffers: ArrayBufferLike[] = [];
    const splitter = new FrameSplitter(
      (_kind, _id, payload) => buffers.push(payload.buffer),
      unshared,
    );
    const chunk = frame(kind, 1, new Uint8Array(5000));
    for (let turn = 0; turn < 2; turn += 1) {
      splitter.push(chunk.subarray(0, 3000));
      splitter.push(chunk.subarray(3000));
    }
    expect(buffers[0] === buffers[1]).toBe(isShared);
  });

  it.each([1, 7, frameHeaderBytes, 40])(
    'has the payload of a frame that says so read from elsewhere, in pieces of %i',
    (size) => {
      const header = Buffer.alloc(frameHeaderBytes);
      writeFrameHeader(header, frameKind.executed + sharedPayloadFlag, 5, 3);
      const log = frame(frameKind.log, 6, Uint8Array.of(9));
      const seen: unknown[] = [];
      const splitter = new FrameSplitter(
        (kind, id, payload) => seen.push([kind, id, [...payload]]),
        (target) => target.fill(4),
      );
      const stream = Buffer.concat([log, header, header, log]);
      for (let at = 0; at < stream.length; at += size)
        splitter.push(stream.subarray(at, at + size));
      expect(seen).toEqual([
        [frameKind.log, 6, [9]],
        [frameKind.executed, 5, [4, 4, 4]],
        [frameKind.executed, 5, [4, 4, 4]],
        [frameKind.log, 6, [9]],
      ]);
    },
  );

  it.each([
    [sharedPayloadBytesMax, undefined],
    [sharedPayloadBytesMax + 1, 'out of step'],
  ])('takes a shared payload of %i bytes: %s', (byteLength, error) => {
    const header = Buffer.alloc(frameHeaderBytes);
    writeFrameHeader(header, frameKind.executed + sharedPayloadFlag, 5, byteLength);
    const splitter = new FrameSplitter(
      () => {},
      () => {},
    );
    const push = () => splitter.push(header);
    if (error === undefined) expect(push).not.toThrow();
    else expect(push).toThrow(error);
  });

  it('refuses a length that no frame has', () => {
    const splitter = new FrameSplitter(() => {}, unshared);
    expect(() => splitter.push(Buffer.alloc(frameHeaderBytes, 0xff))).toThrow('out of step');
  });
});
