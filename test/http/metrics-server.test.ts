import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createMetricsServer, type MetricsServer } from '../../src/http/metrics-server.js';
import { RawClient, type WireReply } from './raw-client.js';

describe('the metrics port', () => {
  const errors: string[] = [];
  let isBroken = false;
  let server: MetricsServer;
  let port = 0;

  beforeAll(async () => {
    const ignore = (): void => undefined;
    server = createMetricsServer(
      { address: '127.0.0.1', port: 0 },
      {
        contentType: 'text/plain; charset=utf-8',
        render: () =>
          isBroken ? Promise.reject(new Error('a detail')) : Promise.resolve('up 1\n'),
      },
      {
        error: (message) => errors.push(message),
        warning: ignore,
        info: ignore,
        verbose: ignore,
        isVerbose: () => false,
      },
    );
    ({ port } = await server.listen());
  });
  afterAll(() => server.destroy());

  async function ask(method: string, path: string): Promise<WireReply | undefined> {
    const client = await RawClient.open(port);
    await client.write(`${method} ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
    const reply = await client.reply(method);
    client.close();
    return reply;
  }

  it.each([
    ['GET', '/metrics', 200, 'text/plain; charset=utf-8', 'up 1\n'],
    ['GET', '/metrics?x=1', 200, 'text/plain; charset=utf-8', 'up 1\n'],
    ['POST', '/metrics', 405, 'text/plain', '{"error":"Method Not Allowed"}'],
    ['HEAD', '/metrics', 405, 'text/plain', ''],
    ['GET', '/', 404, 'text/plain', '{"error":"Not Found"}'],
    ['GET', '/v2/health/live', 404, 'text/plain', '{"error":"Not Found"}'],
  ])('answers %s %s with %i', async (method, path, status, type, body) => {
    const reply = await ask(method, path);
    expect([reply?.status, reply?.headers.get('content-type'), reply?.body.toString()]).toEqual([
      status,
      type,
      body,
    ]);
  });

  it('tells the log, and not the client, why metrics cannot be had', async () => {
    isBroken = true;
    const reply = await ask('GET', '/metrics');
    isBroken = false;
    expect([reply?.status, reply?.body.toString()]).toEqual([500, '{"error":"internal error"}']);
    expect(errors.join()).toContain('a detail');
  });
});
