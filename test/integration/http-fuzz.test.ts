import { gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RawClient } from '../http/raw-client.js';
import { requestBytes } from '../http/running-http-server.js';
import {
  FuzzedServer,
  goodBody,
  goodRequest,
  type Json,
  keptBytesMax,
  oddJson,
  post,
} from './fuzzed-server.js';

/*
 * Malformed documents against the compiled server: whatever comes, the answer is never a fault of
 * the server, the next good request works, and memory comes back. `http-fuzz-wire.test.ts` does the
 * same below the documents.
 */

/** Replaces or drops what lies at a random place of a good request. */
function mutate(document: Json, path: readonly number[], replacement: Json | undefined): Json {
  const [step, ...rest] = path;
  if (step === undefined || document === null || typeof document !== 'object') {
    return replacement ?? null;
  }
  const keys = Object.keys(document);
  const key = keys[step % Math.max(1, keys.length)];
  if (key === undefined) return replacement ?? null;
  const copy: Json = Array.isArray(document) ? [...document] : { ...document };
  const target = copy as { [name: string]: Json };
  if (rest.length === 0 && replacement === undefined) delete target[key];
  else target[key] = mutate(target[key] ?? null, rest, replacement);
  return copy;
}

const mutatedBody = fc
  .tuple(
    fc.array(fc.nat({ max: 20 }), { minLength: 1, maxLength: 5 }),
    fc.option(oddJson, { nil: undefined }),
  )
  .map(([path, replacement]) => JSON.stringify(mutate(goodRequest as Json, path, replacement)));

/** A good body with bytes changed, cut out or put in. */
const damagedBody = fc
  .array(
    fc.tuple(
      fc.nat({ max: goodBody.length - 1 }),
      fc.nat({ max: 8 }),
      fc.uint8Array({ maxLength: 8 }),
    ),
    { minLength: 1, maxLength: 5 },
  )
  .map((edits) => {
    let bytes = Buffer.from(goodBody);
    for (const [at, cut, put] of edits) {
      bytes = Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + cut)]);
    }
    return bytes;
  });

const headerValue = fc.constantFrom(
  '0',
  '1',
  '-1',
  '17',
  '100',
  '99999999999999999999',
  'abc',
  '12abc',
  '0x10',
  ' 5',
);
const encoding = fc.constantFrom('identity', 'gzip', 'deflate', 'GZIP', 'br', 'gzip, gzip', '');

