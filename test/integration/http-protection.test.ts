import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RawClient, type WireReply } from '../http/raw-client.js';
import { requestBytes } from '../http/running-http-server.js';
import { ServerProcess } from '../support/server-process.js';
import { ProtectedRepository, shippedRepository } from './protected-repository.js';

/*
 * What a client could do to a server, and must not: one test for each known weakness of servers of
 * this kind, against the compiled server on both carriers.
 */

type Json = { readonly [name: string]: unknown };

const vector = Array.from({ length: 16 }, (_item, index) => index);

function addSubBody(change: (inputs: [Json, Json]) => readonly unknown[] = (both) => both): string {
  const make = (name: string): Json => ({ name, datatype: 'FP32', shape: [1, 16], data: vector });
  return JSON.stringify({ inputs: change([make('INPUT0'), make('INPUT1')]) });
}

function floatsBody(values: readonly number[], more: Json = {}): string {
  const input = { name: 'X', datatype: 'FP32', shape: [values.length], data: values };
  return JSON.stringify({ inputs: [input], ...more });
}

function textBody(data: unknown, more: Json = {}): string {
  return JSON.stringify({ inputs: [{ name: 'A', datatype: 'BYTES', shape: [1], data }], ...more });
}

const secret = 'sesame';

describe.each(['uws', 'node'])('a server on %s', (transport) => {
  const repository = new ProtectedRepository();
  const shmDirectory = mkdtempSync('/dev/shm/nereid-protection-');
  let server: ServerProcess;
  let port = 0;

  beforeAll(async () => {
    server = await ServerProcess.start([
      `--model-repository=${repository.path}`,
      `--http-transport=${transport}`,
      '--model-control-mode=explicit',
      '--load-model=*',
      '--allow-client-shm=true',
      '--http-header-forward-pattern=^(a+)+$',
      `--http-restricted-api=trace,logging:admin-key=${secret}`,
      '--log-verbose=1',
    ]);
    port = Number(new URL(server.httpUrl).port);
  });

  afterAll(async () => {
    rmSync(shmDirectory, { recursive: true });
    expect(await server.stop()).toBe(0);
    repository.remove();
  });

  async function ask(
    method: string,
    path: string,
    body: string | Uint8Array = '',
    headers: Readonly<Record<string, string>> = {},
  ): Promise<WireReply> {
    const client = await RawClient.open(port);
    await client.write(requestBytes(method, path, body, headers));
    const reply = await client.reply(method);
    client.close();
    if (reply === undefined) throw new Error(`${method} ${path}: closed without an answer`);
    return reply;
  }

  function infer(model: string, body: string | Uint8Array): Promise<WireReply> {
    return ask('POST', `/v2/models/${model}/infer`, body);
  }

  function errorOf(reply: WireReply): string {
    return JSON.parse(reply.body.toString()).error;
  }

  async function expectServed(): Promise<void> {
    expect((await infer('add_sub', addSubBody())).status).toBe(200);
  }

  describe('checks a request before anyone works on it:', () => {
    const wrongValues = [undefined, null, 1, -1, 1.5, 'x', true, [], {}, [[]], [null], ['x'], [-1]];

    it.each(['name', 'datatype', 'shape', 'data'])(
      'each wrong %s of an input is the fault of the client',
      async (member) => {
        for (const value of wrongValues) {
          const body = addSubBody(([first, second]) => [first, { ...second, [member]: value }]);
          const reply = await infer('add_sub', body);
          expect([body, reply.status]).toEqual([body, 400]);
          expect(errorOf(reply)).not.toBe('');
        }
        await expectServed();
      },
    );

    it('the tensor and the member are named', async () => {
      const body = addSubBody(([first, second]) => [first, { ...second, shape: ['a'] }]);
      const message = errorOf(await infer('add_sub', body));
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
      const reply = await infer('floats', body);
      expect(reply.status).toBe(400);
      const alone = await infer('floats', JSON.stringify({ inputs: [input] }));
      expect([alone.status, errorOf(alone)]).toEqual([
        400,
        expect.stringMatching(/expecting 4 additional bytes|Inference-Header-Content-Length/),
      ]);
    });

    it('strings are counted while they are read, in bytes', async () => {
      const both = await infer('text', textBody(['a', 'b']));
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
      expect((await ask('POST', path, sized(3, 'é!'), headers)).status).toBe(200);
      expect((await ask('POST', path, sized(2, 'é!'), headers)).status).toBe(400);
      expect((await ask('POST', path, sized(255, 'é!'), headers)).status).toBe(400);
    });

    it('data that is no array is said to have to be one', async () => {
      const reply = await infer('text', textBody('abc'));
      expect(reply.status).toBe(400);
      expect(errorOf(reply)).toContain('array');
    });

    it('a shape of more elements than there is data costs no memory', async () => {
      for (const shape of [[2 ** 31], [2 ** 32, 2 ** 31], [2 ** 62], Array(40).fill(1000)]) {
        const input = { name: 'X', datatype: 'FP32', shape, data: [1] };
        expect((await infer('floats', JSON.stringify({ inputs: [input] }))).status).toBe(400);
      }
      await expectServed();
    });
  });

  it('writes values that are no numbers as the bare words the reference writes', async () => {
    const reply = await infer('special', floatsBody([0]));
    expect(reply.body.toString()).toContain('"data":[NaN,Infinity,-Infinity,1.0]');
    const outputs = [{ name: 'Y', parameters: { binary_data: true } }];
    const binary = await infer('special', floatsBody([0], { outputs }));
    const json = Number(binary.headers.get('inference-header-content-length'));
    expect(binary.body.subarray(json).toString('hex')).toBe('0000c07f0000807f000080ff0000803f');
  });

  it.each(['br', 'zstd', 'compress', 'gzip, br'])(
    'does not take a body in the encoding %s for JSON',
    async (encoding) => {
      const reply = await ask('POST', '/v2/models/add_sub/infer', addSubBody(), {
        'Content-Encoding': encoding,
      });
      expect([reply.status, reply.headers.get('accept-encoding')]).toEqual([501, 'gzip, deflate']);
    },
  );

  it('keeps a connection over a thousand requests, good and refused', async () => {
    const client = await RawClient.open(port);
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
      const reply = await ask('GET', `/v2/models/add_sub/versions/${version}/config`);
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
    const reply = await ask(method, path, method === 'POST' ? addSubBody() : '');
    expect([400, 404]).toContain(reply.status);
    expect(errorOf(reply)).not.toBe('');
  });

  it('takes a path with a query for the path', async () => {
    expect((await ask('GET', '/v2/health/ready?x=1&y=/../..')).status).toBe(200);
  });

  it('tells a model that is not there from one that was unloaded and one that failed', async () => {
    expect((await infer('nope', addSubBody())).status).toBe(404);
    const old = '/v2/models/add_sub/versions/7/infer';
    expect((await ask('POST', old, addSubBody())).status).toBe(404);
    expect((await infer('failing', floatsBody([1]))).status).toBe(500);
    expect((await ask('POST', '/v2/repository/models/counter/unload')).status).toBe(200);
    const versioned = '/v2/models/counter/versions/1/infer';
    expect((await ask('POST', versioned, floatsBody([1]))).status).toBe(503);
    expect((await ask('POST', '/v2/repository/models/counter/load')).status).toBe(200);
    expect((await ask('POST', versioned, floatsBody([1]))).status).toBe(200);
  });

  it('never lets a client wait for the one answer of a decoupled model', async () => {
    const reply = await infer('decoupled', floatsBody([1]));
    expect([reply.status, errorOf(reply)]).toEqual([
      501,
      "HTTP end point doesn't support models with decoupled transaction policy",
    ]);
    const generated = await ask('POST', '/v2/models/decoupled/generate', '{"X":1}');
    expect(errorOf(generated)).toContain('generate expects model to produce exactly 1 response');
  });

  it('answers small requests while millions of JSON numbers are read', async () => {
    const count = 4_000_000;
    const data = `${'0.125,'.repeat(count - 1)}0.125`;
    const large = await RawClient.open(port);
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
    const small = await RawClient.open(port);
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
      const client = await RawClient.open(port);
      await client.write(`POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n`);
      const reply = await client.reply();
      client.close();
      expect([reply?.status, reply?.headers.get('connection')]).toEqual([400, 'close']);
    },
  );

  it('says nothing of its files, stacks and settings in what it answers', async () => {
    repository.write('unreadable', 'backend: "javascript" nonsense', 'throw new Error("x")');
    repository.write(
      'throwing',
      'backend: "javascript" input [{ name: "X" data_type: TYPE_FP32 dims: [ 1 ] }] ' +
        'output [{ name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }]',
      'export default class { initialize() { return undefined.missing; } }',
    );
    const register = '/v2/systemsharedmemory/region/r/register';
    const replies = [
      await infer('failing', floatsBody([1])),
      await infer('nope', '{'),
      await infer('floats', '{"inputs":[{}]}'),
      await ask('POST', '/v2/models/failing/generate', '{"X":1}'),
      await ask('POST', '/v2/repository/models/unreadable/load'),
      await ask('POST', '/v2/repository/models/throwing/load'),
      await ask('POST', '/v2/repository/models/nope/load'),
      await ask('POST', '/v2/repository/index'),
      await ask('POST', register, '{"key":"/nope","byte_size":8}'),
      await ask('POST', register, '{"key":"/triton_python_backend_shm_region_1","byte_size":8}'),
      await ask('GET', '/v2/logging'),
      await ask('POST', '/v2/trace/setting', '{}', { 'admin-key': 'wrong' }),
    ];
    const answers = replies.map(({ body }) => body.toString());
    expect(answers).toHaveLength(12);
    for (const text of answers) {
      expect(text).not.toContain(repository.path);
      expect(text).not.toMatch(/node_modules|dist\/|node:internal|\n\s+at |\/dev\/shm|sesame/);
    }
  });

  describe('has closed', () => {
    it.each([
      ['GET', '/v2/trace/setting'],
      ['POST', '/v2/trace/setting'],
      ['POST', '/v2/models/add_sub/trace/setting'],
      ['POST', '/v2/logging'],
      ['PUT', '/v2/logging'],
      ['HEAD', '/v2/logging'],
    ])('%s %s to who has no key', async (method, path) => {
      const body = method === 'POST' ? '{}' : '';
      for (const key of [undefined, '', 'x', `${secret}x`, secret.toUpperCase()]) {
        const headers = key === undefined ? {} : { 'admin-key': key };
        expect((await ask(method, path, body, headers)).status).toBe(403);
      }
      expect((await ask(method, path, body, { 'ADMIN-KEY': secret })).status).not.toBe(403);
      expect((await ask('GET', '/v2/health/live')).status).toBe(200);
    });

    it.each([
      '/v2/logging/',
      '//v2/logging',
      '/v2/./logging',
      '/v2/x/../logging',
      '/V2/logging',
      '/v2/%6Cogging',
      '/v2/logging%2F',
      '/v2/logging;x',
      'http://a/v2/logging',
    ])('the way round by %s', async (path) => {
      const client = await RawClient.open(port);
      await client.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
      const text = (await client.reply())?.body.toString();
      client.close();
      expect(text).not.toContain('log_info');
    });

    it('control of models, unless it was asked for', async () => {
      const closed = await ServerProcess.start([
        `--model-repository=${shippedRepository}`,
        `--http-transport=${transport}`,
      ]);
      const closedPort = Number(new URL(closed.httpUrl).port);
      for (const action of ['load', 'unload']) {
        const client = await RawClient.open(closedPort);
        await client.write(requestBytes('POST', `/v2/repository/models/add_sub/${action}`));
        expect((await client.reply())?.status).toBe(503);
        await client.write(requestBytes('GET', '/v2/models/add_sub/ready'));
        expect((await client.reply())?.status).toBe(200);
        client.close();
      }
      expect(await closed.stop()).toBe(0);
    });
  });

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
    const reply = await ask('POST', path, body('['.repeat(250_000)), { 'admin-key': secret });
    expect([400, 500]).toContain(reply.status);
    expect((await ask('POST', path, body('{"a":'.repeat(100_000)))).status).not.toBe(200);
    await expectServed();
  });

  describe('lets no client out of a shared memory region:', () => {
    const key = `${shmDirectory.slice('/dev/shm'.length)}-region`;
    const file = join('/dev/shm', key);
    const status = async (name: string, body: string): Promise<number> =>
      (await ask('POST', `/v2/systemsharedmemory/region/${name}/register`, body)).status;

    beforeAll(async () => {
      writeFileSync(file, Buffer.alloc(64));
      expect(await status('held', JSON.stringify({ key, byte_size: 64 }))).toBe(200);
    });
    afterAll(() => rmSync(file));

    it.each(['18446744073709551615', '9223372036854775807', '4294967296', '1', '-1', '1e3', '"0"'])(
      'not by an offset of %s when it is registered',
      async (offset) => {
        const body = `{"key":"${key}","offset":${offset},"byte_size":64}`;
        expect([400, 500]).toContain(await status('r', body));
      },
    );

    it.each(['18446744073709551615', '65', '0', '-1', '1.5'])(
      'not by a size of %s',
      async (size) => {
        expect([400, 500]).toContain(await status('r', `{"key":"${key}","byte_size":${size}}`));
      },
    );

    it.each([
      '../etc/passwd',
      '/../../etc/passwd',
      'a/b',
      '..',
      '.',
      '/',
      '',
      '\\u0000',
      'a\\u0000b',
    ])('not by the key %s', async (name) => {
      expect([400, 500]).toContain(await status('r', `{"key":"${name}","byte_size":8}`));
    });

    it.each([
      [18446744073709551615n, 4],
      [64, 4],
      [61, 4],
      [0, 68],
      [0, 18446744073709551615n],
      [18446744073709551612n, 8],
    ])('not by reading from %d for %d bytes', async (offset, size) => {
      const parameters = `{"shared_memory_region":"held","shared_memory_offset":${offset},"shared_memory_byte_size":${size}}`;
      const tensor = `{"name":"X","datatype":"FP32","shape":[1],"parameters":${parameters}}`;
      const reply = await infer('floats', `{"inputs":[${tensor}]}`);
      expect(reply.status).toBe(400);
    });

    it.each([61, 64, 18446744073709551615n])('not by writing from %d', async (offset) => {
      const parameters = `{"shared_memory_region":"held","shared_memory_offset":${offset},"shared_memory_byte_size":4}`;
      const outputs = `"outputs":[{"name":"Y","parameters":${parameters}}]`;
      const reply = await infer('floats', floatsBody([1]).replace(/}$/, `,${outputs}}`));
      expect([400, 500]).toContain(reply.status);
      await expectServed();
    });
  });

  describe('loads nothing from outside its repository:', () => {
    it.each([
      '..',
      '.',
      'a%2F..%2Fb',
      '%2e%2e%2f%2e%2e%2fetc',
      '%2Fetc%2Fpasswd',
      'a%00b',
      '..%5Cx',
      '%E2%88%95etc',
      '%EF%BC%8E%EF%BC%8E',
    ])('not the model %s', async (name) => {
      const reply = await ask('POST', `/v2/repository/models/${name}/load`);
      expect([400, 404, 500]).toContain(reply.status);
    });

    it.each(['../x', '/etc/x', '1/../../x', '..', '1//../../x', 'a\\..\\..\\x', '', '1/\0'])(
      'not the file %j',
      async (file) => {
        const parameters = { config: '{"backend":"javascript"}', [`file:${file}`]: 'eA==' };
        const path = '/v2/repository/models/made_up/load';
        const reply = await ask('POST', path, JSON.stringify({ parameters }));
        expect([400, 500]).toContain(reply.status);
        expect((await ask('GET', '/v2/models/made_up/ready')).status).toBe(400);
      },
    );

    it('not the labels', async () => {
      const config = JSON.parse((await ask('GET', '/v2/models/digits/config')).body.toString());
      config.output[0].label_filename = '../../../../../../etc/passwd';
      const body = JSON.stringify({ parameters: { config: JSON.stringify(config) } });
      const reply = await ask('POST', '/v2/repository/models/digits/load', body);
      expect([400, 500]).toContain(reply.status);
      expect(reply.body.toString()).not.toContain('root:');
    });
  });

  it.each([
    [
      'dims near 2^63',
      { input: [{ name: 'X', data_type: 'TYPE_FP32', dims: ['9223372036854775807', 8] }] },
    ],
    ['a batch of 2^31 - 1', { max_batch_size: 2_147_483_647 }],
    ['a batch of 2^31', { max_batch_size: 2_147_483_648 }],
    [
      '2^32 - 1 priorities',
      { dynamic_batching: { priority_levels: 4_294_967_295, default_priority_level: 1 } },
    ],
    ['a million instances', { instance_group: [{ count: 1_000_000, kind: 'KIND_CPU' }] }],
  ])('lives through a configuration with %s', async (_what, change) => {
    const config = JSON.parse((await ask('GET', '/v2/models/floats/config')).body.toString());
    const body = JSON.stringify({
      parameters: { config: JSON.stringify({ ...config, ...change }) },
    });
    const reply = await ask('POST', '/v2/repository/models/floats/load', body);
    expect([200, 400, 500]).toContain(reply.status);
    const restored = JSON.stringify({ parameters: { config: JSON.stringify(config) } });
    expect((await ask('POST', '/v2/repository/models/floats/load', restored)).status).toBe(200);
    expect((await infer('floats', floatsBody([1]))).status).toBe(200);
  });

  it.each(['log_file', 'trace_file'])(
    'writes to no file that a client names as %s',
    async (name) => {
      const path = name === 'log_file' ? '/v2/logging' : '/v2/trace/setting';
      const body = JSON.stringify({ [name]: join(shmDirectory, 'written') });
      expect((await ask('POST', path, body, { 'admin-key': secret })).status).toBe(501);
    },
  );

  it('lets nobody forge a line of its log', async () => {
    const forged = 'E1130 00:00:00.000000 1 forged';
    await ask('POST', `/v2/models/x%0A${encodeURIComponent(forged)}/infer`, '{}');
    await ask('POST', `/v2/repository/models/x%0A${encodeURIComponent(forged)}/load`);
    await infer('failing', floatsBody([1], { id: `i\n${forged}` }));
    await infer('nope', floatsBody([1], { id: `i\r\n${forged}` }));
    await infer('floats', JSON.stringify({ inputs: [{ name: `x\n${forged}` }] }));
    await expectServed();
    expect(server.log).not.toMatch(/^E1130 00:00:00.000000 1 forged/m);
  });

  it.each([
    [10, 2 ** 32],
    [10, 2 ** 53],
    [2_000_000, 1],
    [1000, 1000],
  ])('bounds the classes of %i elements, %d wanted', async (elements, count) => {
    const outputs = [{ name: 'Y', parameters: { classification: count } }];
    const body = floatsBody(Array(elements).fill(0.5), { outputs });
    const reply = await infer('floats', body);
    expect(reply.status).toBe(elements > 1_000_000 ? 400 : 200);
    await expectServed();
  });

  it('searches header names in time that grows with their length alone', async () => {
    const start = performance.now();
    const headers = { [`${'a'.repeat(5000)}-b`]: 'x', aaa: 'seen' };
    const reply = await ask('POST', '/v2/models/text/infer', textBody(['x']), headers);
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
        const reply = await ask('POST', path, body, { 'admin-key': secret });
        // 500 is what the reference server says to a load that it has no model for.
        expect([path, body, reply.status < 500 || path.endsWith('/load')]).toEqual([
          path,
          body,
          true,
        ]);
      }
      const reply = await infer(
        'text',
        textBody(['x']).replace(/}$/, `,"parameters":${member},"id":"${name}"}`),
      );
      const seen = JSON.parse(JSON.parse(reply.body.toString()).outputs[0].data[0]);
      expect(seen).toEqual([name, JSON.parse(member), ['x'], 'undefined']);
    },
  );
});
