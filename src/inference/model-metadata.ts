import type { Datatype } from './datatype.js';

/** Name, datatype and full shape of a model's input or output; -1 is a variable dimension. */
export interface TensorMetadata {
  readonly name: string;
  readonly datatype: Datatype;
  /** With -1 in front when the model batches. */
  readonly shape: readonly number[];
}

/** What a client may ask of a model before it infers: `ModelMetadataResponse` of the protocol. */
export interface ModelMetadata {
  readonly name: string;
  /** Versions that are READY, or the one asked for. */
  readonly versions: readonly string[];
  readonly platform: string;
  readonly inputs: readonly TensorMetadata[];
  readonly outputs: readonly TensorMetadata[];
}

/** `ServerMetadataResponse` of the protocol. */
export interface ServerMetadata {
  readonly name: string;
  readonly version: string;
  readonly extensions: readonly string[];
}

/** States of the repository index, in the reference server's words. */
export type ModelReadyState = 'UNKNOWN' | 'READY' | 'UNAVAILABLE' | 'LOADING' | 'UNLOADING';

/** One row of the repository index. A model that was never loaded has only a name. */
export interface RepositoryIndexEntry {
  readonly name: string;
  /** Where namespacing is on; not told to clients, as by the reference server. */
  readonly namespace?: string;
  readonly version?: string;
  readonly state?: ModelReadyState;
  /** Why it is not READY; absent when it is. */
  readonly reason?: string;
}
