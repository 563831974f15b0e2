import { deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { type MessageEncoding, MessageReader } from '../../src/grpc/message-reader.js';

function frame(message: Uint8Array, flag = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = flag;
  prefix.writeUInt32BE(message.byteLength, 1);
  return Buffer.concat([prefix, message]);
}

/** A reader, and what it told. */
function makeReader(encoding: MessageEncoding = 'identity') {
  const told: string[] = [];
  let tell: () => void = () => undefined;
  const note = (text: string): void => {
    told.push(text);
    tell();
  };
  const source = { pause: () => note('pause'), resume: () => note('resume') };
  const reader = new MessageReader(encoding, source, {
    onMessage: (message) => note(message.toString()),
    onEnd: () => note('end'),
    onRefusal: ({ code, details }) => note(`${code} ${details}`),
  });
  const until = async (text: string): Promise<void> => {
    while (!told.includes(text)) {
      await new Promise<void>((resolve) => {
        tell = resolve;
      });
    }
  };
  return { reader, told, until };
}

const text = (content: string): Buffer => Buffer.from(content);

describe('MessageReader', () => {
  const body = Buffer.concat(['first', '', 'a third one'].map((message) => frame(text(message))));

  it.each([1, 2, 4, 5, 6, 7, 100])('reads messages that come in pieces of %i bytes', (size) => {
    const { reader, told } = makeReader();
    for (let at = 0; at < body.byteLength; at += size) {
      reader.push(body.subarray(at, at + size));
    }
    reader.end();
    expect(told).toEqual(['first', '', 'a third one', 'end']);
  });

  it('hands out a view of the piece that holds the whole message', () => {
    const piece = frame(text('whole'));
    let buffer: ArrayBufferLike | undefined;
    const reader = new MessageReader(
      'identity',
      { pause: () => undefined, resume: () => undefined },
      {
        onMessage: (message) => {
          buffer = message.buffer;
        },
        onEnd: () => undefined,
        onRefusal: () => undefined,
      },
    );
    reader.push(piece);
    expect(buffer).toBe(piece.buffer);
  });

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
  ] as const)(
    'decompresses %s, keeps the order and asks for nothing meanwhile',
    async (name, deflate) => {
      const { reader, told, until } = makeReader(name);
      reader.push(Buffer.concat([frame(deflate(text('small')), 1), frame(text('plain'))]));
      reader.push(frame(deflate(text('last')), 1));
      reader.end();
      await until('end');
      expect(told).toEqual(['pause', 'small', 'plain', 'last', 'end', 'resume']);
    },
  );

  it('tells nothing while it is paused', () => {
    const { reader, told } = makeReader();
    reader.pause();
    reader.push(body);
    reader.end();
    expect(told).toEqual(['pause']);
    reader.resume();
    expect(told).toEqual(['pause', 'first', '', 'a third one', 'end', 'resume']);
  });

  it('tells nothing once it is destroyed, but lets the rest be read', () => {
    const { reader, told } = makeReader();
    reader.pause();
    reader.push(body);
    reader.destroy();
    reader.push(body);
    reader.end();
    expect(told).toEqual(['pause', 'resume']);
  });

  it.each([
    ['a prefix that ends early', frame(text('whole')).subarray(0, 3), /^13 .*middle of a message/],
    ['a message that ends early', frame(text('whole')).subarray(0, 8), /^13 .*middle of a message/],
    ['a compressed message where none was announced', frame(text('x'), 1), /^13 a compressed/],
    ['a message that is too long', Buffer.from([0, 0x80, 0, 0, 0]), /^8 a message of 2147483648 /],
  ])('refuses %s', (_, bytes, expected) => {
    const { reader, told } = makeReader();
    reader.push(bytes);
    reader.end();
    expect(told).toEqual([expect.stringMatching(expected)]);
  });

  it('refuses what cannot be decompressed', async () => {
    const { reader, told, until } = makeReader('gzip');
    reader.push(frame(text('no gzip at all'), 1));
    await until('resume');
    expect(told).toEqual(['pause', 'resume', expect.stringMatching(/^13 cannot decompress/)]);
  });
});
