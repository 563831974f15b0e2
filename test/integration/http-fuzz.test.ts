import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RawClient } from '../http/raw-client.js';
import { requestBytes } from '../http/running-http-server.js';
import { ServerProcess } from '../support/server-process.js';

/*
 * Malformed bodies, lengths, encodings, paths and bytes against the compiled server: whatever comes,
 * the answer is never a fault of the server, the next good request works, and memory comes back.
 */

const repository = fileURLToPath(new URL('../../model_repository', import.meta.url));
const seed = 20_240_817;
const runs = 400;

const values = Array.from({ length: 16 }, (_item, index) => index);
const good = {
  id: 'f',
  parameters: { priority: 1, timeout: 1_000_000, any: 'x' },
  inputs: ['INPUT0', 'INPUT1'].map((name) => ({
    name,
    datatype: 'FP32',
    shape: [1, 16],
    parameters: {},
    data: values,
  })),
  outputs: [{ name: 'OUTPUT0', parameters: { binary_data: false, classification: 0 } }],
};
const goodBody = JSON.stringify(good);

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

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

const oddJson: fc.Arbitrary<Json> = fc.oneof(
  fc.jsonValue() as fc.Arbitrary<Json>,
  fc.constantFrom<Json>(
    -1,
    2 ** 31,
    2 ** 53,
    1e300,
    1.5,
    '',
    '\u0000',
    '__proto__',
    '../x',
    [],
    {},
  ),
  fc.array(fc.integer(), { maxLength: 40 }),
);

const mutatedBody = fc
  .tuple(
    fc.array(fc.nat({ max: 20 }), { minLength: 1, maxLength: 5 }),
    fc.option(oddJson, { nil: undefined }),
  )
  .map(([path, replacement]) => JSON.stringify(mutate(good as Json, path, replacement)));

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
  let server: ServerProcess;
  let port = 0;

  beforeAll(async () => {
    server = await ServerProcess.start([
      `--model-repository=${repository}`,
      `--http-transport=${transport}`,
      '--http-max-input-size=200000',
      '--log-info=false',
    ]);
    port = Number(new URL(server.httpUrl).port);
  });
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  /** Status of the answer; undefined where the server closed the connection instead. */
  async function send(bytes: Uint8Array, method: string): Promise<number | undefined> {
    const client = await RawClient.open(port);
    await client.write(bytes);
    const reply = await client.reply(method);
    client.close();
    return reply?.status;
  }

  function expectNoFault(status: number | undefined): void {
    if (status !== undefined && status >= 500) expect([501, 503]).toContain(status);
  }

  async function expectServed(): Promise<void> {
    const body = requestBytes('POST', '/v2/models/add_sub/infer', goodBody);
    expect(await send(body, 'POST')).toBe(200);
  }

  const check = async <T>(
    arbitrary: fc.Arbitrary<T>,
    toRequest: (value: T) => { bytes: Uint8Array; method: string },
  ): Promise<void> => {
    await fc.assert(
      fc.asyncProperty(arbitrary, async (value) => {
        const { bytes, method } = toRequest(value);
        expectNoFault(await send(bytes, method));
      }),
      { seed, numRuns: runs },
    );
    await expectServed();
  };

  it('answers good requests', expectServed);

  it.each(['infer', 'generate', 'generate_stream'])(
    'never fails on a %s request with a wrong member',
    async (action) => {
      await check(mutatedBody, (body) => ({
        bytes: requestBytes('POST', `/v2/models/add_sub/${action}`, body),
        method: 'POST',
      }));
    },
  );

  it('never fails on damaged bytes, header lengths and encodings', async () => {
    await check(
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
    await check(request, ([method, segments, body]) => ({
      bytes: requestBytes(
        method,
        `/v2/${segments.join('/')}`,
        method === 'POST' ? JSON.stringify(body) : '',
      ),
      method,
    }));
  });

  it('never fails on odd bodies of the calls that manage it', async () => {
    const path = fc.constantFrom(
      '/v2/repository/index',
      '/v2/repository/models/add_sub/load',
      '/v2/repository/models/add_sub/unload',
      '/v2/logging',
      '/v2/trace/setting',
      '/v2/models/add_sub/trace/setting',
      '/v2/systemsharedmemory/region/r/register',
      '/v2/cudasharedmemory/region/r/register',
    );
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
      '__proto__',
    );
    const body = fc.oneof(fc.dictionary(name, oddJson, { maxKeys: 4 }), oddJson);
    await check(fc.tuple(path, body), ([target, document]) => ({
      bytes: requestBytes('POST', target, JSON.stringify(document)),
      method: 'POST',
    }));
    // The log may have been set to say less; it must still be the same server.
    expect(await send(requestBytes('GET', '/v2/health/ready'), 'GET')).toBe(200);
  });

  it('survives bytes that are not HTTP, and uploads that end early', async () => {
    const head = requestBytes('POST', '/v2/models/add_sub/infer', goodBody);
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.uint8Array({ minLength: 1, maxLength: 200 }),
          fc.nat({ max: head.length - 1 }).map((length) => head.subarray(0, length + 1)),
        ),
        async (bytes) => {
          const client = await RawClient.open(port);
          await client.write(bytes);
          client.close();
        },
      ),
      { seed, numRuns: runs },
    );
    await expectServed();
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
      const client = await RawClient.open(port);
      await client.write(
        `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`,
      );
      expect((await client.reply())?.status).toBe(400);
      client.close();
    }
    await expectServed();
  });

  it('holds no memory for a thousand uploads that were given up', async () => {
    const abandon = async (): Promise<void> => {
      const client = await RawClient.open(port);
      await client.write(
        `POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 190000\r\n\r\n${'x'.repeat(100_000)}`,
      );
      client.close();
    };
    for (let count = 0; count < 200; count += 1) await abandon();
    const before = server.residentBytes();
    for (let count = 0; count < 1000; count += 1) await abandon();
    await expectServed();
    expect(server.residentBytes() - before).toBeLessThan(60_000_000);
  });

  it('stays within its memory while bombs are inflated', async () => {
    const bomb = gzipSync(Buffer.alloc(100_000_000));
    const request = requestBytes('POST', '/v2/models/add_sub/infer', bomb, {
      'Content-Encoding': 'gzip',
    });
    const before = server.residentBytes();
    for (let count = 0; count < 20; count += 1) expect(await send(request, 'POST')).toBe(400);
    expect(server.residentBytes() - before).toBeLessThan(60_000_000);
    await expectServed();
  });
});
