import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GrpcClient } from './grpc-client.js';
import { RunningGrpcServer } from './running-grpc-server.js';

const health = 'grpc.health.v1.Health';

let running: RunningGrpcServer;
let client: GrpcClient;

beforeAll(async () => {
  running = await RunningGrpcServer.start();
  client = running.connect();
});

afterAll(() => running.stop());

describe('grpc.health.v1', () => {
  const check = (service: string) => client.call('Check', { service }, { service: health });

  it.each(['', 'inference.GRPCInferenceService'])('tells of the server as %j', async (service) => {
    expect(await check(service)).toMatchObject({ code: 0, response: { status: 'SERVING' } });
    running.server.isReadyNow = false;
    expect(await check(service)).toMatchObject({ code: 0, response: { status: 'NOT_SERVING' } });
    running.server.isReadyNow = true;
  });

  it('tells of a model by its name', async () => {
    expect(await check('echo')).toMatchObject({ code: 0, response: { status: 'SERVING' } });
    expect(await check('gone')).toMatchObject({ code: 0, response: { status: 'NOT_SERVING' } });
    expect(await check('nope')).toMatchObject({ code: 5, details: 'unknown service' });
  });

  it('lists all of them', async () => {
    expect(await client.call('List', {}, { service: health })).toMatchObject({
      response: {
        statuses: {
          '': { status: 'SERVING' },
          'inference.GRPCInferenceService': { status: 'SERVING' },
          echo: { status: 'SERVING' },
          gone: { status: 'NOT_SERVING' },
        },
      },
    });
  });

  it('tells a watcher of each change, once', async () => {
    const stream = client.stream('Watch', {}, health);
    stream.send({ service: '' });
    stream.halfClose();
    expect(await stream.next()).toEqual({ status: 'SERVING' });
    await until(() => running.clock.pendingTimers === 1);
    running.clock.advanceMs(1000);
    await until(() => running.clock.pendingTimers === 1);
    running.server.isReadyNow = false;
    running.clock.advanceMs(1000);
    expect(await stream.next()).toEqual({ status: 'NOT_SERVING' });
    running.server.isReadyNow = true;
    await until(() => running.clock.pendingTimers === 1);
    running.clock.advanceMs(1000);
    expect(await stream.next()).toEqual({ status: 'SERVING' });
    stream.call.cancel();
    await stream.ended();
    await until(() => running.clock.pendingTimers === 0);
  });

  it('waits with a watcher for a model that there is not yet', async () => {
    const stream = client.stream('Watch', {}, health);
    stream.send({ service: 'nope' });
    expect(await stream.next()).toEqual({ status: 'SERVICE_UNKNOWN' });
    stream.call.cancel();
    await stream.ended();
  });
});

describe.each(['grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection'])(
  '%s',
  (reflection) => {
    async function ask(request: Readonly<Record<string, string | object>>) {
      const stream = client.stream('ServerReflectionInfo', {}, reflection);
      stream.send({ host: 'h', ...request });
      const answer = await stream.next();
      stream.halfClose();
      expect(await stream.ended()).toMatchObject({ code: 0 });
      expect(answer).toMatchObject({ valid_host: 'h', original_request: { host: 'h' } });
      return answer;
    }

    it('lists the services', async () => {
      expect(await ask({ list_services: '' })).toMatchObject({
        list_services_response: {
          service: [
            { name: 'inference.GRPCInferenceService' },
            { name: 'grpc.health.v1.Health' },
            { name: 'grpc.reflection.v1.ServerReflection' },
            { name: 'grpc.reflection.v1alpha.ServerReflection' },
          ],
        },
      });
    });

    it.each([
      ['file_by_filename', 'grpc_service.proto', 2],
      ['file_by_filename', 'health.proto', 1],
      ['file_containing_symbol', 'inference.GRPCInferenceService', 2],
      ['file_containing_symbol', 'inference.GRPCInferenceService.ModelInfer', 2],
      ['file_containing_symbol', 'inference.ModelConfig', 1],
      ['file_containing_symbol', 'inference.ModelConfig.backend', 1],
      ['file_containing_symbol', reflection, 1],
    ])('finds %s %s, with %i files in all', async (kind, name, count) => {
      expect(await ask({ [kind]: name })).toMatchObject({
        file_descriptor_response: {
          file_descriptor_proto: Array.from({ length: count }, () => expect.any(String)),
        },
      });
    });

    it.each<[Readonly<Record<string, string | object>>, string]>([
      [{ file_by_filename: 'x.proto' }, "file 'x.proto' is not known"],
      [{ file_containing_symbol: 'inference.Nope' }, "symbol 'inference.Nope' is not known"],
      [{ file_containing_symbol: '' }, "symbol '' is not known"],
      [{ file_containing_extension: { extension_number: 1 } }, 'there are no extensions'],
      [{ all_extension_numbers_of_type: 'Nope' }, "type 'Nope' is not known"],
    ])('says of %j that it is not there', async (request, error_message) => {
      expect(await ask(request)).toMatchObject({
        error_response: { error_code: 5, error_message },
      });
    });

    it('knows messages without extensions, and no other questions', async () => {
      expect(await ask({ all_extension_numbers_of_type: 'inference.ModelConfig' })).toMatchObject({
        all_extension_numbers_response: { base_type_name: 'inference.ModelConfig' },
      });
      expect(await ask({})).toMatchObject({ error_response: { error_code: 12 } });
    });
  },
);

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
