import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { internal, overloaded } from '../../src/errors.js';
import { fp32, response } from './fake-inference-server.js';
import { errorOf } from './infer-bodies.js';
import { RunningHttpServer, requestBytes } from './running-http-server.js';

describe.each(['uws', 'node'] as const)('generate on %s', (transport) => {
  let front: RunningHttpServer;

  beforeAll(async () => {
    front = await RunningHttpServer.start({ transport });
  });
  afterAll(() => front.stop());

  it('answers one response as one object with sorted keys', async () => {
    const reply = await front.ask('POST', '/v2/models/echo/generate', '{"X":[1,2],"id":"i","a":1}');
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
    front.server.refusal = overloaded('full', 3);
    const refused = await front.ask('POST', '/v2/models/refusing/generate', '{"X":[1]}');
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '3']);
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
