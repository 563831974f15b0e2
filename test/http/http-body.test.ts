import { deflateSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { binaryRequest, echoed, errorOf, inferBody } from './infer-bodies.js';
import { RunningHttpServer, requestBytes } from './running-http-server.js';

describe.each(['uws', 'node'] as const)('bodies of infer requests on %s', (transport) => {
  let front: RunningHttpServer;

  beforeAll(async () => {
    front = await RunningHttpServer.start({ transport });
  });
  afterAll(() => front.stop());

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
});
