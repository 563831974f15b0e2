import { rmSync, writeFileSync } from 'node:fs';
import { deflateSync, gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RawClient } from '../http/raw-client.js';
import { requestBytes } from '../http/running-http-server.js';
import { expectNoFault, FuzzedServer, goodBody, keptBytesMax, post } from './fuzzed-server.js';

/* What lies below the documents: heads, lengths, binary sections, encodings, order on a connection. */

/** What uWebSockets.js says to a request line that it cannot read. */
const versionNotSupported = 505;

const binaryInfer = '/v2/models/floats/infer';
const textInfer = '/v2/models/text/infer';

function binaryBody(json: unknown, binary: Uint8Array): { json: string; body: Buffer } {
  const text = JSON.stringify(json);
  return { json: text, body: Buffer.concat([Buffer.from(text), binary]) };
}

const nearby = fc.integer({ min: -9, max: 9 });
const oddNumber = fc.oneof(
  nearby,
  fc.constantFrom(2 ** 31, 2 ** 32, 2 ** 53, 2 ** 63, 2 ** 64, -(2 ** 31), 1e300, 0.5),
);

/** Pieces of about `bytesMax` bytes that leave every request line whole. */
function cut(requests: Buffer, bytesMax: number): readonly Buffer[] {
  // uWebSockets.js of this version answers 505 to a request line that comes in two pieces.
  const lines = [...requests.toString('latin1').matchAll(/(GET|POST|DELETE) \S+ HTTP\/1\.1\r\n/g)];
  const ranges = lines.map(({ index, 0: line }) => [index, index + line.length] as const);
  const pieces: Buffer[] = [];
  let start = 0;
  for (let end = bytesMax; start < requests.length; end += bytesMax) {
    const whole = ranges.find(([from, to]) => from < end && end < to)?.[1] ?? end;
    if (whole <= start) continue;
    pieces.push(requests.subarray(start, whole));
    start = whole;
  }
  return pieces;
}

