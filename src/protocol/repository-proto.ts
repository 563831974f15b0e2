import { invalidArg } from '../errors.js';
import { ProtoReader } from './reader-proto.js';

/*
 * Requests of the model repository extension. They are read by hand because a load request may
 * hold a model's files.
 */

/** `RepositoryIndexRequest`. */
export interface IndexRequest {
  readonly repositoryName: string;
  readonly isReadyOnly: boolean;
}

/** INVALID_ARG where the bytes are no such message. */
export function readIndexRequest(bytes: Uint8Array): IndexRequest {
  const reader = new ProtoReader(bytes);
  let repositoryName = '';
  let isReadyOnly = false;
  while (reader.next()) {
    if (reader.tag === 10) repositoryName = reader.text();
    else if (reader.tag === 16) isReadyOnly = reader.bool();
    else reader.skip();
  }
  return { repositoryName, isReadyOnly };
}

/** `RepositoryModelLoadRequest`, its parameters told apart. */
export interface LoadRequest {
  readonly repositoryName: string;
  readonly modelName: string;
  /** A model configuration as JSON text. */
  readonly config: string | undefined;
  /** Path relative to the model's folder → content, a view of the message. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/** INVALID_ARG where the bytes are no such message, or a parameter has the wrong type. */
export function readLoadRequest(bytes: Uint8Array): LoadRequest {
  const { repositoryName, modelName, parameters } = readModelRequest(bytes);
  const files = new Map<string, Uint8Array>();
  let config: string | undefined;
  for (const [name, value] of parameters) {
    if (name === 'config') {
      if (typeof value !== 'string') throw wrongKind(name, 'string_param');
      config = value;
    } else if (name.startsWith('file:')) {
      if (!(value instanceof Uint8Array)) throw wrongKind(name, 'bytes_param');
      files.set(name.slice('file:'.length), value);
    } else {
      throw invalidArg(`unrecognized load parameter '${name}'`);
    }
  }
  return { repositoryName, modelName, config, files };
}

/** `RepositoryModelUnloadRequest`. */
export interface UnloadRequest {
  readonly repositoryName: string;
  readonly modelName: string;
  readonly unloadDependents: boolean;
}

/** INVALID_ARG where the bytes are no such message, or a parameter has the wrong type. */
export function readUnloadRequest(bytes: Uint8Array): UnloadRequest {
  const { repositoryName, modelName, parameters } = readModelRequest(bytes);
  const value = parameters.get('unload_dependents') ?? false;
  if (typeof value !== 'boolean') {
    throw invalidArg("invalid value type for 'unload_dependents' parameter, expected bool_param.");
  }
  return { repositoryName, modelName, unloadDependents: value };
}

/** Value of a `ModelRepositoryParameter`; undefined where its oneof is empty. */
type RepositoryParameter = boolean | bigint | string | Uint8Array | undefined;

interface ModelRequest {
  readonly repositoryName: string;
  readonly modelName: string;
  readonly parameters: ReadonlyMap<string, RepositoryParameter>;
}

function readModelRequest(bytes: Uint8Array): ModelRequest {
  const reader = new ProtoReader(bytes);
  const parameters = new Map<string, RepositoryParameter>();
  let repositoryName = '';
  let modelName = '';
  while (reader.next()) {
    if (reader.tag === 10) repositoryName = reader.text();
    else if (reader.tag === 18) modelName = reader.text();
    else if (reader.tag === 26) addParameter(parameters, reader.message());
    else reader.skip();
  }
  return { repositoryName, modelName, parameters };
}

function addParameter(parameters: Map<string, RepositoryParameter>, entry: ProtoReader): void {
  let name = '';
  let value: RepositoryParameter;
  while (entry.next()) {
    if (entry.tag === 10) name = entry.text();
    else if (entry.tag === 18) value = readParameter(entry.message());
    else entry.skip();
  }
  parameters.set(name, value);
}

function readParameter(reader: ProtoReader): RepositoryParameter {
  let value: RepositoryParameter;
  while (reader.next()) {
    if (reader.tag === 8) value = reader.bool();
    else if (reader.tag === 16) value = reader.int64();
    else if (reader.tag === 26) value = reader.text();
    else if (reader.tag === 34) value = reader.bytes();
    else reader.skip();
  }
  return value;
}

function wrongKind(name: string, expected: string): Error {
  return invalidArg(`invalid value type for load parameter '${name}', expected ${expected}.`);
}
