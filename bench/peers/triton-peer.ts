import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findFreePorts, startServer } from '../child-server.js';
import type { TensorDims } from '../scenario.js';
import { v2Binary } from '../wire-form.js';
import { environmentFolder, type Peer, type PeerModel, type PeerServer } from './peer.js';

/**
 * The reference server itself with its Python backend: add_sub in numpy, everything else in
 * onnxruntime, which it has no backend for in this build.
 */
export const triton: Peer = {
  name: 'Triton',
  environment: 'triton',
  wire: v2Binary,
  async start({ root, directory, models }) {
    for (const model of models) {
      const source = model.model === 'add_sub' ? 'python_add_sub.py' : 'triton_onnx.py';
      await writePythonModel(directory, model, join(root, 'bench/peers', source));
    }
    return startTriton(root, directory);
  },
};

/** It on a model repository. */
export async function startTriton(root: string, repository: string): Promise<PeerServer> {
  const [httpPort = 0, grpcPort = 0, metricsPort = 0] = await findFreePorts(3);
  const server = await startServer({
    program: join(root, 'test/conformance/golden/run_triton.sh'),
    args: [
      environmentFolder(root, 'triton'),
      repository,
      ...[httpPort, grpcPort, metricsPort].map(String),
      '--allow-gpu-metrics=false',
      '--log-info=false',
    ],
    url: `http://127.0.0.1:${httpPort}`,
    readyPath: '/v2/health/ready',
  });
  return { ...server, grpcAddress: `127.0.0.1:${grpcPort}` };
}

/** A model of the Python backend in a repository; `maxBatchSize` 0 is a model without batches. */
export async function writePythonModel(
  repository: string,
  { model, modelFile, inputs, outputs, maxBatchSize, threads }: PeerModel,
  sourceFile: string,
): Promise<void> {
  const version = join(repository, model, '1');
  await mkdir(version, { recursive: true });
  await copyFile(sourceFile, join(version, 'model.py'));
  const config = [
    'backend: "python"',
    `max_batch_size: ${maxBatchSize}`,
    ...formatTensors('input', inputs),
    ...formatTensors('output', outputs),
    ...(maxBatchSize > 0 ? ['dynamic_batching { }'] : []),
    'instance_group [ { kind: KIND_CPU count: 1 } ]',
    formatParameter('file', modelFile),
    formatParameter('threads', String(threads)),
  ];
  await writeFile(join(repository, model, 'config.pbtxt'), `${config.join('\n')}\n`);
}

function formatTensors(kind: string, tensors: TensorDims): readonly string[] {
  return Object.entries(tensors).map(
    ([name, dims]) =>
      `${kind} [ { name: "${name}" data_type: TYPE_FP32 dims: [ ${dims.join(', ')} ] } ]`,
  );
}

function formatParameter(key: string, value: string): string {
  return `parameters { key: "${key}" value { string_value: "${value}" } }`;
}