describe.each(['uws', 'node'])('below the documents, the compiled server on %s', (transport) => {
  let server: FuzzedServer;
  let before = 0;

  beforeAll(async () => {
    server = await FuzzedServer.start(transport);
    for (let count = 0; count < 200; count += 1) await server.expectServed();
    before = server.residentBytes();
  });
  afterAll(async () => {
    const kept = server.residentBytes() - before;
    await server.stop();
    expect(kept).toBeLessThan(keptBytesMax);
  });

  it('never fails on a binary section that is not as long as it is said to be', async () => {
    const section = fc.record({
      count: fc.nat({ max: 20 }),
      sizeOff: fc.oneof(fc.constant(0), oddNumber),
      headerOff: fc.oneof(fc.constant(0), nearby),
      lengthOff: fc.oneof(fc.constant(0), nearby),
      shape: fc.option(fc.array(oddNumber, { maxLength: 3 }), { nil: undefined }),
    });
    await server.neverFails(section, ({ count, sizeOff, headerOff, lengthOff, shape }) => {
      const size = count * 4 + sizeOff;
      const { json, body } = binaryBody(
        {
          inputs: [
            {
              name: 'X',
              datatype: 'FP32',
              shape: shape ?? [count],
              parameters: { binary_data_size: size },
            },
          ],
          outputs: [{ name: 'Y', parameters: { binary_data: true } }],
        },
        Buffer.alloc(Math.max(0, count * 4 + lengthOff), 1),
      );
      return post(binaryInfer, body, {
        'Inference-Header-Content-Length': String(json.length + headerOff),
      });
    });
  });

  it('never fails on strings whose prefixes lie', async () => {
    const strings = fc.tuple(
      fc.array(fc.tuple(fc.uint8Array({ maxLength: 8 }), fc.oneof(fc.constant(0), oddNumber)), {
        maxLength: 6,
      }),
      nearby,
    );
    await server.neverFails(strings, ([elements, countOff]) => {
      const parts = elements.map(([bytes, off]) => {
        const prefix = Buffer.alloc(4);
        prefix.writeUInt32LE((bytes.length + Math.trunc(off)) >>> 0);
        return Buffer.concat([prefix, bytes]);
      });
      const binary = Buffer.concat(parts);
      const { json, body } = binaryBody(
        {
          inputs: [
            {
              name: 'A',
              datatype: 'BYTES',
              shape: [Math.max(0, elements.length + countOff)],
              parameters: { binary_data_size: binary.length },
            },
          ],
        },
        binary,
      );
      return post(textInfer, body, { 'Inference-Header-Content-Length': String(json.length) });
    });
  });

  it('never fails on raw bodies of any length', async () => {
    await server.neverFails(fc.uint8Array({ maxLength: 64 }), (bytes) =>
      post(binaryInfer, bytes, { 'Inference-Header-Content-Length': '0' }),
    );
  });

  it('never fails on references to shared memory', async () => {
    const key = `/nereid-fuzz-${process.pid}-${transport}`;
    writeFileSync(`/dev/shm${key}`, Buffer.alloc(64));
    const register = post(
      '/v2/systemsharedmemory/region/fuzz/register',
      JSON.stringify({ key, byte_size: 64 }),
    );
    expect(await server.send(register.bytes, 'POST')).toBe(200);
    const reference = fc.record(
      {
        shared_memory_region: fc.constantFrom<unknown>('fuzz', 'nope', '', 1, null),
        shared_memory_offset: fc.oneof(fc.nat({ max: 80 }), oddNumber),
        shared_memory_byte_size: fc.oneof(fc.constantFrom(4, 8), oddNumber),
      },
      { requiredKeys: ['shared_memory_region'] },
    );
    const body = fc.tuple(reference, fc.option(reference, { nil: {} }));
    // 500: a region with no room for the output is the reference server's own failure.
    await server.neverFails(
      body,
      ([input, output]) =>
        post(
          binaryInfer,
          JSON.stringify({
            inputs: [{ name: 'X', datatype: 'FP32', shape: [1], parameters: input }],
            outputs: [{ name: 'Y', parameters: output }],
          }),
        ),
      [500],
    );
    rmSync(`/dev/shm${key}`);
  });

  it('never fails on compressed bodies that are damaged', async () => {
    const damage = fc.tuple(
      fc.constantFrom('gzip', 'deflate'),
      fc.array(fc.tuple(fc.nat({ max: 400 }), fc.nat({ max: 255 })), { maxLength: 4 }),
      fc.nat({ max: 400 }),
    );
    await server.neverFails(damage, ([encoding, edits, kept]) => {
      const packed = Buffer.from(encoding === 'gzip' ? gzipSync(goodBody) : deflateSync(goodBody));
      for (const [at, byte] of edits) packed[at % packed.length] = byte;
      const body = packed.subarray(0, kept === 0 ? packed.length : kept);
      return post('/v2/models/add_sub/infer', body, {
        'Content-Encoding': encoding,
        'Accept-Encoding': `${encoding};q=0.5, *;q=nope, gzip;;q`,
      });
    });
  });

  it('never fails on lengths and encodings of transfer that contradict one another', async () => {
    const line = fc.constantFrom(
      'Content-Length: 5',
      'Content-Length: 0',
      'Content-Length: -1',
      'Content-Length: +5',
      'Content-Length: 5,5',
      'Content-Length: 0x5',
      'Content-Length: 99999999999999999999',
      'Content-Length:',
      'content-length : 5',
      'Transfer-Encoding: chunked',
      'Transfer-Encoding: gzip, chunked',
      'Transfer-Encoding: chunked, identity',
      'Transfer-Encoding: identity',
      'Transfer-Encoding: xchunked',
      'Expect: 100-continue',
      'Expect: nonsense',
      'Connection: close',
      'Connection: upgrade',
      'Upgrade: websocket',
      'Upgrade: h2c',
    );
    const body = fc.constantFrom(
      '',
      '{}',
      'hello',
      '5\r\nhello\r\n0\r\n\r\n',
      'fffffffffffffffff\r\n',
      '5;ext=1\r\nhello\r\n0\r\nTrailer: x\r\n\r\n',
      '-5\r\nhello\r\n',
      '0\r\n\r\n',
    );
    const path = fc.constantFrom('/v2/models/add_sub/infer', '/v2/repository/index', '/v2/logging');
    const request = fc.tuple(path, fc.array(line, { maxLength: 4 }), body);
    await server.holds(request, async ([target, lines, sent]) => {
      const client = await RawClient.open(server.port);
      const head = ['Host: a', ...lines].map((text) => `${text}\r\n`).join('');
      await client.write(`POST ${target} HTTP/1.1\r\n${head}\r\n${sent}`);
      // A server that waits for more gets no more.
      client.halfClose();
      expectNoFault((await client.reply())?.status, [versionNotSupported]);
      client.close();
    });
  });

  it('never fails on headers that are long, many or hold anything', async () => {
    const name = fc.stringMatching(/^[A-Za-z0-9-]{1,20}$/);
    const value = fc.oneof(
      fc.string({ maxLength: 40 }),
      fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
      fc.nat({ max: 20_000 }).map((length) => 'v'.repeat(length)),
    );
    const headers = fc.oneof(
      fc.array(fc.tuple(name, value), { maxLength: 5 }),
      fc.nat({ max: 500 }).map((count) => Array.from({ length: count }, () => ['x', 'y'] as const)),
    );
    await server.holds(headers, async (pairs) => {
      const client = await RawClient.open(server.port);
      const head = pairs.map(([key, text]) => `${key}: ${text}\r\n`).join('');
      const bytes = Buffer.from(`GET /v2/health/live HTTP/1.1\r\nHost: a\r\n${head}\r\n`, 'latin1');
      await client.write(bytes);
      client.halfClose();
      expectNoFault((await client.reply())?.status, [versionNotSupported]);
      client.close();
    });
  });

  it('answers pipelined requests in order, whatever they are mixed of', async () => {
    const kinds: readonly (readonly [Uint8Array, number])[] = [
      [requestBytes('POST', '/v2/models/add_sub/infer', goodBody), 200],
      [requestBytes('POST', '/v2/models/add_sub/infer', '{'), 400],
      [requestBytes('POST', '/v2/models/nope/infer', goodBody), 404],
      [requestBytes('GET', '/v2/health/live'), 200],
      [requestBytes('DELETE', '/v2'), 405],
      [requestBytes('GET', '/nope'), 404],
      [
        requestBytes('POST', '/v2/models/add_sub/infer', goodBody, { 'Content-Encoding': 'br' }),
        501,
      ],
      [requestBytes('POST', '/v2/models/decoupled/generate_stream', '{"X":1}'), 200],
      [requestBytes('POST', '/v2/repository/index', '{"ready":1}'), 400],
    ];
    const mixture = fc.tuple(
      fc.array(fc.nat({ max: kinds.length - 1 }), { minLength: 1, maxLength: 12 }),
      fc.integer({ min: 1, max: 5000 }),
    );
    await server.holds(mixture, async ([order, pieceBytes]) => {
      const wanted = order.map((index) => kinds[index] ?? ([Buffer.alloc(0), 0] as const));
      const all = Buffer.concat(wanted.map(([bytes]) => bytes));
      const client = await RawClient.open(server.port);
      for (const piece of cut(all, pieceBytes)) await client.write(piece);
      const statuses: (number | undefined)[] = [];
      for (const _ of wanted) statuses.push((await client.reply())?.status);
      client.close();
      // uWebSockets.js closes the connection when a request comes before an answer that is late.
      const answered = transport === 'uws' ? statuses.indexOf(undefined) : -1;
      const due = wanted.map(([, status]) => status);
      expect(answered === -1 ? statuses : statuses.slice(0, answered)).toEqual(
        answered === -1 ? due : due.slice(0, answered),
      );
    });
  });

  it('goes on when clients leave in the middle of anything', async () => {
    const sizes = fc.tuple(fc.nat({ max: 100_000 }), fc.boolean(), fc.boolean());
    const floats = Buffer.alloc(40_000, 1);
    const { json, body } = binaryBody(
      {
        inputs: [
          {
            name: 'X',
            datatype: 'FP32',
            shape: [10_000],
            parameters: { binary_data_size: floats.length },
          },
        ],
      },
      floats,
    );
    const whole = requestBytes('POST', binaryInfer, body, {
      'Inference-Header-Content-Length': String(json.length),
    });
    await server.holds(sizes, async ([sent, isTwice, isHalfClosed]) => {
      const client = await RawClient.open(server.port);
      if (isTwice) await client.write(whole);
      await client.write(whole.subarray(0, sent));
      if (isHalfClosed) client.halfClose();
      client.close();
    });
  });
});
