import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { internal, invalidArg, unavailable, unsupported } from '../../src/errors.js';
import { echo, fp32, response } from './fake-inference-server.js';
import type { WireReply } from './raw-client.js';
import { RunningHttpServer, requestBytes } from './running-http-server.js';

const json = 'application/json';
const text = 'text/plain';
const inferBody = '{"inputs":[{"name":"X","datatype":"FP32","shape":[2],"data":[1,2.5]}]}';
const echoed =
  '{"model_name":"echo","model_version":"1","outputs":[{"name":"X","datatype":"FP32","shape":[2],"data":[1.0,2.5]}]}';
const notFoundText = '{"error":"Not Found"}';
const notAllowed = '{"error":"Method Not Allowed"}';

function errorOf(reply: WireReply): unknown {
  return JSON.parse(reply.body.toString()).error;
}

/** JSON with a binary section of the FP32 values behind it. */
function binaryRequest(values: readonly number[]): {
  body: Buffer;
  headers: Record<string, string>;
} {
  const data = Buffer.from(new Float32Array(values).buffer);
  const head = Buffer.from(
    `{"inputs":[{"name":"X","datatype":"FP32","shape":[${values.length}],"parameters":{"binary_data_size":${data.length}}}],"parameters":{"binary_data_output":true}}`,
  );
  return {
    body: Buffer.concat([head, data]),
    headers: { 'Inference-Header-Content-Length': String(head.length) },
  };
}

