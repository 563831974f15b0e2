import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { reflect } from '@bufbuild/protobuf/reflect';
import { describe, expect, it } from 'vitest';
import {
  messageDescriptor,
  protoRegistry,
  serviceDescriptor,
} from '../../src/proto/descriptors.js';

const folder = new URL('../../src/proto/', import.meta.url);

describe('compiled descriptors', () => {
  it('are what the .proto files say', () => {
    const script = fileURLToPath(new URL('generate-descriptors.mjs', folder));
    const compiled = execFileSync(process.execPath, [script, '--print'], { encoding: 'utf8' });
    expect(readFileSync(new URL('descriptor-set.ts', folder), 'utf8')).toBe(compiled);
  }, 30_000);

  it('are decoded once', () => {
    expect(protoRegistry()).toBe(protoRegistry());
  });

  it.each([
    ['inference.GRPCInferenceService', 20],
    ['grpc.health.v1.Health', 3],
  ])('hold service %s with its %i methods', (name, count) => {
    expect(serviceDescriptor(name).methods).toHaveLength(count);
  });

  it('tell streams from single calls', () => {
    const kinds = serviceDescriptor('inference.GRPCInferenceService').methods.map((method) => [
      method.name,
      method.methodKind,
    ]);
    expect(kinds.filter(([, kind]) => kind !== 'unary')).toEqual([
      ['ModelStreamInfer', 'bidi_streaming'],
    ]);
  });

  it('write and read a message', () => {
    const descriptor = messageDescriptor('inference.ModelReadyRequest');
    const request = reflect(descriptor, create(descriptor));
    const name = descriptor.field['name'];
    expect(name?.number).toBe(1);
    if (name === undefined) return;
    request.set(name, 'add_sub');
    const copy = reflect(descriptor, fromBinary(descriptor, toBinary(descriptor, request.message)));
    expect(copy.get(name)).toBe('add_sub');
  });

  it('complain about a name that no .proto file has', () => {
    expect(() => messageDescriptor('inference.NoSuch')).toThrow("no message 'inference.NoSuch'");
    expect(() => serviceDescriptor('inference.NoSuch')).toThrow("no service 'inference.NoSuch'");
  });
});
