import type { Clock } from '../clock.js';
import { type InferenceServerError, invalidArg } from '../errors.js';
import type { InstancePool } from '../execution/instance-pool.js';
import type { ResponseHandler } from '../inference/infer-response.js';
import { startTiming } from '../inference/request-timing.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { PendingRequest } from '../scheduling/pending-request.js';
import type { ExecutionRecorder } from './execution-recorder.js';
import { ModelExecutor } from './model-executor.js';
import type { RequestValidator } from './request-validation.js';
import { readWarmupSamples, type WarmupSample } from './warmup.js';

/**
 * Runs every warm-up sample on every instance before the model is READY. Statistics do not count
 * it. The first failure fails the load.
 */
export async function runWarmup(
  config: ModelConfig,
  version: string,
  modelDirectory: string,
  validate: RequestValidator,
  pool: InstancePool,
  clock: Clock,
): Promise<void> {
  if (config.model_warmup.length === 0 || config.sequence_batching !== undefined) return;
  const samples = await readWarmupSamples(config, version, modelDirectory);
  const executor = new ModelExecutor(pool, version, config, uncounted);
  for (const sample of samples) {
    for (let run = 0; run < sample.count; run += 1) {
      // Every call takes another idle instance, so that one round reaches all of them.
      const runs = Array.from({ length: pool.idleInstances }, () =>
        runOnce(sample, validate, executor, clock),
      );
      await Promise.all(runs);
    }
  }
}

function runOnce(
  sample: WarmupSample,
  validate: RequestValidator,
  executor: ModelExecutor,
  clock: Clock,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: InferenceServerError) =>
      reject(invalidArg(`warm-up sample '${sample.name}' failed: ${error.message}`, error));
    const handler: ResponseHandler = { respond() {}, complete: resolve, fail };
    const { rows, modelInputs } = validate(sample.request);
    const timing = startTiming(clock.nowNs());
    executor.execute([
      new PendingRequest(sample.request, rows, modelInputs, timing, handler, () => {}),
    ]);
  });
}

const uncounted: ExecutionRecorder = {
  executed() {},
  responded() {},
};
