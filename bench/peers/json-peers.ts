import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findFreePorts, startServer } from '../child-server.js';
import { plainJson, v2Json } from '../wire-form.js';
import { environmentFolder, type Peer, type PeerModel, type PeerServer } from './peer.js';

/**
 * One process, as it starts by default, with what makes it quick: orjson and numpy in the
 * application, uvloop and httptools below it.
 */
export const fastApi: Peer = {
  name: 'FastAPI',
  environment: 'fastapi',
  wire: plainJson,
  async start({ root, models }) {
    const [port = 0] = await findFreePorts(1);
    const folder = environmentFolder(root, 'fastapi');
    return withoutGrpc(
      await startServer({
        program: join(folder, 'bin/python'),
        args: [
          ...['-m', 'uvicorn', 'fastapi_app:app', '--app-dir', join(root, 'bench/peers')],
          ...['--host', '127.0.0.1', '--port', String(port), '--log-level', 'warning'],
          ...['--no-access-log', '--loop', 'uvloop', '--http', 'httptools'],
        ],
        env: { PEER_MODELS: describeModels(models) },
        url: `http://127.0.0.1:${port}`,
        readyPath: '/ready',
      }),
    );
  },
};

/** The same with the types of FastAPI's tutorial, for inputs of two dimensions. */
export const typedFastApi: Peer = {
  ...fastApi,
  name: 'FastAPI, typed',
  wire: { ...plainJson, path: (model) => `/typed/${model}` },
};

export const litServe: Peer = {
  name: 'LitServe',
  environment: 'litserve',
  wire: plainJson,
  async start({ root, models }) {
    const [port = 0] = await findFreePorts(1);
    const folder = environmentFolder(root, 'litserve');
    return withoutGrpc(
      await startServer({
        program: join(folder, 'bin/python'),
        args: [join(root, 'bench/peers/litserve_app.py'), String(port)],
        env: { PEER_MODELS: describeModels(models) },
        url: `http://127.0.0.1:${port}`,
        readyPath: '/health',
      }),
    );
  },
};

/** In one process, which is faster here than its default of worker processes. */
export const mlServer: Peer = {
  name: 'MLServer',
  environment: 'mlserver',
  wire: v2Json,
  async start({ root, directory, models }) {
    const folder = environmentFolder(root, 'mlserver');
    const [httpPort = 0, grpcPort = 0, metricsPort = 0] = await findFreePorts(3);
    const settings = {
      host: '127.0.0.1',
      http_port: httpPort,
      grpc_port: grpcPort,
      metrics_port: metricsPort,
      parallel_workers: 0,
      debug: false,
    };
    await writeFile(join(directory, 'settings.json'), JSON.stringify(settings));
    await copyFile(join(root, 'bench/peers/mlserver_onnx.py'), join(directory, 'mlserver_onnx.py'));
    for (const { model, modelFile, threads, maxBatchSize } of models) {
      await mkdir(join(directory, model));
      const modelSettings = {
        name: model,
        implementation: 'mlserver_onnx.OnnxModel',
        max_batch_size: maxBatchSize,
        max_batch_time: batchTimeSecs,
        parameters: { uri: modelFile, extra: { threads } },
      };
      await writeFile(join(directory, model, 'model-settings.json'), JSON.stringify(modelSettings));
    }
    const server = await startServer({
      program: join(folder, 'bin/mlserver'),
      args: ['start', directory],
      env: { PYTHONPATH: directory },
      url: `http://127.0.0.1:${httpPort}`,
      readyPath: '/v2/health/ready',
    });
    return { ...server, grpcAddress: `127.0.0.1:${grpcPort}` };
  },
};

/** What its documentation calls adaptive batching; it waits this long for more requests. */
const batchTimeSecs = 0.001;

function withoutGrpc(server: Omit<PeerServer, 'grpcAddress'>): PeerServer {
  return { ...server, grpcAddress: undefined };
}

function describeModels(models: readonly PeerModel[]): string {
  return JSON.stringify(
    models.map(({ model, modelFile, threads, maxBatchSize }) => ({
      name: model,
      file: modelFile,
      threads,
      max_batch_size: maxBatchSize,
    })),
  );
}
