import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { internal } from '../../src/errors.js';
import { echo } from './fake-inference-server.js';
import { errorOf, inferBody } from './infer-bodies.js';
import { RunningHttpServer, requestBytes } from './running-http-server.js';

describe.each(['uws', 'node'] as const)('the options of the front end on %s', (transport) => {
  let front: RunningHttpServer;

  beforeAll(async () => {
    front = await RunningHttpServer.start({ transport });
  });
  afterAll(() => front.stop());

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
    expect([other.http.inFlightRequests, other.http.connections, isDrained]).toEqual([1, 1, false]);
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

  it('refuses a port that is taken, and says so', async () => {
    await expect(RunningHttpServer.start({ transport, port: front.port })).rejects.toThrow(
      /cannot listen on 127\.0\.0\.1 port \d+: .*EADDRINUSE/,
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
