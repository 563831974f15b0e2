import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { OnnxLoopOrder, OnnxLoopReport } from './onnx-loop.js';
import type { Scenario } from './scenario.js';

/** Runs the model alone, called from one thread of this process, at each batch size. */
export async function measureOnnxLoop(
  scenario: Scenario,
  batchSizes: readonly number[],
  threads: number,
  seconds: number,
): Promise<readonly OnnxLoopReport[]> {
  const order: OnnxLoopOrder = {
    modelFile: scenario.modelFile,
    inputs: scenario.inputs,
    batchSizes,
    threads,
    seconds,
  };
  const worker = new Worker(new URL('./onnx-loop.js', import.meta.url), { workerData: order });
  // The thread posts its reports, or an error event rejects.
  const [reports] = (await once(worker, 'message')) as [readonly OnnxLoopReport[]];
  await worker.terminate();
  return reports;
}
