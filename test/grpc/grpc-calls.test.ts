import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InferenceServerError, invalidArg } from '../../src/errors.js';
import { detailsBytesMax } from '../../src/grpc/status.js';
import { grpcStatusOf } from '../../src/protocol/error-status.js';
import { fp32, response } from '../http/fake-inference-server.js';
import type { GrpcClient } from './grpc-client.js';
import { inferRequest, RunningGrpcServer } from './running-grpc-server.js';

const ok = (document: object) => ({ code: 0, details: '', response: document });
const failed = (code: number, details: string) => ({ code, details, response: undefined });

let running: RunningGrpcServer;
let client: GrpcClient;

beforeAll(async () => {
  running = await RunningGrpcServer.start();
  client = running.connect();
});

afterAll(() => running.stop());

describe('calls that manage the server', () => {
  it('tell whether it lives and is ready', async () => {
    expect(await client.call('ServerLive')).toEqual(ok({ live: true }));
    expect(await client.call('ServerReady')).toEqual(ok({ ready: true }));
    running.server.isReadyNow = false;
    expect(await client.call('ServerReady')).toEqual(ok({}));
    running.server.isReadyNow = true;
  });

  it('tell whether a model is ready; an unknown one is not', async () => {
    const ask = (name: string, version: string) => client.call('ModelReady', { name, version });
    expect(await ask('echo', '')).toEqual(ok({ ready: true }));
    expect(await ask('echo', '2')).toEqual(ok({}));
    expect(await ask('nope', '')).toEqual(ok({}));
    expect(await ask('echo', 'abc')).toMatchObject({ code: 3 });
  });

  it('describe the server and a model', async () => {
    expect(await client.call('ServerMetadata')).toEqual(
      ok({ name: 'fake', version: '0', extensions: ['classification'] }),
    );
    expect(await client.call('ModelMetadata', { name: 'echo' })).toEqual(
      ok({ name: 'echo', versions: ['1'], platform: 'p' }),
    );
    expect(await client.call('ModelMetadata', { name: 'nope' })).toEqual(
      failed(5, "Request for unknown model: 'nope' is not found"),
    );
    const { response: config } = await client.call('ModelConfig', { name: 'stream' });
    expect(config).toMatchObject({
      config: {
        name: 'stream',
        input: [{ name: 'X', data_type: 'TYPE_FP32', dims: ['-1'] }],
        model_transaction_policy: { decoupled: true },
      },
    });
  });

  it('count what models did', async () => {
    expect(await client.call('ModelStatistics', { name: 'echo' })).toEqual(ok({}));
    expect(running.server.calls).toContain('statistics echo');
  });

  it('list, load and unload models', async () => {
    const gone = { name: 'gone', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' };
    const echo = { name: 'echo', version: '1', state: 'READY' };
    expect(await client.call('RepositoryIndex')).toEqual(ok({ models: [echo, gone] }));
    expect(await client.call('RepositoryIndex', { ready: true })).toEqual(ok({ models: [echo] }));
    const parameters = {
      config: { string_param: '{}' },
      'file:1/a': { bytes_param: Buffer.from('abc').toString('base64') },
    };
    expect(await client.call('RepositoryModelLoad', { model_name: 'm', parameters })).toEqual(
      ok({}),
    );
    expect(await client.call('RepositoryModelLoad', { model_name: 'bad' })).toEqual(
      failed(5, 'no bad model'),
    );
    await client.call('RepositoryModelUnload', {
      model_name: 'm',
      parameters: { unload_dependents: { bool_param: true } },
    });
    expect(running.server.calls).toEqual(
      expect.arrayContaining(['load m {} 1/a=3', 'load bad - ', 'unload m true']),
    );
  });

  it.each(['RepositoryIndex', 'RepositoryModelLoad', 'RepositoryModelUnload'])(
    '%s knows no repositories by name',
    async (method) => {
      expect(await client.call(method, { repository_name: 'r' })).toEqual(
        failed(12, "'repository_name' specification is not supported"),
      );
    },
  );

  it('read and change log settings, all or none', async () => {
    const change = (settings: object) => client.call('LogSettings', { settings: { ...settings } });
    const level = { log_verbose_level: { uint32_param: 2 } };
    expect(await change({ ...level, log_info: { bool_param: false } })).toMatchObject({
      response: {
        settings: {
          log_file: { string_param: '' },
          log_info: { bool_param: false },
          log_warning: { bool_param: true },
          log_error: { bool_param: true },
          log_verbose_level: { uint32_param: 2 },
          log_format: { string_param: 'default' },
        },
      },
    });
    expect(await change({ log_error: { bool_param: false }, log_warning: {} })).toEqual(
      failed(3, "invalid value type for 'log_warning' setting, expected bool_param."),
    );
    expect(await change({ log_file: { string_param: '/x' } })).toEqual(
      failed(12, 'log file location can not be updated through network protocol'),
    );
    expect(await change({ log_format: { string_param: 'odd' } })).toEqual(
      failed(14, 'invalid argument for --log_format, got: odd'),
    );
    expect(await change({ log_format: { string_param: 'json' }, unknown: {} })).toMatchObject({
      response: {
        settings: { log_error: { bool_param: true }, log_format: { string_param: 'json' } },
      },
    });
  });

  it('read and change trace settings, of all models or of one', async () => {
    const change = (model_name: string, settings: object) =>
      client.call('TraceSetting', { model_name, settings: { ...settings } });
    expect(await change('echo', { trace_rate: { value: ['5'] } })).toMatchObject({
      response: { settings: { trace_rate: { value: ['5'] }, trace_level: { value: ['OFF'] } } },
    });
    expect(await change('', {})).toMatchObject({
      response: { settings: { trace_rate: { value: ['1000'] } } },
    });
    // A setting without values goes back to the wider scope's.
    expect(await change('echo', { trace_rate: {} })).toMatchObject({
      response: { settings: { trace_rate: { value: ['1000'] } } },
    });
    expect(await change('nope', {})).toMatchObject({ code: 5 });
    expect(await change('', { trace_file: { value: ['x'] } })).toEqual(
      failed(12, 'trace file location can not be updated through network protocol'),
    );
  });
});

describe('shared memory', () => {
  it('is off unless the server was started with it', async () => {
    const disabled =
      "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
    const region = { name: 'r', key: '/k', byte_size: '4' };
    expect(await client.call('SystemSharedMemoryRegister', region)).toEqual(failed(12, disabled));
    expect(await client.call('SystemSharedMemoryUnregister')).toEqual(failed(12, disabled));
    expect(await client.call('SystemSharedMemoryStatus')).toEqual(ok({}));
  });

  it('holds inputs and takes outputs', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'grpc-shm-'));
    writeFileSync(join(directory, 'k'), Buffer.from(Float32Array.of(1, 2, 0, 0).buffer));
    const front = await RunningGrpcServer.start({}, directory);
    const shm = front.connect();
    expect(
      await shm.call('SystemSharedMemoryRegister', { name: 'r', key: '/k', byte_size: '16' }),
    ).toEqual(ok({}));
    expect(await shm.call('SystemSharedMemoryStatus')).toEqual(
      ok({ regions: { r: { name: 'r', key: '/k', byte_size: '16' } } }),
    );
    const place = (offset: string) => ({
      shared_memory_region: { string_param: 'r' },
      shared_memory_offset: { int64_param: offset },
      shared_memory_byte_size: { int64_param: '8' },
    });
    const answer = await shm.call('ModelInfer', {
      model_name: 'echo',
      inputs: [{ name: 'X', datatype: 'FP32', shape: [2], parameters: place('0') }],
      outputs: [{ name: 'X', parameters: place('8') }],
    });
    expect(answer.response).toMatchObject({
      outputs: [{ name: 'X', shape: ['2'] }],
      raw_output_contents: [''],
    });
    expect(front.regions.read('r', 8, 8)).toEqual(new Uint8Array(Float32Array.of(1, 2).buffer));
    expect(await shm.call('SystemSharedMemoryUnregister', { name: 'r' })).toEqual(ok({}));
    expect(await shm.call('SystemSharedMemoryStatus', { name: 'r' })).toEqual(
      failed(5, "Unable to find system shared memory region: 'r'"),
    );
    front.stop();
    rmSync(directory, { recursive: true });
  });

  it('of CUDA is none', async () => {
    expect(await client.call('CudaSharedMemoryStatus')).toEqual(ok({}));
    expect(await client.call('CudaSharedMemoryUnregister', { name: 'x' })).toEqual(ok({}));
    expect(await client.call('CudaSharedMemoryRegister', { name: 'x' })).toEqual(
      failed(3, "failed to register CUDA shared memory region: 'x', GPUs not supported"),
    );
  });
});

