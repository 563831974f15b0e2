import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { ChildServer } from '../child-server.js';
import type { TensorDims } from '../scenario.js';
import type { WireForm } from '../wire-form.js';

/** A model as every peer can be told of it. */
export interface PeerModel {
  readonly model: string;
  readonly modelFile: string;
  readonly inputs: TensorDims;
  readonly outputs: TensorDims;
  readonly maxBatchSize: number;
  /** Of onnxruntime, for an operator. */
  readonly threads: number;
}

/** How a peer is started. */
export interface PeerSetting {
  /** The project's folder. */
  readonly root: string;
  /** An empty folder for its files. */
  readonly directory: string;
  readonly models: readonly PeerModel[];
}

/** Another server that can answer the same requests. */
export interface Peer {
  readonly name: string;
  /** In .tools/peers. */
  readonly environment: string;
  readonly wire: WireForm;
  start(setting: PeerSetting): Promise<PeerServer>;
}

export interface PeerServer extends ChildServer {
  /** Where it serves gRPC, host:port. */
  readonly grpcAddress: string | undefined;
}

export function environmentFolder(root: string, environment: string): string {
  const folder = join(root, '.tools/peers', environment);
  if (!existsSync(join(folder, 'complete'))) {
    throw new Error(`${environment} is not installed: bench/peers/setup.sh ${environment}`);
  }
  return folder;
}