describe.each(['uws', 'node'] as const)('the HTTP front end on %s', (transport) => {
  let front: RunningHttpServer;
  const shmDirectory = mkdtempSync(join(tmpdir(), 'shm-'));

  beforeAll(async () => {
    front = await RunningHttpServer.start(
      { transport, headerForwardPattern: /x-fwd-.*/i },
      shmDirectory,
    );
  });
  afterAll(() => {
    front.stop();
    rmSync(shmDirectory, { recursive: true });
  });

  it.each([
    ['GET', '/v2/health/live', 200, text, ''],
    ['GET', '/v2/health/ready', 200, text, ''],
    ['GET', '/v2/health/ready?x=1', 200, text, ''],
    ['GET', '/v2/health', 404, text, notFoundText],
    ['GET', '/', 404, text, notFoundText],
    ['GET', '/v2/', 404, text, notFoundText],
    ['GET', '//v2', 404, text, notFoundText],
    ['GET', '/V2', 404, text, notFoundText],
    ['GET', '/v2', 200, json, '{"name":"fake","version":"0","extensions":["classification"]}'],
    ['POST', '/v2', 405, json, notAllowed],
    ['POST', '/v2/health/live', 405, text, notAllowed],
    ['OPTIONS', '/v2/health/ready', 405, text, notAllowed],
    ['HEAD', '/v2/repository/index', 405, json, ''],
    ['GET', '/v2/repository/index', 405, json, notAllowed],
    ['GET', '/v2/models', 404, text, notFoundText],
    ['GET', '/metrics', 404, text, notFoundText],
    ['GET', '/v2/models/echo/infer', 405, text, notAllowed],
    ['PATCH', '/v2/models/echo/infer', 405, text, notAllowed],
    ['GET', '/v2/models/echo/generate', 405, json, notAllowed],
    ['DELETE', '/v2/models/echo', 405, json, notAllowed],
    ['GET', '/v2/models/echo/ready', 200, text, ''],
    ['GET', '/v2/models/echo/versions/01/ready', 200, text, ''],
    ['GET', '/v2/models/echo/versions/2/ready', 400, text, '{"error":"Model version not ready"}'],
    ['GET', '/v2/models/nope/ready', 400, text, '{"error":"Model version not ready"}'],
    ['GET', '/v2/models/echo/versions/abc/ready', 404, text, notFoundText],
    ['GET', '/v2/models/echo/versions/-1/ready', 404, text, notFoundText],
    ['GET', '/v2/models/echo/versions//ready', 404, text, notFoundText],
    ['GET', '/v2/models/echo/', 404, text, notFoundText],
    [
      'GET',
      '/v2/models/echo',
      200,
      json,
      '{"name":"echo","versions":["1"],"platform":"p","inputs":[],"outputs":[]}',
    ],
    [
      'GET',
      '/v2/models/nope',
      404,
      json,
      `{"error":"Request for unknown model: 'nope' is not found"}`,
    ],
    ['GET', '/v2/models/stats', 200, json, '{"model_stats":[]}'],
    ['GET', '/v2/systemsharedmemory/status', 200, json, '[]'],
    ['GET', '/v2/cudasharedmemory/status', 200, json, '[]'],
    ['POST', '/v2/cudasharedmemory/unregister', 200, json, ''],
    ['GET', '/v2/models/../models/echo', 404, text, notFoundText],
    [
      'GET',
      '/v2/models/echo#x',
      404,
      json,
      `{"error":"Request for unknown model: 'echo#x' is not found"}`,
    ],
  ])('answers %s %s with %i', async (method, path, status, type, body) => {
    const reply = await front.ask(method, path);
    expect([reply.status, reply.headers.get('content-type'), reply.body.toString()]).toEqual([
      status,
      type,
      body,
    ]);
  });

  it('calls 405 as the reference server does', async () => {
    expect((await front.ask('PUT', '/v2')).reason).toBe('Not Allowed');
  });

  it('refuses a version beyond 64 bits, and takes the greatest one', async () => {
    const beyond = await front.ask('GET', '/v2/models/echo/versions/9223372036854775808/config');
    expect(beyond.status).toBe(400);
    expect(errorOf(beyond)).toBe(
      "failed to get model version from specified version string '9223372036854775808' (details: stol), version should be an integral value > 0",
    );
    const greatest = await front.ask('GET', '/v2/models/echo/versions/9223372036854775807/config');
    expect(greatest.status).toBe(404);
    expect(errorOf(greatest)).toBe(
      "Request for unknown model: 'echo' version 9223372036854775807 is not found",
    );
  });

  it('decodes a model name once', async () => {
    expect((await front.ask('GET', '/v2/models/mod%C3%A8le/ready')).status).toBe(200);
    expect(
      (await front.ask('GET', Buffer.from('/v2/models/modèle/ready').toString('latin1'))).status,
    ).toBe(400);
    const twice = await front.ask('GET', '/v2/models/%2565cho');
    expect(errorOf(twice)).toBe("Request for unknown model: '%65cho' is not found");
  });

  it.each(['a%2Fb', '%2e%2e', '..', '%00', 'a%5Cb', '%ZZ', '%C3', 'a%0Ab', '%7f'])(
    'refuses the model name %s',
    async (name) => {
      for (const path of [`/v2/models/${name}/config`, `/v2/repository/models/${name}/load`]) {
        const reply = await front.ask(path.endsWith('load') ? 'POST' : 'GET', path);
        expect(reply.status).toBe(400);
        expect(errorOf(reply)).toContain('model name');
      }
    },
  );

  it('tells a server that is ending from one that is not ready', async () => {
    front.server.isReadyNow = false;
    expect((await front.ask('GET', '/v2/health/ready')).status).toBe(400);
    expect((await front.ask('GET', '/v2/health/live')).status).toBe(200);
    front.server.isLiveNow = false;
    const ending = await front.ask('GET', '/v2/health/live');
    expect([ending.status, errorOf(ending)]).toEqual([503, 'Server exiting']);
    front.server.isReadyNow = true;
    front.server.isLiveNow = true;
  });

  describe('infer', () => {
    const path = '/v2/models/echo/infer';

    it('answers JSON with JSON', async () => {
      const reply = await front.ask('POST', path, inferBody);
      expect(reply.status).toBe(200);
      expect(reply.headers.get('content-type')).toBe(json);
      expect(reply.headers.has('inference-header-content-length')).toBe(false);
      expect(reply.body.toString()).toBe(echoed);
    });

    it.each([1, 4, 20_000])('answers %i binary values with the same bytes', async (count) => {
      const values = Array.from({ length: count }, (_item, index) => index / 4);
      const { body, headers } = binaryRequest(values);
      const reply = await front.ask('POST', path, body, headers);
      expect(reply.status).toBe(200);
      expect(reply.headers.get('content-type')).toBe('application/octet-stream');
      const length = Number(reply.headers.get('inference-header-content-length'));
      expect(JSON.parse(reply.body.toString('utf8', 0, length)).outputs[0].parameters).toEqual({
        binary_data_size: count * 4,
      });
      expect(reply.body.subarray(length)).toEqual(Buffer.from(new Float32Array(values).buffer));
    });

    it.each([
      ['0', undefined],
      ['abc', undefined],
      ['', undefined],
    ])('takes a body behind a header length of "%s" as one raw tensor', async (length) => {
      const headers = {
        'Inference-Header-Content-Length': length,
        'Content-Type': 'application/octet-stream',
      };
      const reply = await front.ask('POST', path, new Uint8Array(8), headers);
      expect(reply.status).toBe(200);
      expect(reply.body.toString('latin1')).toContain('"shape":[2]');
    });

    it.each(['-1', '9999', '99999999999999999999'])(
      'refuses a header length of %s',
      async (length) => {
        const headers = { 'Inference-Header-Content-Length': length };
        const reply = await front.ask('POST', path, '{}', headers);
        expect([reply.status, reply.headers.get('content-type')]).toEqual([400, text]);
        expect(errorOf(reply)).toBe(
          `inference header size should be in range (0, 2), got: ${length}`,
        );
      },
    );

    it('looks for the model before the body', async () => {
      const reply = await front.ask('POST', '/v2/models/nope/infer', '{');
      expect([reply.status, reply.headers.get('content-type')]).toEqual([404, text]);
    });

    it('refuses decoupled models', async () => {
      const reply = await front.ask('POST', '/v2/models/stream/infer', inferBody);
      expect([reply.status, reply.headers.get('content-type'), errorOf(reply)]).toEqual([
        501,
        text,
        "HTTP end point doesn't support models with decoupled transaction policy",
      ]);
    });

    it('stays in step after an answer that came before the body', async () => {
      const client = await front.open();
      await client.write(requestBytes('POST', '/v2/models/nope/infer', 'x'.repeat(50_000)));
      await client.write(requestBytes('POST', path, inferBody));
      expect((await client.reply())?.status).toBe(404);
      expect((await client.reply())?.body.toString()).toBe(echoed);
      client.close();
    });

    it('answers errors of the body as JSON and of the model as text', async () => {
      const bad = await front.ask('POST', path, '{');
      expect([bad.status, bad.headers.get('content-type')]).toEqual([400, json]);
      const pending = front.ask('POST', '/v2/models/held/infer', inferBody);
      (await front.server.nextHeld()).handler.fail(internal('the model failed'));
      const failed = await pending;
      expect([failed.status, failed.headers.get('content-type'), errorOf(failed)]).toEqual([
        500,
        text,
        'the model failed',
      ]);
    });

    it.each([
      [invalidArg('a'), 400],
      [unavailable('b'), 503],
      [unsupported('c'), 501],
    ])('answers what a full queue or a check says: %s', async (error, status) => {
      front.server.refusal = error;
      const reply = await front.ask('POST', '/v2/models/refusing/infer', inferBody);
      expect([reply.status, errorOf(reply)]).toEqual([status, error.message]);
    });

    it.each([0, 2])('does not answer %i responses as one', async (count) => {
      const pending = front.ask('POST', '/v2/models/held/infer', inferBody);
      const held = await front.server.nextHeld();
      for (let index = 0; index < count; index += 1) held.handler.respond(echo(held.request));
      held.handler.complete();
      const reply = await pending;
      expect([reply.status, errorOf(reply)]).toEqual([
        500,
        `expected a single response, got ${count}`,
      ]);
    });

    it('cancels a request whose client hangs up', async () => {
      const client = await front.open();
      await client.write(requestBytes('POST', '/v2/models/held/infer', inferBody));
      const held = await front.server.nextHeld();
      client.close();
      await front.server.told(held, 'cancel');
      held.handler.respond(echo(held.request));
      held.handler.complete();
      expect((await front.ask('POST', path, inferBody)).status).toBe(200);
    });

    it('makes parameters of the headers that match, and refuses reserved ones', async () => {
      const reply = await front.ask('POST', path, inferBody, {
        'X-Fwd-Who': 'me',
        'X-Other': 'no',
      });
      expect(JSON.parse(reply.body.toString()).parameters).toEqual({ 'x-fwd-who': 'me' });
    });

    it('reports classes with their labels', async () => {
      const body = inferBody.replace(
        ']}]}',
        ']}],"outputs":[{"name":"X","parameters":{"classification":1}}]}',
      );
      const reply = await front.ask('POST', path, body);
      expect(JSON.parse(reply.body.toString()).outputs[0].data).toEqual(['2.500000:1:dog']);
    });
  });

  describe('compression', () => {
    const path = '/v2/models/echo/infer';
    const large = `{"inputs":[{"name":"X","datatype":"FP32","shape":[3000],"data":[${'1.5,'.repeat(2999)}1.5]}]}`;

    it.each([
      ['gzip', gzipSync],
      ['deflate', deflateSync],
    ] as const)('reads a %s body', async (encoding, compress) => {
      for (const body of [inferBody, large]) {
        const reply = await front.ask('POST', path, compress(body), {
          'Content-Encoding': encoding,
        });
        expect(reply.status).toBe(200);
      }
    });

    it('counts the uncompressed bytes of the JSON part', async () => {
      const { body, headers } = binaryRequest([1, 2]);
      const reply = await front.ask('POST', path, gzipSync(body), {
        ...headers,
        'Content-Encoding': 'gzip',
        'Accept-Encoding': 'deflate',
      });
      expect(reply.headers.get('content-encoding')).toBe('deflate');
      const length = Number(reply.headers.get('inference-header-content-length'));
      const inflated = inflateSync(reply.body);
      expect(inflated.byteLength - length).toBe(8);
      JSON.parse(inflated.toString('utf8', 0, length));
    });

    it.each([
      ['gzip', 'gzip'],
      ['gzip, deflate, br', 'gzip'],
      ['deflate, gzip', 'deflate'],
      ['gzip;q=0.5, deflate;q=0.9', 'deflate'],
      ['gzip;q=1.0, identity; q=0.5, *;q=0', 'gzip'],
      ['gzip;q=0', undefined],
      ['identity, gzip', undefined],
      ['br', undefined],
      ['*', undefined],
    ])('answers Accept-Encoding: %s with %s', async (accepted, encoding) => {
      const reply = await front.ask('POST', path, inferBody, { 'Accept-Encoding': accepted });
      expect(reply.headers.get('content-encoding')).toBe(encoding);
      const body =
        encoding === 'gzip'
          ? gunzipSync(reply.body)
          : encoding === 'deflate'
            ? inflateSync(reply.body)
            : reply.body;
      expect(body.toString()).toBe(echoed);
    });

    it('compresses a large answer off the event loop', async () => {
      const reply = await front.ask('POST', path, large, { 'Accept-Encoding': 'gzip' });
      expect(JSON.parse(gunzipSync(reply.body).toString()).outputs[0].data).toHaveLength(3000);
    });

    it('compresses neither errors nor metadata', async () => {
      const accepted = { 'Accept-Encoding': 'gzip' };
      expect((await front.ask('POST', path, '{', accepted)).headers.has('content-encoding')).toBe(
        false,
      );
      expect((await front.ask('GET', '/v2', '', accepted)).headers.has('content-encoding')).toBe(
        false,
      );
    });

    it.each(['GZIP', 'x-gzip', 'gzip, identity', 'br', 'zstd'])(
      'refuses the encoding %s and names those it has',
      async (encoding) => {
        const reply = await front.ask('POST', path, inferBody, { 'Content-Encoding': encoding });
        expect([reply.status, errorOf(reply), reply.headers.get('accept-encoding')]).toEqual([
          501,
          'Unsupported compression type',
          'gzip, deflate',
        ]);
      },
    );

    it('stops inflating at the limit, whatever a body expands to', async () => {
      const bomb = gzipSync(Buffer.alloc(50_000_000));
      const reply = await front.ask('POST', path, bomb, { 'Content-Encoding': 'gzip' });
      expect([reply.status, errorOf(reply)]).toEqual([
        400,
        'Decompressed data size exceeds the maximum allowed value of 100000 bytes. Use --http-max-input-size to increase the limit.',
      ]);
    });

    it('refuses a body that is not in its encoding', async () => {
      const reply = await front.ask('POST', path, 'not gzip', { 'Content-Encoding': 'gzip' });
      expect([reply.status, errorOf(reply)]).toEqual([400, 'the request body is not gzip data']);
    });
  });

  describe('limits', () => {
    const path = '/v2/models/echo/infer';

    it('refuses a JSON body over the limit with the reference text and closes', async () => {
      const client = await front.open();
      await client.write(requestBytes('POST', path, ' '.repeat(100_001)));
      const reply = await client.reply();
      expect(reply?.status).toBe(400);
      expect(reply === undefined ? '' : errorOf(reply)).toBe(
        'request JSON size of 100001 bytes exceeds the maximum allowed input size of 100000 bytes. Use --http-max-input-size to increase the limit.',
      );
      await client.closed();
    });

    it.each(['infer', 'generate'])('survives 250,000 open brackets in %s', async (action) => {
      for (const body of ['['.repeat(99_000), `{"inputs":${'['.repeat(99_000)}`]) {
        const reply = await front.ask('POST', `/v2/models/echo/${action}`, body);
        expect(reply.status).toBe(400);
      }
    });
  });

  describe('generate', () => {
    it('answers one response as one object with sorted keys', async () => {
      const reply = await front.ask(
        'POST',
        '/v2/models/echo/generate',
        '{"X":[1,2],"id":"i","a":1}',
      );
      expect([reply.status, reply.body.toString()]).toEqual([
        200,
        '{"X":[1.0,2.0],"a":1,"id":"i","model_name":"echo","model_version":"1"}',
      ]);
    });

    it.each(['1.5', '[1.5]', ' 1.5 '])('takes %s for a tensor of one element', async (value) => {
      const reply = await front.ask('POST', '/v2/models/echo/generate', `{"X":${value}}`);
      expect([reply.status, reply.body.toString()]).toEqual([
        200,
        '{"X":1.5,"model_name":"echo","model_version":"1"}',
      ]);
    });

    it.each([0, 2])('says that %i responses are not one', async (count) => {
      const pending = front.ask('POST', '/v2/models/stream/generate', '{"X":[1]}');
      const { handler } = await front.server.nextHeld();
      for (let index = 0; index < count; index += 1) handler.respond(response([fp32('X', [1])]));
      handler.complete();
      const reply = await pending;
      expect(reply.status).toBe(200);
      expect(errorOf(reply)).toMatch(/^generate expects model to produce exactly 1 response/);
    });

    it('answers errors of the model with 400, of a check with their own status', async () => {
      const pending = front.ask('POST', '/v2/models/held/generate', '{"X":[1]}');
      (await front.server.nextHeld()).handler.fail(internal('the model failed'));
      const failed = await pending;
      expect([failed.status, errorOf(failed)]).toEqual([400, 'the model failed']);
      front.server.refusal = unavailable('full');
      expect((await front.ask('POST', '/v2/models/refusing/generate', '{"X":[1]}')).status).toBe(
        503,
      );
    });

    it('refuses compressed bodies', async () => {
      const encoded = { 'Content-Encoding': 'gzip' };
      const body = gzipSync('{"X":[1]}');
      expect((await front.ask('POST', '/v2/models/echo/generate', body, encoded)).status).toBe(400);
    });

    it('streams each response as an event', async () => {
      const pending = front.ask('POST', '/v2/models/stream/generate_stream', '{"X":[1]}');
      const { handler } = await front.server.nextHeld();
      handler.respond(response([fp32('X', [1])]));
      handler.respond(response([fp32('X', [2])]));
      handler.fail(internal('mid-stream error'));
      const reply = await pending;
      expect([reply.status, reply.headers.get('content-type')]).toEqual([
        200,
        'text/event-stream; charset=utf-8',
      ]);
      expect(reply.body.toString()).toBe(
        'data: {"X":1.0,"model_name":"m","model_version":"1"}\n\n' +
          'data: {"X":2.0,"model_name":"m","model_version":"1"}\n\n' +
          'data: {"error":"mid-stream error"}\n\n',
      );
    });

    it('streams nothing where there is nothing, and an early error with 400', async () => {
      const empty = front.ask('POST', '/v2/models/stream/generate_stream', '{"X":[1]}');
      (await front.server.nextHeld()).handler.complete();
      expect([(await empty).status, (await empty).body.toString()]).toEqual([200, '']);
      const early = front.ask('POST', '/v2/models/stream/generate_stream', '{"X":[1]}');
      (await front.server.nextHeld()).handler.fail(internal('no'));
      expect([(await early).status, (await early).body.toString()]).toEqual([
        400,
        'data: {"error":"no"}\n\n',
      ]);
    });

    it('holds the model back while the reader is slow, and stops it when the reader is gone', async () => {
      const client = await front.open();
      client.pause();
      await client.write(requestBytes('POST', '/v2/models/stream/generate_stream', '{"X":[1]}'));
      const held = await front.server.nextHeld();
      const event = response([
        fp32(
          'X',
          Array.from({ length: 20_000 }, () => 0.125),
        ),
      ]);
      const isPaused = (): boolean => held.events.at(-1) === 'pause';
      // What a well-behaved model sends: far more than socket buffers take, never while paused.
      let roundsPaused = 0;
      for (let sent = 0; sent < 500 && roundsPaused < 20; ) {
        roundsPaused = isPaused() ? roundsPaused + 1 : 0;
        if (!isPaused()) {
          held.handler.respond(event);
          sent += 1;
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(isPaused()).toBe(true);
      client.resume();
      while (isPaused()) await new Promise((resolve) => setImmediate(resolve));
      client.close();
      await front.server.told(held, 'cancel');
      held.handler.fail(internal('cancelled'));
    });
  });

  describe('the model repository', () => {
    it.each([
      ['', 2],
      ['{}', 2],
      ['[]', 2],
      ['{"ready":true}', 1],
      ['{"ready":false}', 2],
    ])('lists models for the body %s', async (body, count) => {
      const reply = await front.ask('POST', '/v2/repository/index', body);
      expect(JSON.parse(reply.body.toString())).toHaveLength(count);
    });

    it('lists models for a client that sends no length', async () => {
      const client = await front.open();
      await client.write('POST /v2/repository/index HTTP/1.1\r\nHost: a\r\n\r\n');
      expect((await client.reply())?.status).toBe(200);
      client.close();
    });

    it('hands load and unload over with what they say', async () => {
      const load = '{"parameters":{"config":"{}","file:1/model.py":"eHl6"}}';
      expect((await front.ask('POST', '/v2/repository/models/a/load', load)).status).toBe(200);
      const unload = '{"parameters":{"unload_dependents":true}}';
      expect((await front.ask('POST', '/v2/repository/models/a/unload', unload)).status).toBe(200);
      expect((await front.ask('POST', '/v2/repository/models/a/unload', '{')).status).toBe(200);
      expect(front.server.calls.splice(0).filter((call) => !call.startsWith('stat'))).toEqual([
        'load a {} 1/model.py=3',
        'unload a true',
        'unload a false',
      ]);
    });

    it.each([
      ['/v2/repository/models/bad/load', '', 404, 'no bad model'],
      ['/v2/repository/models/a/load', '{"parameters":{"config":1}}', 400, 'non-string'],
      ['/v2/repository/r/models/a/load', '', 501, "'repository_name' specification"],
      ['/v2/repository/index', '{"ready":"true"}', 400, 'non-boolean'],
      ['/v2/repository/index', '{', 400, 'failed to parse the request JSON buffer'],
    ])('answers %s %s with %i', async (path, body, status, message) => {
      const reply = await front.ask('POST', path, body);
      expect(reply.status).toBe(status);
      expect(errorOf(reply)).toContain(message);
    });
  });

  describe('shared memory', () => {
    const register = '/v2/systemsharedmemory/region/r/register';

    it('registers, lists, reads, writes and unregisters a region', async () => {
      writeFileSync(join(shmDirectory, 'k'), Buffer.from(new Float32Array([3, 4, 0, 0]).buffer));
      const registered = await front.ask('POST', register, '{"key":"/k","byte_size":16}');
      expect([registered.status, registered.body.toString()]).toEqual([200, '']);
      const listed = await front.ask('GET', '/v2/systemsharedmemory/region/r/status');
      expect(listed.body.toString()).toBe('[{"name":"r","key":"/k","offset":0,"byte_size":16}]');
      const body = JSON.stringify({
        inputs: [
          {
            name: 'X',
            datatype: 'FP32',
            shape: [2],
            parameters: { shared_memory_region: 'r', shared_memory_byte_size: 8 },
          },
        ],
        outputs: [
          {
            name: 'X',
            parameters: {
              shared_memory_region: 'r',
              shared_memory_offset: 8,
              shared_memory_byte_size: 8,
            },
          },
        ],
      });
      const reply = await front.ask('POST', '/v2/models/echo/infer', body);
      expect(reply.status).toBe(200);
      expect([...new Float32Array(front.regions.read('r', 0, 16).slice().buffer)]).toEqual([
        3, 4, 3, 4,
      ]);
      expect((await front.ask('POST', '/v2/systemsharedmemory/unregister')).status).toBe(200);
      const gone = await front.ask('POST', '/v2/models/echo/infer', body);
      expect([gone.status, gone.headers.get('content-type'), errorOf(gone)]).toEqual([
        404,
        json,
        "Unable to find shared memory region: 'r'",
      ]);
    });

    it('writes to the region that a request named, not to one of its name made later', async () => {
      writeFileSync(join(shmDirectory, 'old'), Buffer.alloc(8));
      writeFileSync(join(shmDirectory, 'new'), Buffer.alloc(8));
      await front.ask('POST', register, '{"key":"old","byte_size":8}');
      const body = JSON.stringify({
        inputs: [{ name: 'X', datatype: 'FP32', shape: [2], data: [5, 6] }],
        outputs: [
          { name: 'X', parameters: { shared_memory_region: 'r', shared_memory_byte_size: 8 } },
        ],
      });
      const pending = front.ask('POST', '/v2/models/held/infer', body);
      const held = await front.server.nextHeld();
      await front.ask('POST', '/v2/systemsharedmemory/region/r/unregister');
      await front.ask('POST', register, '{"key":"new","byte_size":8}');
      held.handler.respond(echo(held.request));
      held.handler.complete();
      expect((await pending).status).toBe(200);
      expect([...front.regions.read('r', 0, 8)]).toEqual(Array(8).fill(0));
      await front.ask('POST', '/v2/systemsharedmemory/unregister');
    });

    it.each([
      ['{"byte_size":8}', 400, "Shared memory register request has no 'key' field"],
      ['{"key":"k"}', 400, "Shared memory register request has no 'byte_size' field"],
      ['{"key":"/none","byte_size":8}', 500, "Unable to open shared memory region: '/none'"],
      ['{"key":"/k","byte_size":17}', 500, "Invalid shared memory region: '/k'"],
      [
        '{"key":"/k","byte_size":8,"offset":18446744073709551615}',
        500,
        "Invalid shared memory region: '/k'",
      ],
      [
        '{"key":"/k","byte_size":0}',
        400,
        "failed to register shared memory region 'r': invalid args",
      ],
      [
        '{"key":"/","byte_size":8}',
        400,
        "cannot register shared memory region 'r' - invalid shm key '/'",
      ],
      [
        '{"key":"../k","byte_size":8}',
        400,
        "failed to register shared memory region 'r': invalid args",
      ],
      [
        '{"key":"..","byte_size":8}',
        400,
        "failed to register shared memory region 'r': invalid args",
      ],
      [
        '{"key":"a/b","byte_size":8}',
        400,
        "failed to register shared memory region 'r': invalid args",
      ],
      ['{"key":"/link","byte_size":8}', 500, "Unable to open shared memory region: '/link'"],
      [
        '{"key":"//triton_python_backend_shm_region_1","byte_size":8}',
        400,
        "failed to register shared memory region 'r': invalid args",
      ],
    ])('refuses to register %s', async (body, status, message) => {
      writeFileSync(join(shmDirectory, 'k'), Buffer.alloc(16));
      rmSync(join(shmDirectory, 'link'), { force: true });
      symlinkSync('k', join(shmDirectory, 'link'));
      const reply = await front.ask('POST', register, body);
      expect([reply.status, errorOf(reply)]).toEqual([status, message]);
    });

    it('refuses CUDA regions', async () => {
      const reply = await front.ask('POST', '/v2/cudasharedmemory/region/g/register', '{}');
      expect([reply.status, errorOf(reply)]).toEqual([
        400,
        "failed to register CUDA shared memory region: 'g', GPUs not supported",
      ]);
    });
  });

  describe('settings', () => {
    it('shows and changes log settings', async () => {
      const reply = await front.ask(
        'POST',
        '/v2/logging',
        '{"log_verbose_level":2,"log_info":null,"x":1}',
      );
      const shown =
        '{"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":2,"log_format":"default"}';
      expect(reply.body.toString()).toBe(shown);
      expect((await front.ask('GET', '/v2/logging')).body.toString()).toBe(shown);
    });

    it.each([
      ['/v2/logging', '', 400, 'failed to parse'],
      ['/v2/logging', '{"log_file":"/x"}', 501, 'log file location can not be updated'],
      ['/v2/logging', '{"log_format":"x"}', 503, 'invalid argument for --log_format, got: x'],
      ['/v2/trace/setting', '{"trace_file":"/x"}', 501, 'trace file location can not be updated'],
      ['/v2/trace/setting', '{"trace_rate":"0"}', 400, 'sample rate must be non-zero'],
      ['/v2/trace/setting', '{"trace_rate":"x"}', 400, "Unable to parse 'trace_rate', got: x"],
      ['/v2/trace/setting', '{"trace_count":"-2"}', 400, "Unable to parse 'trace_count', got: -2"],
      [
        '/v2/trace/setting',
        '{"trace_level":["OFF","TENSORS"]}',
        400,
        "Expect only one trace level 'OFF'",
      ],
      ['/v2/models/nope/trace/setting', '{}', 404, 'unknown model'],
    ])('refuses %s %s with %i', async (path, body, status, message) => {
      const reply = await front.ask('POST', path, body);
      expect(reply.status).toBe(status);
      expect(errorOf(reply)).toContain(message);
    });

    it('lets a model follow the trace settings of all models until it has its own', async () => {
      const model = '/v2/models/echo/trace/setting';
      const rate = async (path: string): Promise<string> =>
        JSON.parse((await front.ask('GET', path)).body.toString()).trace_rate;
      expect((await front.ask('GET', '/v2/trace/setting')).body.toString()).toBe(
        '{"trace_level":["OFF"],"trace_rate":"1000","trace_count":"-1","log_frequency":"0","trace_file":"","trace_mode":"triton"}',
      );
      await front.ask('POST', '/v2/trace/setting', '{"trace_rate":"5"}');
      expect(await rate(model)).toBe('5');
      await front.ask('POST', model, '{"trace_rate":"7"}');
      await front.ask('POST', '/v2/trace/setting', '{"trace_rate":"6"}');
      expect([await rate(model), await rate('/v2/trace/setting')]).toEqual(['7', '6']);
      await front.ask('POST', model, '{"trace_rate":null}');
      expect(await rate(model)).toBe('6');
      await front.ask('POST', '/v2/trace/setting', '{"trace_rate":null}');
      expect(await rate(model)).toBe('1000');
    });
  });

  describe('with options', () => {
    it('refuses shared memory where it is off, and still tells its status', async () => {
      const other = await RunningHttpServer.start({ transport });
      const off =
        "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
      for (const action of ['register', 'unregister']) {
        const body = '{"key":"k","byte_size":8}';
        const reply = await other.ask('POST', `/v2/systemsharedmemory/region/r/${action}`, body);
        expect([reply.status, errorOf(reply)]).toEqual([501, off]);
      }
      expect((await other.ask('GET', '/v2/systemsharedmemory/status')).status).toBe(200);
      other.stop();
    });

    it('adds routes of its own and metrics', async () => {
      const options = { transport, hasExtraRoutes: true, isMetricsAllowed: true };
      const other = await RunningHttpServer.start(options);
      expect((await other.ask('GET', '/v2/models')).body.toString()).toBe('{"models":["echo"]}');
      expect(
        JSON.parse((await other.ask('GET', '/v2/repository/index')).body.toString()),
      ).toHaveLength(2);
      const metrics = await other.ask('GET', '/metrics');
      expect([metrics.body.toString(), metrics.headers.get('content-type')]).toEqual([
        'up 1\n',
        'text/plain; charset=utf-8',
      ]);
      expect((await other.ask('POST', '/metrics')).status).toBe(405);
      other.stop();
    });

    it.each([
      ['POST', '/v2/models/echo/infer'],
      ['GET', '/v2/models/echo/infer'],
      ['HEAD', '/v2/models/echo/versions/1/infer'],
      ['PUT', '/v2/models/nope/generate'],
      ['POST', '/v2/models/echo/generate_stream'],
    ])('lets %s %s pass only with the right header', async (method, path) => {
      const restrictions = new Map([
        ['inference', { header: 'Infer-Key', value: 'secret' }],
      ] as const);
      const other = await RunningHttpServer.start({ transport, restrictions });
      const body = method === 'POST' ? inferBody : '';
      for (const key of [undefined, '', 'Secret', 'secret2', 'secre']) {
        const headers = key === undefined ? {} : { 'Infer-Key': key };
        const reply = await other.ask(method, path, body, headers);
        expect(reply.status).toBe(403);
        if (method !== 'HEAD') {
          expect(errorOf(reply)).toBe("This API is restricted, expecting header 'Infer-Key'");
        }
      }
      const right = await other.ask(method, path, body, { 'iNFER-kEY': 'secret' });
      expect(right.status).not.toBe(403);
      const client = await other.open();
      await client.write(
        `${method} ${path} HTTP/1.1\r\nHost: a\r\nInfer-Key: secret\r\nInfer-Key: wrong\r\n\r\n`,
      );
      expect((await client.reply(method))?.status).toBe(403);
      client.close();
      expect((await other.ask('GET', '/v2/health/ready')).status).toBe(200);
      other.stop();
    });

    it.each([
      '/v2/models/echo/infer/',
      '//v2/models/echo/infer',
      '/v2/models/echo/%69nfer',
      '/V2/models/echo/infer',
    ])('has no way around a restriction by %s', async (path) => {
      const restrictions = new Map([['inference', { header: 'k', value: 'v' }]] as const);
      const other = await RunningHttpServer.start({ transport, restrictions });
      expect((await other.ask('POST', path, inferBody)).status).toBe(404);
      other.stop();
    });

    it('serves connections that were open when it began to drain, and takes no others', async () => {
      const other = await RunningHttpServer.start({ transport });
      const client = await other.open();
      await client.write(requestBytes('GET', '/v2/health/ready'));
      expect((await client.reply())?.status).toBe(200);
      let isDrained = false;
      const drained = other.http.drain().then(() => {
        isDrained = true;
      });
      await expect(other.open()).rejects.toThrow(/ECONNREFUSED/);
      await client.write(requestBytes('POST', '/v2/models/held/infer', inferBody));
      const held = await other.server.nextHeld();
      expect([other.http.inFlightRequests, other.http.connections, isDrained]).toEqual([
        1,
        1,
        false,
      ]);
      held.handler.respond(echo(held.request));
      held.handler.complete();
      expect((await client.reply())?.status).toBe(200);
      await client.write(requestBytes('POST', '/v2/models/echo/infer', inferBody));
      expect((await client.reply())?.status).toBe(200);
      client.close();
      await drained;
      expect(other.http.connections).toBe(0);
      other.stop();
    });

    it('ends open connections when it is destroyed', async () => {
      const other = await RunningHttpServer.start({ transport });
      const client = await other.open();
      await client.write(requestBytes('POST', '/v2/models/held/infer', inferBody));
      const held = await other.server.nextHeld();
      other.http.destroy();
      await client.closed();
      await other.server.told(held, 'cancel');
      expect(() => held.handler.fail(internal('late'))).not.toThrow();
    });

    it('refuses a port that is taken', async () => {
      await expect(RunningHttpServer.start({ transport, port: front.port })).rejects.toThrow(
        /cannot listen on 127\.0\.0\.1 port/,
      );
    });

    it('listens on IPv6', async () => {
      const other = await RunningHttpServer.start({ transport, address: '::1' });
      const { RawClient } = await import('./raw-client.js');
      const client = await RawClient.open(other.port, '::1');
      await client.write(requestBytes('GET', '/v2/health/live'));
      expect((await client.reply())?.status).toBe(200);
      client.close();
      other.stop();
    });
  });
});
