import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorOf } from './infer-bodies.js';
import { RunningHttpServer } from './running-http-server.js';

const json = 'application/json';
const text = 'text/plain';
const notFoundText = '{"error":"Not Found"}';
const notAllowed = '{"error":"Method Not Allowed"}';

describe.each(['uws', 'node'] as const)('the routes on %s', (transport) => {
  let front: RunningHttpServer;

  beforeAll(async () => {
    front = await RunningHttpServer.start({ transport });
  });
  afterAll(() => front.stop());

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
    // Node's parser takes no bytes beyond ASCII in a target.
    const raw = await front.ask('GET', '/v2/models/modèle/ready');
    expect(raw.status).toBe(transport === 'uws' ? 200 : 400);
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
});
