import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { internal, invalidArg, overloaded, unavailable, unsupported } from '../../src/errors.js';
import { echo } from './fake-inference-server.js';
import { binaryRequest, echoed, errorOf, inferBody } from './infer-bodies.js';
import { RunningHttpServer, requestBytes } from './running-http-server.js';

const json = 'application/json';
const text = 'text/plain';

describe.each(['uws', 'node'] as const)('infer on %s', (transport) => {
  let front: RunningHttpServer;

  beforeAll(async () => {
    front = await RunningHttpServer.start({ transport, headerForwardPattern: /x-fwd-.*/i });
  });
  afterAll(() => front.stop());

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

  it('tells a client that was turned away when to come back', async () => {
    front.server.refusal = overloaded('too much at once', 7);
    const reply = await front.ask('POST', '/v2/models/refusing/infer', inferBody);
    expect([reply.status, reply.headers.get('retry-after')]).toEqual([503, '7']);
    front.server.refusal = unavailable('not ready');
    const other = await front.ask('POST', '/v2/models/refusing/infer', inferBody);
    expect(other.headers.has('retry-after')).toBe(false);
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
