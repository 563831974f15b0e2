import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RawClient } from '../http/raw-client.js';
import { requestBytes } from '../http/running-http-server.js';
import {
  addSubBody,
  errorOf,
  floatsBody,
  ProtectedServer,
  secret,
  textBody,
} from './protected-server.js';

/*
 * What a request could do to a server, and must not: one test for each known weakness of servers of
 * this kind, against the compiled server on both carriers. `http-access.test.ts` has those of what a
 * client may reach.
 */

describe.each(['uws', 'node'])('a server on %s', (transport) => {
  let server: ProtectedServer;

  beforeAll(async () => {
    server = await ProtectedServer.start(transport);
  });
  afterAll(() => server.stop());

  describe('checks a request before anyone works on it:', () => {
    const wrongValues = [undefined, null, 1, -1, 1.5, 'x', true, [], {}, [[]], [null], ['x'], [-1]];

    it.each(['name', 'datatype', 'shape', 'data'])(
      'each wrong %s of an input is the fault of the client',
      async (member) => {
        for (const value of wrongValues) {
          const body = addSubBody(([first, second]) => [first, { ...second, [member]: value }]);
          const reply = await server.infer('add_sub', body);
          expect([body, reply.status]).toEqual([body, 400]);
          expect(errorOf(reply)).not.toBe('');
        }
        await server.expectServed();
      },
    );

    it('the tensor and the member are named', async () => {
      const body = addSubBody(([first, second]) => [first, { ...second, shape: ['a'] }]);
      const message = errorOf(await server.infer('add_sub', body));
      expect(message).toContain("'shape'");
      expect(message).toContain('INPUT1');
    });

    it('a binary tensor without the length of the JSON part is called that', async () => {
      const input = {
        name: 'X',
        datatype: 'FP32',
        shape: [1],
        parameters: { binary_data_size: 4 },
      };
      const body = Buffer.concat([
        Buffer.from(JSON.stringify({ inputs: [input] })),
        Buffer.alloc(4),
      ]);
      const reply = await server.infer('floats', body);
      expect(reply.status).toBe(400);
      const alone = await server.infer('floats', JSON.stringify({ inputs: [input] }));
      expect([alone.status, errorOf(alone)]).toEqual([
        400,
        expect.stringMatching(/expecting 4 additional bytes|Inference-Header-Content-Length/),
      ]);
    });

    it('strings are counted while they are read, in bytes', async () => {
      const both = await server.infer('text', textBody(['a', 'b']));
      expect([both.status, errorOf(both)]).toEqual([
        400,
        expect.stringContaining('unexpected number of string elements 2'),
      ]);
      const json = JSON.stringify({
        inputs: [{ name: 'A', datatype: 'BYTES', shape: [1], parameters: { binary_data_size: 7 } }],
      });
      const headers = { 'Inference-Header-Content-Length': String(json.length) };
      const path = '/v2/models/text/infer';
      const sized = (length: number, text: string): Buffer =>
        Buffer.concat([Buffer.from(json), Buffer.from([length, 0, 0, 0]), Buffer.from(text)]);
      // Two characters of three bytes together.
      expect((await server.ask('POST', path, sized(3, 'é!'), headers)).status).toBe(200);
      expect((await server.ask('POST', path, sized(2, 'é!'), headers)).status).toBe(400);
      expect((await server.ask('POST', path, sized(255, 'é!'), headers)).status).toBe(400);
    });

    it('data that is no array is said to have to be one', async () => {
      const reply = await server.infer('text', textBody('abc'));
      expect(reply.status).toBe(400);
      expect(errorOf(reply)).toContain('array');
    });

    it('a shape of more elements than there is data costs no memory', async () => {
      for (const shape of [[2 ** 31], [2 ** 32, 2 ** 31], [2 ** 62], Array(40).fill(1000)]) {
        const input = { name: 'X', datatype: 'FP32', shape, data: [1] };
        expect((await server.infer('floats', JSON.stringify({ inputs: [input] }))).status).toBe(
          400,
        );
      }
      await server.expectServed();
    });
  });

  it('writes values that are no numbers as the bare words the reference writes', async () => {
    const reply = await server.infer('special', floatsBody([0]));
    expect(reply.body.toString()).toContain('"data":[NaN,Infinity,-Infinity,1.0]');
    const outputs = [{ name: 'Y', parameters: { binary_data: true } }];
    const binary = await server.infer('special', floatsBody([0], { outputs }));
    const json = Number(binary.headers.get('inference-header-content-length'));
    expect(binary.body.subarray(json).toString('hex')).toBe('0000c07f0000807f000080ff0000803f');
  });

  it.each(['br', 'zstd', 'compress', 'gzip, br'])(
    'does not take a body in the encoding %s for JSON',
    async (encoding) => {
      const reply = await server.ask('POST', '/v2/models/add_sub/infer', addSubBody(), {
        'Content-Encoding': encoding,
      });
      expect([reply.status, reply.headers.get('accept-encoding')]).toEqual([501, 'gzip, deflate']);
    },
  );

  it('keeps a connection over a thousand requests, good and refused', async () => {
    const client = await RawClient.open(server.port);
    const requests: readonly (readonly [Uint8Array, number])[] = [
      [requestBytes('POST', '/v2/models/add_sub/infer', addSubBody()), 200],
      [requestBytes('POST', '/v2/models/add_sub/infer', '{'), 400],
      [requestBytes('POST', '/v2/models/nope/infer', addSubBody()), 404],
      [requestBytes('DELETE', '/v2/models/add_sub/infer'), 405],
      [requestBytes('POST', '/v2/models/failing/infer', floatsBody([1])), 500],
      [requestBytes('POST', '/v2/models/decoupled/infer', floatsBody([1])), 501],
      [requestBytes('GET', '/nope'), 404],
    ];
    for (let count = 0; count < 1000; count += 1) {
      const [bytes, status] = requests[count % requests.length] ?? [Buffer.alloc(0), 0];
      await client.write(bytes);
      expect((await client.reply())?.status).toBe(status);
    }
    client.close();
  });

  it.each(['-1', '0', '1.5', '+1', '0x1', '%31', '..', '', '18446744073709551616'])(
    'serves no model for the version "%s"',
    async (version) => {
      const reply = await server.ask('GET', `/v2/models/add_sub/versions/${version}/config`);
      expect([400, 404]).toContain(reply.status);
      expect(errorOf(reply)).not.toBe('');
    },
  );

  it.each([
    ['POST', '/v2/repository/models/add_sub/load/'],
    ['GET', '/v2/health/ready/'],
    ['POST', '/v2/models/add_sub/infer/'],
    ['POST', '/v2//models/add_sub/infer'],
    ['POST', '/v2/models/add%2Fsub/infer'],
    ['POST', '/v2/models/add_sub%/infer'],
  ])('says in JSON what is wrong with %s %s', async (method, path) => {
    const reply = await server.ask(method, path, method === 'POST' ? addSubBody() : '');
    expect([400, 404]).toContain(reply.status);
    expect(errorOf(reply)).not.toBe('');
  });

  it('takes a path with a query for the path', async () => {
    expect((await server.ask('GET', '/v2/health/ready?x=1&y=/../..')).status).toBe(200);
  });

  it('tells a model that is not there from one that was unloaded and one that failed', async () => {
    expect((await server.infer('nope', addSubBody())).status).toBe(404);
    const old = '/v2/models/add_sub/versions/7/infer';
    expect((await server.ask('POST', old, addSubBody())).status).toBe(404);
    expect((await server.infer('failing', floatsBody([1]))).status).toBe(500);
    expect((await server.ask('POST', '/v2/repository/models/counter/unload')).status).toBe(200);
    const versioned = '/v2/models/counter/versions/1/infer';
    expect((await server.ask('POST', versioned, floatsBody([1]))).status).toBe(503);
    expect((await server.ask('POST', '/v2/repository/models/counter/load')).status).toBe(200);
    expect((await server.ask('POST', versioned, floatsBody([1]))).status).toBe(200);
  });

  it('never lets a client wait for the one answer of a decoupled model', async () => {
    const reply = await server.infer('decoupled', floatsBody([1]));
    expect([reply.status, errorOf(reply)]).toEqual([
      501,
      "HTTP end point doesn't support models with decoupled transaction policy",
    ]);
    const generated = await server.ask('POST', '/v2/models/decoupled/generate', '{"X":1}');
    expect(errorOf(generated)).toContain('generate expects model to produce exactly 1 response');
  });

  it('answers small requests while millions of JSON numbers are read', async () => {
    const count = 4_000_000;
    const data = `${'0.125,'.repeat(count - 1)}0.125`;
    const large = await RawClient.open(server.port);
    await large.write(
      requestBytes(
        'POST',
        '/v2/models/counter/infer',
        `{"inputs":[{"name":"X","datatype":"FP32","shape":[${count}],"data":[${data}]}]}`,
      ),
    );
    let isAnswered = false;
    const answer = large.reply().finally(() => {
      isAnswered = true;
    });
    const small = await RawClient.open(server.port);
    let rounds = 0;
    while (!isAnswered) {
      await small.write(requestBytes('GET', '/v2/health/live'));
      expect((await small.reply())?.status).toBe(200);
      rounds += 1;
    }
    small.close();
    large.close();
    expect((await answer)?.body.toString()).toContain(`"data":[${count}]`);
    expect(rounds).toBeGreaterThan(5);
  });

  it.each([
    '/v2/models/add_sub/infer',
    '/v2/repository/models/add_sub/load',
    '/v2/repository/index',
  ])(
    'refuses a declared length of 1,000,000,000 bytes for %s before any of them comes',
    async (path) => {
      const client = await RawClient.open(server.port);
      await client.write(`POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n`);
      const reply = await client.reply();
      client.close();
      expect([reply?.status, reply?.headers.get('connection')]).toEqual([400, 'close']);
    },
  );

  it.each([
    ['ready', '/v2/repository/index', (deep: string) => `{"ready":${deep}`],
    [
      'data',
      '/v2/models/floats/infer',
      (deep: string) => floatsBody([1]).replace('[1]}', `${deep}}`),
    ],
    ['parameters', '/v2/models/floats/infer', (deep: string) => `{"parameters":{"p":${deep}`],
    [
      'a load configuration',
      '/v2/repository/models/floats/load',
      (deep: string) => JSON.stringify({ parameters: { config: deep } }),
    ],
    ['trace settings', '/v2/trace/setting', (deep: string) => `{"trace_level":${deep}`],
    ['a generate value', '/v2/models/floats/generate', (deep: string) => `{"X":${deep}`],
  ])('survives 250,000 open brackets in %s', async (_what, path, body) => {
    const reply = await server.ask('POST', path, body('['.repeat(250_000)), {
      'admin-key': secret,
    });
    expect([400, 500]).toContain(reply.status);
    expect((await server.ask('POST', path, body('{"a":'.repeat(100_000)))).status).not.toBe(200);
    await server.expectServed();
  });

  it.each([
    [10, 2 ** 32],
    [10, 2 ** 53],
    [2_000_000, 1],
    [1000, 1000],
  ])('bounds the classes of %i elements, %d wanted', async (elements, count) => {
    const outputs = [{ name: 'Y', parameters: { classification: count } }];
    const body = floatsBody(Array(elements).fill(0.5), { outputs });
    const reply = await server.infer('floats', body);
    expect(reply.status).toBe(elements > 1_000_000 ? 400 : 200);
    await server.expectServed();
  });

  it('searches header names in time that grows with their length alone', async () => {
    const start = performance.now();
    const headers = { [`${'a'.repeat(5000)}-b`]: 'x', aaa: 'seen' };
    const reply = await server.ask('POST', '/v2/models/text/infer', textBody(['x']), headers);
    expect(reply.body.toString()).toContain('seen');
    expect(performance.now() - start).toBeLessThan(5000);
  });

  it.each(['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty'])(
    'takes the name %s for a name like any other',
    async (name) => {
      const polluting = `{"${name}":{"polluted":1}}`;
      const member = `{"${name}":"p"}`;
      const bodies: readonly (readonly [string, string])[] = [
        ['/v2/models/text/infer', textBody(['x']).replace(/}$/, `,"parameters":${polluting}}`)],
        ['/v2/models/text/infer', textBody(['x']).replace('"A"', `"${name}"`)],
        ['/v2/models/text/infer', polluting],
        ['/v2/models/text/generate', `{"A":"x","${name}":{"polluted":1}}`],
        ['/v2/models/text/generate', `{"A":"x","${name}":"p"}`],
        [`/v2/models/${name}/infer`, textBody(['x'])],
        [`/v2/repository/models/${name}/load`, ''],
        ['/v2/repository/models/text/load', `{"parameters":${polluting}}`],
        [
          '/v2/repository/models/text/load',
          `{"parameters":{"config":${JSON.stringify(polluting)}}}`,
        ],
        ['/v2/repository/index', polluting],
        ['/v2/logging', polluting],
        ['/v2/trace/setting', polluting],
        [`/v2/systemsharedmemory/region/${name}/register`, polluting],
      ];
      for (const [path, body] of bodies) {
        const reply = await server.ask('POST', path, body, { 'admin-key': secret });
        // 500 is what the reference server says to a load that it has no model for.
        expect([path, body, reply.status < 500 || path.endsWith('/load')]).toEqual([
          path,
          body,
          true,
        ]);
      }
      const reply = await server.infer(
        'text',
        textBody(['x']).replace(/}$/, `,"parameters":${member},"id":"${name}"}`),
      );
      const seen = JSON.parse(JSON.parse(reply.body.toString()).outputs[0].data[0]);
      expect(seen).toEqual([name, JSON.parse(member), ['x'], 'undefined']);
    },
  );
});