const segment = fc.oneof(
  fc.constantFrom(
    'models',
    'add_sub',
    'versions',
    '1',
    'infer',
    'ready',
    'config',
    'stats',
    'generate',
    'repository',
    'index',
    'load',
    'region',
    'status',
    'register',
    'systemsharedmemory',
    'trace',
    'setting',
    'logging',
    '..',
    '.',
    '%2e%2e',
    '%2F',
    '%00',
    '%',
    '%ZZ',
    '%C3%28',
    '-1',
    '01',
    '18446744073709551616',
  ),
  fc.stringMatching(/^[!-~]{1,12}$/).map((text) => text.replaceAll(/[/?#]/g, '_')),
);

describe.each(['uws', 'node'])('the compiled server on %s, fuzzed', (transport) => {
  let server: FuzzedServer;

  beforeAll(async () => {
    server = await FuzzedServer.start(transport);
  });
  afterAll(() => server.stop());

  it('answers good requests', () => server.expectServed());

  it.each(['infer', 'generate', 'generate_stream'])(
    'never fails on a %s request with a wrong member',
    async (action) => {
      await server.neverFails(mutatedBody, (body) => ({
        bytes: requestBytes('POST', `/v2/models/add_sub/${action}`, body),
        method: 'POST',
      }));
    },
  );

  it('never fails on damaged bytes, header lengths and encodings', async () => {
    await server.neverFails(
      fc.tuple(damagedBody, headerValue, encoding, fc.boolean()),
      ([body, length, coding, isCompressed]) => ({
        bytes: requestBytes(
          'POST',
          '/v2/models/add_sub/infer',
          isCompressed ? gzipSync(body) : body,
          {
            'Inference-Header-Content-Length': length,
            'Content-Encoding': coding,
            'Accept-Encoding': coding,
          },
        ),
        method: 'POST',
      }),
    );
  });

  it('never fails on a path or method that means nothing', async () => {
    const request = fc.tuple(
      fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'HEAD'),
      fc.array(segment, { maxLength: 7 }),
      oddJson,
    );
    await server.neverFails(request, ([method, segments, body]) => ({
      bytes: requestBytes(
        method,
        `/v2/${segments.join('/')}`,
        method === 'POST' ? JSON.stringify(body) : '',
      ),
      method,
    }));
  });

  describe('never fails on odd bodies of', () => {
    const name = fc.constantFrom(
      'parameters',
      'ready',
      'key',
      'byte_size',
      'offset',
      'trace_rate',
      'trace_level',
      'log_info',
      'log_format',
      'log_verbose_level',
      'config',
      'file:1/model.js',
      'unload_dependents',
      '__proto__',
    );
    const members = fc.dictionary(name, oddJson, { maxKeys: 4 });
    const body = fc.oneof(
      members,
      members.map((parameters) => ({ parameters })),
      oddJson,
    );

    it.each([
      ['index', '/v2/repository/index'],
      ['unload', '/v2/repository/models/add_sub_js/unload'],
      ['log settings', '/v2/logging'],
      ['trace settings', '/v2/trace/setting'],
      ['the trace settings of a model', '/v2/models/add_sub/trace/setting'],
      ['CUDA shared memory', '/v2/cudasharedmemory/region/r/register'],
    ])('%s', async (_what, path) => {
      await server.neverFails(body, (document) => post(path, JSON.stringify(document)));
    });

    it.each([
      ['load', '/v2/repository/models/add_sub_js/load'],
      ['system shared memory', '/v2/systemsharedmemory/region/r/register'],
    ])('%s, whose refusals are 500 with the reference server too', async (_what, path) => {
      await server.neverFails(body, (document) => post(path, JSON.stringify(document)), [500]);
    });
  });

  it('refuses or takes each member of a good request, deleted, retyped or extreme', async () => {
    const replacements: readonly (Json | undefined)[] = [
      ...[undefined, null, true, 0, -1, 1.5, 1e308, 2 ** 53, 2 ** 63, 2 ** 64, '', 'x'],
      ...['\u0000', 'x'.repeat(10_000), [], {}, [[]], [null], [{}], [-1], [1e300]],
    ];
    const visit = async (place: Json, path: readonly number[]): Promise<void> => {
      for (const replacement of replacements) {
        const body = JSON.stringify(mutate(goodRequest as Json, path, replacement));
        const { bytes, method } = post('/v2/models/add_sub/infer', body);
        const status = await server.send(bytes, method);
        expect([body, status === 200 || status === 400]).toEqual([body, true]);
      }
      if (place === null || typeof place !== 'object') return;
      const children = Object.values(place);
      // Of a long list of numbers the first stands for all.
      for (const [index, child] of children.slice(0, 12).entries()) {
        if (index === 0 || typeof child !== 'number') await visit(child, [...path, index]);
      }
    };
    for (const [index, child] of Object.values<Json>(goodRequest).entries()) {
      await visit(child, [index]);
    }
    await server.expectServed();
  });

  it('survives bytes that are not HTTP, and uploads that end early', async () => {
    const head = requestBytes('POST', '/v2/models/add_sub/infer', goodBody);
    const bytes = fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 200 }),
      fc.nat({ max: head.length - 1 }).map((length) => head.subarray(0, length + 1)),
    );
    await server.holds(bytes, async (sent) => {
      const client = await RawClient.open(server.port);
      await client.write(sent);
      client.close();
    });
  });

  it.each([
    ['chunks without end', `${'1\r\na\r\n'.repeat(70_000)}0\r\n\r\n`],
    ['open brackets', `186a0\r\n${'['.repeat(100_000)}\r\n0\r\n\r\n`],
  ])('refuses %s on every route that reads a body', async (_what, chunks) => {
    for (const path of [
      '/v2/models/add_sub/infer',
      '/v2/models/add_sub/generate',
      '/v2/repository/index',
      '/v2/repository/models/add_sub/load',
      '/v2/logging',
      '/v2/trace/setting',
      '/v2/systemsharedmemory/region/r/register',
    ]) {
      const client = await RawClient.open(server.port);
      await client.write(
        `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`,
      );
      expect((await client.reply())?.status).toBe(400);
      client.close();
    }
    await server.expectServed();
  });

  it('holds no memory for a thousand uploads that were given up', async () => {
    const abandon = async (): Promise<void> => {
      const client = await RawClient.open(server.port);
      await client.write(
        `POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 190000\r\n\r\n${'x'.repeat(100_000)}`,
      );
      client.close();
    };
    for (let count = 0; count < 200; count += 1) await abandon();
    const before = server.residentBytes();
    for (let count = 0; count < 1000; count += 1) await abandon();
    await server.expectServed();
    expect(server.residentBytes() - before).toBeLessThan(keptBytesMax);
  });

  it('stays within its memory while bombs are inflated', async () => {
    const bomb = gzipSync(Buffer.alloc(100_000_000));
    const request = requestBytes('POST', '/v2/models/add_sub/infer', bomb, {
      'Content-Encoding': 'gzip',
    });
    const before = server.residentBytes();
    for (let count = 0; count < 20; count += 1)
      expect(await server.send(request, 'POST')).toBe(400);
    expect(server.residentBytes() - before).toBeLessThan(keptBytesMax);
    await server.expectServed();
  });
});
