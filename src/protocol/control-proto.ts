import { fromBinary, fromJson, type JsonValue, toBinary, toJson } from '@bufbuild/protobuf';
import { invalidArg } from '../errors.js';
import { messageDescriptor } from '../proto/descriptors.js';
import { ProtoReader } from './reader-proto.js';

/*
 * Messages of calls that manage the server. They are small and rare, so they are made from their
 * JSON form by their descriptors; infer messages have codecs of their own.
 */

/** `document` is the message's JSON form, with the names of the .proto files. */
export function encodeMessage(typeName: string, document: unknown): Uint8Array {
  const descriptor = messageDescriptor(typeName);
  // What is no JSON value, or not one of this message, is refused there.
  return toBinary(descriptor, fromJson(descriptor, document as JsonValue));
}

/** The JSON form of a message; fields at their default are left out. Throws INVALID_ARG. */
export function decodeMessage(typeName: string, bytes: Uint8Array): JsonValue {
  const descriptor = messageDescriptor(typeName);
  try {
    return toJson(descriptor, fromBinary(descriptor, bytes), { useProtoFieldName: true });
  } catch (cause) {
    throw invalidArg('the request is not a valid protobuf message', cause);
  }
}

/** The first field of a request, by which a model or a region is named. */
export function readName(bytes: Uint8Array): string {
  const reader = new ProtoReader(bytes);
  let name = '';
  while (reader.next()) {
    if (reader.tag === 10) name = reader.text();
    else reader.skip();
  }
  return name;
}

/** `ModelMetadataRequest` and its like. */
export interface ModelVersionRequest {
  readonly name: string;
  /** Decimal, '' for the version by policy. */
  readonly version: string;
}

/** A message whose fields 1 and 2 are model and version. INVALID_ARG where it cannot be read. */
export function readModelVersionRequest(bytes: Uint8Array): ModelVersionRequest {
  const reader = new ProtoReader(bytes);
  let name = '';
  let version = '';
  while (reader.next()) {
    if (reader.tag === 10) name = reader.text();
    else if (reader.tag === 18) version = reader.text();
    else reader.skip();
  }
  return { name, version: readVersion(version) };
}

const int64Max = 0x7fffffffffffffffn;

/**
 * A version as its decimal number, read as C's `strtol` reads it; '' and -1 are the one by policy.
 * Throws INVALID_ARG with the reference server's text.
 */
export function readVersion(text: string): string {
  if (text === '') return '';
  const digits = /^\s*[+-]?\d+/.exec(text)?.[0].trim().replace(/^\+/, '');
  const version = digits === undefined ? undefined : BigInt(digits);
  if (version === undefined || version > int64Max || version < -int64Max) {
    throw invalidArg(
      `failed to get model version from specified version string '${text}' (details: stol), version should be an integral value > 0`,
    );
  }
  return version === -1n ? '' : String(version);
}
