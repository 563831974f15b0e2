import { systemClock } from '../../../src/clock.js';
import { noParameters } from '../../../src/inference/infer-request.js';
import type { InferenceResponse } from '../../../src/inference/infer-response.js';
import { startTiming } from '../../../src/inference/request-timing.js';
import type { Tensor } from '../../../src/inference/tensor.js';
import type {
  ModelConfig,
  ModelInput,
  ModelOutput,
} from '../../../src/model-config/model-config.js';
import { CachingScheduler } from '../../../src/scheduling/caching-scheduler.js';
import { planEnsemble } from '../../../src/scheduling/ensemble-plan.js';
import { EnsembleScheduler } from '../../../src/scheduling/ensemble-scheduler.js';
import { PendingRequest } from '../../../src/scheduling/pending-request.js';
import { LocalResponseCache } from '../../../src/scheduling/response-cache.js';
import type { Scheduler } from '../../../src/scheduling/scheduler.js';

/** Bytes of each of the two tensors of a request: FP32 [1,16]. */
const tensorBytes = 64;

const handle = { cancel() {}, pause() {}, resume() {} };

function tensor(name: string, first = 0): Tensor {
  const bytes = new Uint8Array(tensorBytes);
  bytes[0] = first;
  return { name, datatype: 'FP32', shape: [1, 16], encoding: 'raw', bytes };
}

/**
 * Nanoseconds that an ensemble adds for each of its `steps`, with members that answer at once: what
 * is left is handing tensors on.
 */
export function measureEnsembleStep(steps: number, requests: number): number {
  const member = config('member', ['X0', 'X1'], ['Y0', 'Y1'], {});
  const ensemble = config('ensemble', ['t0', 'u0'], [`t${steps}`, `u${steps}`], {
    ensemble_scheduling: {
      step: Array.from({ length: steps }, (_, index) => ({
        model_name: 'member',
        model_version: -1,
        model_namespace: '',
        input_map: { X0: `t${index}`, X1: `u${index}` },
        output_map: { Y0: `t${index + 1}`, Y1: `u${index + 1}` },
      })),
    },
  });
  const plan = planEnsemble(ensemble, () => ({ config: member, isDecoupled: false }));
  const response: InferenceResponse = {
    modelName: 'member',
    modelVersion: '1',
    id: '',
    parameters: noParameters,
    outputs: [tensor('Y0'), tensor('Y1')],
  };
  const scheduler = new EnsembleScheduler(
    plan,
    '1',
    (_, handler) => {
      handler.respond(response);
      handler.complete();
      return handle;
    },
    systemClock,
    () => {},
  );
  return timePerRequest(scheduler, [tensor('t0'), tensor('u0')], requests) / steps;
}

/** Nanoseconds of a request that the local cache answers, key included. */
export function measureCacheHit(requests: number): number {
  const model: Scheduler = {
    queuedRequests: 0,
    inFlightRequests: 0,
    enqueue(pending) {
      pending.respond({
        modelName: 'm',
        modelVersion: '1',
        id: '',
        parameters: noParameters,
        outputs: [tensor('Y0'), tensor('Y1')],
      });
      pending.complete();
    },
    drain: () => Promise.resolve(),
    destroy() {},
  };
  let misses = 0;
  const scheduler = new CachingScheduler(
    model,
    new LocalResponseCache(1 << 20),
    { modelName: 'm', modelVersion: '1', generation: 'g' },
    systemClock,
    {
      cacheHit() {},
      cacheMiss() {
        misses += 1;
      },
    },
  );
  const took = timePerRequest(scheduler, [tensor('X0', 1), tensor('X1', 2)], requests);
  if (misses !== 1) throw new Error(`${misses} misses, expected the first request alone`);
  return took;
}

function timePerRequest(scheduler: Scheduler, inputs: readonly Tensor[], requests: number): number {
  let answered = 0;
  const handler = {
    respond(response: InferenceResponse) {
      answered += response.outputs.length;
    },
    complete() {},
    fail() {},
  };
  const startNs = systemClock.nowNs();
  for (let index = 0; index < requests; index += 1) {
    scheduler.enqueue(
      new PendingRequest(
        {
          modelName: 'm',
          modelVersion: '',
          id: '',
          parameters: noParameters,
          priority: 0,
          timeoutUs: 0,
          sequence: undefined,
          inputs,
          requestedOutputs: [],
          prefersJsonText: false,
        },
        1,
        inputs,
        startTiming(0),
        handler,
        () => {},
      ),
    );
  }
  const tookNs = systemClock.nowNs() - startNs;
  if (answered !== 2 * requests) throw new Error(`${answered} outputs for ${requests} requests`);
  return tookNs / requests;
}

function config(
  name: string,
  inputs: readonly string[],
  outputs: readonly string[],
  fields: Partial<ModelConfig>,
): ModelConfig {
  return {
    name,
    platform: '',
    backend: '',
    runtime: '',
    max_batch_size: 8,
    input: inputs.map(
      (input): ModelInput => ({
        name: input,
        data_type: 'TYPE_FP32',
        format: 'FORMAT_NONE',
        dims: [16],
        is_shape_tensor: false,
        allow_ragged_batch: false,
        optional: false,
        is_non_linear_format_io: false,
      }),
    ),
    output: outputs.map(
      (output): ModelOutput => ({
        name: output,
        data_type: 'TYPE_FP32',
        dims: [16],
        label_filename: '',
        is_shape_tensor: false,
        is_non_linear_format_io: false,
      }),
    ),
    batch_input: [],
    batch_output: [],
    instance_group: [],
    default_model_filename: '',
    cc_model_filenames: {},
    metric_tags: {},
    parameters: {},
    model_warmup: [],
    ...fields,
  };
}

if (import.meta.url === `file://${process.argv[1]}`) {
  measureEnsembleStep(3, 20_000);
  measureCacheHit(20_000);
  for (const steps of [1, 3, 10]) {
    const ns = measureEnsembleStep(steps, 50_000);
    console.log(`ensemble of ${steps} steps: ${ns.toFixed(0)} ns a step`);
  }
  console.log(`cache hit: ${measureCacheHit(100_000).toFixed(0)} ns a request`);
}
