import type { InferenceRequest } from '../inference/infer-request.js';
import type { InferenceHandle, ResponseHandler } from '../inference/infer-response.js';
import type {
  ModelMetadata,
  RepositoryIndexEntry,
  ServerMetadata,
} from '../inference/model-metadata.js';
import type { ModelConfig } from '../model-config/model-config.js';
import type { ModelStatistics } from '../observability/statistics.js';

/**
 * The service itself, as both front ends and the embedding API see it. Methods throw (or reject
 * with) `InferenceServerError`; versions are decimal text, '' is "by policy".
 */
export interface InferenceServer {
  /** False from the moment the process starts to end. */
  isLive(): boolean;
  isReady(): boolean;
  /** Asks the model too where it has a word on it. Unknown models are not ready; never throws. */
  isModelReady(name: string, version: string): Promise<boolean>;
  serverMetadata(): ServerMetadata;
  modelMetadata(name: string, version: string): ModelMetadata;
  modelConfig(name: string, version: string): ModelConfig;
  /** `name` '' is all models. */
  statistics(name: string, version: string): readonly ModelStatistics[];
  repositoryIndex(isReadyOnly: boolean): Promise<readonly RepositoryIndexEntry[]>;
  /** Resolves when the model is READY; rejects when the load failed. */
  loadModel(name: string, override: LoadOverride): Promise<void>;
  /** Resolves at once; running requests finish. */
  unloadModel(name: string, unloadDependents: boolean): Promise<void>;
  /** The READY model that a request would run on; NOT_FOUND or UNAVAILABLE where there is none. */
  servedModel(name: string, version: string): ServedModel;
  /**
   * Resolves when a model that loads on demand is in memory, and rejects when it cannot be;
   * undefined where there is nothing to wait for. Until then {@link servedModel} tells only what its
   * files say. {@link infer} waits by itself.
   */
  whenServed(name: string): Promise<void> | undefined;
  /**
   * Checks and queues a request. Everything that goes wrong arrives at `handler.fail`; this never
   * throws. The request's buffers belong to the server until the handler's end.
   */
  infer(request: InferenceRequest, handler: ResponseHandler): InferenceHandle;
}

/** Parameters of a repository load call: a configuration as JSON, and files that replace the folder. */
export interface LoadOverride {
  readonly config: string | undefined;
  /** Path relative to the model's folder → content. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/** What a front end must know of a model before it reads a body. */
export interface ServedModel {
  readonly name: string;
  readonly version: string;
  readonly config: ModelConfig;
  readonly isDecoupled: boolean;
  /** Output name → its labels, for the classification extension. */
  readonly labels: ReadonlyMap<string, readonly string[]>;
}
