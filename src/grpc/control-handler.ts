import { unsupported } from '../errors.js';
import { modelConfigToProto } from '../model-config/config-document.js';
import { encodeMessage, readModelVersionRequest } from '../protocol/control-proto.js';
import {
  readIndexRequest,
  readLoadRequest,
  readUnloadRequest,
} from '../protocol/repository-proto.js';
import { statisticsDocument } from '../protocol/statistics-wire.js';
import { ProtoWriter } from '../protocol/writer-proto.js';
import type { InferenceServer } from '../server/inference-server.js';

const emptyMessage = new Uint8Array(0);

/** What the server and its models are, and which models it serves. */
export class ControlHandler {
  readonly #server: InferenceServer;

  constructor(server: InferenceServer) {
    this.#server = server;
  }

  serverLive(): Uint8Array {
    return boolMessage(this.#server.isLive());
  }

  serverReady(): Uint8Array {
    return boolMessage(this.#server.isReady());
  }

  /** An unknown model is not ready; only a version that is no number is an error. */
  async modelReady(message: Uint8Array): Promise<Uint8Array> {
    const { name, version } = readModelVersionRequest(message);
    return boolMessage(await this.#server.isModelReady(name, version));
  }

  serverMetadata(): Uint8Array {
    return encodeMessage('inference.ServerMetadataResponse', this.#server.serverMetadata());
  }

  async modelMetadata(message: Uint8Array): Promise<Uint8Array> {
    const { name, version } = readModelVersionRequest(message);
    await this.#server.whenServed(name);
    const metadata = this.#server.modelMetadata(name, version);
    return encodeMessage('inference.ModelMetadataResponse', metadata);
  }

  async modelConfig(message: Uint8Array): Promise<Uint8Array> {
    const { name, version } = readModelVersionRequest(message);
    await this.#server.whenServed(name);
    const config = modelConfigToProto(this.#server.modelConfig(name, version));
    return new ProtoWriter().bytes(10, config).finish();
  }

  modelStatistics(message: Uint8Array): Uint8Array {
    const { name, version } = readModelVersionRequest(message);
    const statistics = statisticsDocument(this.#server.statistics(name, version));
    return encodeMessage('inference.ModelStatisticsResponse', statistics);
  }

  async repositoryIndex(message: Uint8Array): Promise<Uint8Array> {
    const { repositoryName, isReadyOnly } = readIndexRequest(message);
    refuseRepositoryName(repositoryName);
    const models = await this.#server.repositoryIndex(isReadyOnly);
    return encodeMessage('inference.RepositoryIndexResponse', { models });
  }

  async load(message: Uint8Array): Promise<Uint8Array> {
    const { repositoryName, modelName, config, files } = readLoadRequest(message);
    refuseRepositoryName(repositoryName);
    await this.#server.loadModel(modelName, { config, files });
    return emptyMessage;
  }

  async unload(message: Uint8Array): Promise<Uint8Array> {
    const { repositoryName, modelName, unloadDependents } = readUnloadRequest(message);
    refuseRepositoryName(repositoryName);
    await this.#server.unloadModel(modelName, unloadDependents);
    return emptyMessage;
  }
}

function boolMessage(value: boolean): Uint8Array {
  return value ? new ProtoWriter().bool(8, true).finish() : emptyMessage;
}

function refuseRepositoryName(repositoryName: string): void {
  if (repositoryName !== '') {
    throw unsupported("'repository_name' specification is not supported");
  }
}