describe('ModelInfer', () => {
  it('answers with raw outputs, the id and the version that ran', async () => {
    expect(await client.call('ModelInfer', inferRequest('echo', [1, 2], { id: 'r1' }))).toEqual(
      ok({
        model_name: 'echo',
        model_version: '1',
        id: 'r1',
        outputs: [{ name: 'X', datatype: 'FP32', shape: ['2'] }],
        raw_output_contents: [Buffer.from(Float32Array.of(1, 2).buffer).toString('base64')],
      }),
    );
  });

  it('runs the version that was asked for, by its number', async () => {
    const request = inferRequest('held', [1], { model_version: '01' });
    const answer = client.call('ModelInfer', request);
    const held = await running.server.nextHeld();
    expect(held.request.modelVersion).toBe('1');
    held.handler.respond(response([fp32('X', [3])]));
    held.handler.complete();
    expect(await answer).toMatchObject({ code: 0, response: { model_name: 'm' } });
  });

  it('carries tensors larger than the four megabytes that libraries begin with', async () => {
    const values = Array<number>(1_100_000).fill(0.5);
    const { code, response: answer } = await client.call(
      'ModelInfer',
      inferRequest('echo', values),
    );
    expect(code).toBe(0);
    expect(answer).toMatchObject({ outputs: [{ shape: ['1100000'] }] });
  });

  it('refuses a decoupled model, an unknown one and a version that is none', async () => {
    expect(await client.call('ModelInfer', inferRequest('stream'))).toEqual(
      failed(12, "ModelInfer RPC doesn't support models with decoupled transaction policy"),
    );
    expect(await client.call('ModelInfer', inferRequest('nope'))).toEqual(
      failed(5, "Request for unknown model: 'nope' is not found"),
    );
    const odd = inferRequest('echo', [1], { model_version: 'abc' });
    expect(await client.call('ModelInfer', odd)).toMatchObject({ code: 3 });
  });

  it.each(Object.entries(grpcStatusOf))('turns %s into status %i', async (code, status) => {
    const name = code as keyof typeof grpcStatusOf;
    running.server.refusal = new InferenceServerError(name, 'why: "ü" 100 %\nnext');
    expect(await client.call('ModelInfer', inferRequest('refusing'))).toEqual(
      failed(status, 'why: "ü" 100 %\nnext'),
    );
  });

  it.each([0, 2])('fails where a model gives %i responses', async (count) => {
    const answer = client.call('ModelInfer', inferRequest('held'));
    const { handler } = await running.server.nextHeld();
    for (let index = 0; index < count; index++) handler.respond(response([]));
    handler.complete();
    expect(await answer).toEqual(failed(13, `expected a single response, got ${count}`));
  });

  it('cuts details that no client would take', async () => {
    running.server.refusal = invalidArg(`begin ${'ü%'.repeat(10_000)}`);
    const { code, details } = await client.call('ModelInfer', inferRequest('refusing'));
    expect(code).toBe(3);
    expect(details).toMatch(/^begin (ü%)+ü?\.\.\.$/);
    expect(encodeURI(details).length).toBeLessThanOrEqual(detailsBytesMax);
    expect(encodeURI(details).length).toBeGreaterThan(detailsBytesMax - 12);
  });

  it('sends details with halves of characters', async () => {
    running.server.refusal = invalidArg('a\ud800b');
    expect(await client.call('ModelInfer', inferRequest('refusing'))).toEqual(
      failed(3, 'a\ufffdb'),
    );
  });

  it('tells the log, and not the client, what went wrong inside', async () => {
    const answer = client.call('ModelInfer', inferRequest('held'));
    const { handler } = await running.server.nextHeld();
    const text = { ...fp32('X', [1]), encoding: 'json' as const };
    handler.respond({
      ...response([text]),
      get outputs(): never {
        throw new Error('secret');
      },
    });
    handler.complete();
    expect(await answer).toEqual(failed(13, 'internal error'));
    expect(running.log.join('\n')).toContain('ModelInfer: Error: secret');
  });

  it('cancels a request whose client gives up', async () => {
    let cancel = (): void => undefined;
    const answer = client.call('ModelInfer', inferRequest('held'), {
      onStart: (cancelCall) => {
        cancel = cancelCall;
      },
    });
    const held = await running.server.nextHeld();
    expect(held.events).toEqual([]);
    cancel();
    expect(await answer).toMatchObject({ code: 1 });
    await running.server.told(held, 'cancel');
    // The model's answer comes too late and goes nowhere.
    held.handler.respond(response([fp32('X', [1])]));
    held.handler.complete();
    expect(await client.call('ServerLive')).toEqual(ok({ live: true }));
  });

  it('cancels a request whose deadline passes', async () => {
    const answer = client.call('ModelInfer', inferRequest('held'), { deadlineMs: 100 });
    const held = await running.server.nextHeld();
    expect(await answer).toMatchObject({ code: 4 });
    await running.server.told(held, 'cancel');
  });
});

