import { fromJson, type JsonObject, toBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { messageDescriptor } from '../../src/proto/descriptors.js';
import {
  decodeMessage,
  encodeMessage,
  readModelVersionRequest,
  readName,
  readVersion,
} from '../../src/protocol/control-proto.js';
import {
  readIndexRequest,
  readLoadRequest,
  readUnloadRequest,
} from '../../src/protocol/repository-proto.js';
import { readRegionRegistration } from '../../src/protocol/shared-memory-proto.js';

function encode(typeName: string, document: JsonObject): Uint8Array {
  const descriptor = messageDescriptor(`inference.${typeName}`);
  return toBinary(descriptor, fromJson(descriptor, document));
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

describe('readVersion', () => {
  it.each([
    ['', ''],
    ['-1', ''],
    ['1', '1'],
    ['01', '1'],
    [' +7', '7'],
    ['12abc', '12'],
    ['0', '0'],
    ['9223372036854775807', '9223372036854775807'],
  ])('reads %j as %j', (text, version) => {
    expect(readVersion(text)).toBe(version);
  });

  it.each(['abc', '+', '9223372036854775808', ' '])('refuses %j', (text) => {
    expect(() => readVersion(text)).toThrow(
      `failed to get model version from specified version string '${text}' (details: stol), version should be an integral value > 0`,
    );
  });
});

describe('requests that manage the server', () => {
  it('name a model and its version', () => {
    const bytes = encode('ModelMetadataRequest', { name: 'm', version: '02' });
    expect(readModelVersionRequest(bytes)).toEqual({ name: 'm', version: '2' });
    expect(readName(bytes)).toBe('m');
  });

  it('list repositories', () => {
    const bytes = encode('RepositoryIndexRequest', { repository_name: 'r', ready: true });
    expect(readIndexRequest(bytes)).toEqual({ repositoryName: 'r', isReadyOnly: true });
    expect(readIndexRequest(new Uint8Array(0)).isReadyOnly).toBe(false);
  });

  it('load a model with a configuration and files', () => {
    const request = readLoadRequest(
      encode('RepositoryModelLoadRequest', {
        model_name: 'm',
        parameters: {
          config: { string_param: '{}' },
          'file:1/model.py': { bytes_param: base64('print()') },
        },
      }),
    );
    expect(request).toMatchObject({ repositoryName: '', modelName: 'm', config: '{}' });
    expect([...request.files]).toEqual([['1/model.py', new Uint8Array(Buffer.from('print()'))]]);
  });

  it.each<[JsonObject, string]>([
    [
      { config: { bytes_param: '' } },
      "invalid value type for load parameter 'config', expected string_param.",
    ],
    [
      { 'file:x': { string_param: '' } },
      "invalid value type for load parameter 'file:x', expected bytes_param.",
    ],
    [{ other: { bool_param: true } }, "unrecognized load parameter 'other'"],
  ])('refuse load parameters %j', (parameters, message) => {
    const bytes = encode('RepositoryModelLoadRequest', { model_name: 'm', parameters });
    expect(() => readLoadRequest(bytes)).toThrow(message);
  });

  it('unload a model, with its dependents or without', () => {
    const unload = (parameters: JsonObject) =>
      readUnloadRequest(encode('RepositoryModelUnloadRequest', { model_name: 'm', parameters }));
    expect(unload({}).unloadDependents).toBe(false);
    expect(unload({ unload_dependents: { bool_param: true } }).unloadDependents).toBe(true);
    expect(() => unload({ unload_dependents: { string_param: 'true' } })).toThrow(
      "invalid value type for 'unload_dependents' parameter, expected bool_param.",
    );
  });

  it('register a region', () => {
    const region = { name: 'n', key: '/k', offset: '5', byte_size: '4294967296' };
    expect(readRegionRegistration(encode('SystemSharedMemoryRegisterRequest', region))).toEqual({
      name: 'n',
      key: '/k',
      offset: 5,
      byteSize: 4294967296,
    });
  });

  it('are decoded by their descriptors and refused where they are none', () => {
    const document = { settings: { log_info: { bool_param: false } } };
    const bytes = encodeMessage('inference.LogSettingsRequest', document);
    expect(decodeMessage('inference.LogSettingsRequest', bytes)).toEqual(document);
    expect(() => decodeMessage('inference.LogSettingsRequest', Uint8Array.of(0x0a, 5))).toThrow(
      'the request is not a valid protobuf message',
    );
  });
});
