import { parentPort, workerData } from 'node:worker_threads';
import * as onnx from 'onnxruntime-node';

/** What one thread running onnxruntime in a loop is asked for. */
export interface OnnxLoopOrder {
  readonly modelFile: string;
  /** Each input's FP32 dims without the batch. */
  readonly inputs: Readonly<Record<string, readonly number[]>>;
  readonly batchSizes: readonly number[];
  /** Threads of an operator. */
  readonly threads: number;
  readonly seconds: number;
}

/** The limit that no server can pass: rows a second of onnxruntime alone, called from one thread. */
export interface OnnxLoopReport {
  readonly batchSize: number;
  readonly rowsPerSec: number;
}

const warmUpRuns = 20;

async function measure(order: OnnxLoopOrder): Promise<readonly OnnxLoopReport[]> {
  const session = await onnx.InferenceSession.create(order.modelFile, {
    intraOpNumThreads: order.threads,
    interOpNumThreads: 1,
  });
  const reports: OnnxLoopReport[] = [];
  for (const batchSize of order.batchSizes) {
    const feeds = createFeeds(order.inputs, batchSize);
    for (let run = 0; run < warmUpRuns; run++) await session.run(feeds);
    const start = performance.now();
    const endMs = start + order.seconds * 1000;
    let runs = 0;
    while (performance.now() < endMs) {
      await session.run(feeds);
      runs += 1;
    }
    const elapsedSecs = (performance.now() - start) / 1000;
    reports.push({ batchSize, rowsPerSec: (runs * batchSize) / elapsedSecs });
  }
  await session.release();
  return reports;
}

function createFeeds(
  inputs: OnnxLoopOrder['inputs'],
  batchSize: number,
): Record<string, onnx.Tensor> {
  const feeds: Record<string, onnx.Tensor> = {};
  for (const [name, dims] of Object.entries(inputs)) {
    const shape = [batchSize, ...dims];
    const elements = shape.reduce((product, dim) => product * dim, 1);
    const data = Float32Array.from({ length: elements }, (_, index) => (index % 17) / 17);
    feeds[name] = new onnx.Tensor('float32', data, shape);
  }
  return feeds;
}

// workerData is what bench/limits.ts passes.
parentPort?.postMessage(await measure(workerData as OnnxLoopOrder));
