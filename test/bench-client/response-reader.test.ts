import { describe, expect, it } from 'vitest';
import { type HttpResponse, ResponseReader } from '../../src/bench-client/response-reader.js';

/** Reads `text` in pieces of `pieceBytes` from memory that is used again. */
function readInPieces(text: string, pieceBytes: number): readonly HttpResponse[] {
  const responses: HttpResponse[] = [];
  const reader = new ResponseReader(
    () => true,
    (response) => responses.push(response),
  );
  const bytes = Buffer.from(text, 'latin1');
  const memory = Buffer.alloc(pieceBytes);
  for (let at = 0; at < bytes.byteLength; at += pieceBytes) {
    const length = bytes.copy(memory, 0, at, at + pieceBytes);
    reader.read(memory.subarray(0, length));
  }
  reader.end();
  return responses;
}

const cases: readonly (readonly [string, string, number, string, boolean])[] = [
  ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc', 200, 'abc', true],
  ['no body', 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n', 200, '', true],
  ['204', 'HTTP/1.1 204 No Content\r\n\r\n', 204, '', true],
  [
    'chunks',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n',
    200,
    'abc0123456789',
    true,
  ],
  [
    'chunks and a trailer',
    'HTTP/1.1 400 Bad\r\ntransfer-encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n',
    400,
    'x',
    true,
  ],
  ['the end of the connection', 'HTTP/1.1 200 OK\r\n\r\nrest', 200, 'rest', false],
  [
    'a server that closes',
    'HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno',
    503,
    'no',
    false,
  ],
  ['HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok', 200, 'ok', false],
  [
    'an interim answer before it',
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
    200,
    'ok',
    true,
  ],
];

describe('ResponseReader', () => {
  it.each(cases)('reads an answer with %s, in pieces of any size', (_, text, ...expected) => {
    for (const pieceBytes of [1, 2, 3, 7, 4096]) {
      const responses = readInPieces(text, pieceBytes);
      expect(
        responses.map(({ status, body, isReusable }) => [status, String(body), isReusable]),
      ).toEqual([expected]);
    }
  });

  it('reads answers that follow one another', () => {
    const text = 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n';
    const responses = readInPieces(`${text}a${text}b`, 5);
    expect(responses.map(({ body }) => String(body))).toEqual(['a', 'b']);
  });

  it('keeps no body that nobody wants', () => {
    const bodies: unknown[] = [];
    const reader = new ResponseReader(
      (status) => status !== 200,
      ({ body }) => bodies.push(body?.toString()),
    );
    reader.read(Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'));
    reader.read(Buffer.from('HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno'));
    expect(bodies).toEqual([undefined, 'no']);
  });

  it.each([
    ['what is no HTTP', 'SSH-2.0-OpenSSH\r\n\r\n'],
    ['a chunk without a size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n'],
    ['a head without end', `HTTP/1.1 200 OK\r\nA: ${'x'.repeat(70_000)}`],
  ])('throws on %s', (_, text) => {
    expect(() => readInPieces(text, 100_000)).toThrow(/answer/);
  });

  it('says whether the end of the connection cut an answer off', () => {
    const endAfter = (text: string): boolean => {
      const reader = new ResponseReader(
        () => true,
        () => undefined,
      );
      reader.read(Buffer.from(text));
      return reader.end();
    };
    expect(endAfter('HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc')).toBe(true);
    expect(endAfter('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc')).toBe(false);
    expect(endAfter('HTTP/1.1 200')).toBe(false);
  });
});