describe('restricted protocols', () => {
  const restrictions = new Map([
    ['inference', { header: 'Key', value: 'secret' }],
    ['health', { header: 'h', value: 'x' }],
  ] as const);

  it('answer only callers that send the header', async () => {
    const front = await RunningGrpcServer.start({ restrictions });
    const guest = front.connect();
    const refused = failed(
      14,
      "This protocol is restricted, expecting header 'triton-grpc-protocol-Key'",
    );
    const infer = (headers: Readonly<Record<string, string>>) =>
      guest.call('ModelInfer', inferRequest('echo'), { headers });
    expect(await infer({})).toEqual(refused);
    expect(await infer({ 'triton-grpc-protocol-key': 'wrong' })).toEqual(refused);
    expect(await infer({ key: 'secret' })).toEqual(refused);
    expect(await infer({ 'triton-grpc-protocol-key': 'secret' })).toMatchObject({ code: 0 });
    expect(await guest.call('ServerLive')).toMatchObject({ code: 14 });
    expect(await guest.call('Check', {}, { service: 'grpc.health.v1.Health' })).toMatchObject({
      code: 14,
    });
    expect(await guest.call('ServerMetadata')).toMatchObject({ code: 0 });
    const stream = guest.stream('ModelStreamInfer');
    stream.send(inferRequest('echo', [1], { id: 'r' }));
    expect(await stream.next()).toEqual({
      error_message: refused.details,
      infer_response: { id: 'r' },
    });
    front.stop();
  });
});

describe('forwarded headers', () => {
  it('become parameters of the request', async () => {
    const front = await RunningGrpcServer.start({ headerForwardPattern: /^x-fwd-/iu });
    const answer = front.connect().call('ModelInfer', inferRequest('held'), {
      headers: { 'x-fwd-a': '1', 'x-other': '2', 'x-fwd-b-bin': 'bytes' },
    });
    const { request, handler } = await front.server.nextHeld();
    expect(Object.fromEntries(request.parameters)).toEqual({ 'x-fwd-a': '1' });
    handler.respond(response([]));
    handler.complete();
    await answer;
    front.stop();
  });

  it('may not have a name that the server reserves', async () => {
    const front = await RunningGrpcServer.start({ headerForwardPattern: /priority/u });
    expect(
      await front.connect().call('ModelInfer', inferRequest('echo'), {
        headers: { priority: '1' },
      }),
    ).toEqual(failed(3, "Header 'priority' is reserved for Triton usage and cannot be forwarded."));
    front.stop();
  });
});
