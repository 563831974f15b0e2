import assert from 'node:assert/strict';
import {
  createFileRegistry,
  type DescMessage,
  type DescService,
  type FileRegistry,
  fromBinary,
} from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { descriptorSetBase64 } from './descriptor-set.js';

// Written once: decoding takes about 10 ms, so a process that reads no configuration and opens no
// gRPC port never does it.
let registry: FileRegistry | undefined;

/** Descriptors of `inference.*` and `grpc.health.v1.*`, decoded at the first call. */
export function protoRegistry(): FileRegistry {
  registry ??= createFileRegistry(
    fromBinary(FileDescriptorSetSchema, Buffer.from(descriptorSetBase64, 'base64')),
  );
  return registry;
}

/** The message named, for example `inference.ModelConfig`. */
export function messageDescriptor(typeName: string): DescMessage {
  const descriptor = protoRegistry().getMessage(typeName);
  assert(descriptor !== undefined, `no message '${typeName}' in the .proto files, this is a bug`);
  return descriptor;
}

/** The service named, for example `inference.GRPCInferenceService`. */
export function serviceDescriptor(typeName: string): DescService {
  const descriptor = protoRegistry().getService(typeName);
  assert(descriptor !== undefined, `no service '${typeName}' in the .proto files, this is a bug`);
  return descriptor;
}
