import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { echo } from './fake-inference-server.js';
import { errorOf } from './infer-bodies.js';
import { RunningHttpServer } from './running-http-server.js';

const json = 'application/json';

describe.each(['uws', 'node'] as const)('the calls that manage a server, on %s', (transport) => {
  let front: RunningHttpServer;
  const shmDirectory = mkdtempSync(join(tmpdir(), 'shm-'));

  beforeAll(async () => {
    front = await RunningHttpServer.start({ transport }, shmDirectory);
  });
  afterAll(() => {
    front.stop();
    rmSync(shmDirectory, { recursive: true });
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
});
