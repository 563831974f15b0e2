import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RawClient } from '../http/raw-client.js';
import { requestBytes } from '../http/running-http-server.js';
import { ServerProcess } from '../support/server-process.js';
import { shippedRepository } from './protected-repository.js';
import { floatsBody, ProtectedServer, secret } from './protected-server.js';

/* What a client must not reach: files, shared memory, settings, the log and other people's calls. */

describe.each(['uws', 'node'])('a server on %s', (transport) => {
  let server: ProtectedServer;

  beforeAll(async () => {
    server = await ProtectedServer.start(transport);
  });
  afterAll(() => server.stop());

  it('says nothing of its files, stacks and settings in what it answers', async () => {
    server.repository.write('unreadable', 'backend: "javascript" nonsense', 'throw new Error("x")');
    server.repository.write(
      'throwing',
      'backend: "javascript" input [{ name: "X" data_type: TYPE_FP32 dims: [ 1 ] }] ' +
        'output [{ name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }]',
      'export default class { initialize() { return undefined.missing; } }',
    );
    const register = '/v2/systemsharedmemory/region/r/register';
    const replies = [
      await server.infer('failing', floatsBody([1])),
      await server.infer('nope', '{'),
      await server.infer('floats', '{"inputs":[{}]}'),
      await server.ask('POST', '/v2/models/failing/generate', '{"X":1}'),
      await server.ask('POST', '/v2/repository/models/unreadable/load'),
      await server.ask('POST', '/v2/repository/models/throwing/load'),
      await server.ask('POST', '/v2/repository/models/nope/load'),
      await server.ask('POST', '/v2/repository/index'),
      await server.ask('POST', register, '{"key":"/nope","byte_size":8}'),
      await server.ask(
        'POST',
        register,
        '{"key":"/triton_python_backend_shm_region_1","byte_size":8}',
      ),
      await server.ask('GET', '/v2/logging'),
      await server.ask('POST', '/v2/trace/setting', '{}', { 'admin-key': 'wrong' }),
    ];
    const answers = replies.map(({ body }) => body.toString());
    expect(answers).toHaveLength(12);
    for (const text of answers) {
      expect(text).not.toContain(server.repository.path);
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
        expect((await server.ask(method, path, body, headers)).status).toBe(403);
      }
      expect((await server.ask(method, path, body, { 'ADMIN-KEY': secret })).status).not.toBe(403);
      expect((await server.ask('GET', '/v2/health/live')).status).toBe(200);
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
      const client = await RawClient.open(server.port);
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

  describe('lets no client out of a shared memory region:', () => {
    const key = `/nereid-access-${process.pid}-${transport}`;
    const file = join('/dev/shm', key);
    const status = async (name: string, body: string): Promise<number> =>
      (await server.ask('POST', `/v2/systemsharedmemory/region/${name}/register`, body)).status;

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
      const reply = await server.infer('floats', `{"inputs":[${tensor}]}`);
      expect(reply.status).toBe(400);
    });

    it.each([61, 64, 18446744073709551615n])('not by writing from %d', async (offset) => {
      const parameters = `{"shared_memory_region":"held","shared_memory_offset":${offset},"shared_memory_byte_size":4}`;
      const outputs = `"outputs":[{"name":"Y","parameters":${parameters}}]`;
      const reply = await server.infer('floats', floatsBody([1]).replace(/}$/, `,${outputs}}`));
      expect([400, 500]).toContain(reply.status);
      await server.expectServed();
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
      const reply = await server.ask('POST', `/v2/repository/models/${name}/load`);
      expect([400, 404, 500]).toContain(reply.status);
    });

    it.each(['../x', '/etc/x', '1/../../x', '..', '1//../../x', 'a\\..\\..\\x', '', '1/\0'])(
      'not the file %j',
      async (file) => {
        const parameters = { config: '{"backend":"javascript"}', [`file:${file}`]: 'eA==' };
        const path = '/v2/repository/models/made_up/load';
        const reply = await server.ask('POST', path, JSON.stringify({ parameters }));
        expect([400, 500]).toContain(reply.status);
        expect((await server.ask('GET', '/v2/models/made_up/ready')).status).toBe(400);
      },
    );

    it('not the labels', async () => {
      const config = JSON.parse(
        (await server.ask('GET', '/v2/models/digits/config')).body.toString(),
      );
      config.output[0].label_filename = '../../../../../../etc/passwd';
      const body = JSON.stringify({ parameters: { config: JSON.stringify(config) } });
      const reply = await server.ask('POST', '/v2/repository/models/digits/load', body);
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
    const config = JSON.parse(
      (await server.ask('GET', '/v2/models/floats/config')).body.toString(),
    );
    const body = JSON.stringify({
      parameters: { config: JSON.stringify({ ...config, ...change }) },
    });
    const reply = await server.ask('POST', '/v2/repository/models/floats/load', body);
    expect([200, 400, 500]).toContain(reply.status);
    const restored = JSON.stringify({ parameters: { config: JSON.stringify(config) } });
    expect((await server.ask('POST', '/v2/repository/models/floats/load', restored)).status).toBe(
      200,
    );
    expect((await server.infer('floats', floatsBody([1]))).status).toBe(200);
  });

  it.each(['log_file', 'trace_file'])(
    'writes to no file that a client names as %s',
    async (name) => {
      const path = name === 'log_file' ? '/v2/logging' : '/v2/trace/setting';
      const body = JSON.stringify({ [name]: join(server.shmDirectory, 'written') });
      expect((await server.ask('POST', path, body, { 'admin-key': secret })).status).toBe(501);
    },
  );

  it('lets nobody forge a line of its log', async () => {
    const forged = 'E1130 00:00:00.000000 1 forged';
    await server.ask('POST', `/v2/models/x%0A${encodeURIComponent(forged)}/infer`, '{}');
    await server.ask('POST', `/v2/repository/models/x%0A${encodeURIComponent(forged)}/load`);
    await server.infer('failing', floatsBody([1], { id: `i\n${forged}` }));
    await server.infer('nope', floatsBody([1], { id: `i\r\n${forged}` }));
    await server.infer('floats', JSON.stringify({ inputs: [{ name: `x\n${forged}` }] }));
    await server.expectServed();
    expect(server.log).not.toMatch(/^E1130 00:00:00.000000 1 forged/m);
  });
});
