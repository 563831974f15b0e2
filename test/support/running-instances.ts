import { fileURLToPath } from 'node:url';
import { type Clock, systemClock } from '../../src/clock.js';
import { InferenceServerError } from '../../src/errors.js';
import { InstancePool } from '../../src/execution/instance-pool.js';
import type { MetricUpdate } from '../../src/execution/messages.js';
import type { HostServices, InstancePoolOptions } from '../../src/execution/model-instances.js';
import type { InferenceRequest } from '../../src/inference/infer-request.js';
import type { InferenceResponse } from '../../src/inference/infer-response.js';
import type { Tensor } from '../../src/inference/tensor.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import type { PendingRequest } from '../../src/scheduling/pending-request.js';
import type { ResponseEvent } from '../../src/server/execution-recorder.js';
import { ModelExecutor } from '../../src/server/model-executor.js';
import { observedRequest } from './pending-requests.js';

const root = new URL('../..', import.meta.url);
const workerFile = fileURLToPath(new URL('dist/workers/instance-worker.js', root));
const modelsFolder = fileURLToPath(new URL('test/fixtures/models/', root));

/** A model of test/fixtures/models, its instances in threads of their own. */
export interface RunningModel {
  readonly pool: InstancePool;
  readonly executor: ModelExecutor;
  readonly config: ModelConfig;
  readonly logs: string[];
  readonly metrics: MetricUpdate[];
  readonly responseEvents: ResponseEvent[];
  /** Rows of every execution that succeeded. */
  readonly executions: number[];
  /** Runs requests as one batch once an instance is idle; settled outcomes in order. */
  run(...requests: readonly TestRequest[]): Promise<Outcome[]>;
  /** The same without waiting for an idle instance. */
  runAhead(...requests: readonly TestRequest[]): Promise<Outcome[]>;
}

export interface TestRequest {
  readonly inputs: readonly Tensor[];
  readonly rows?: number;
  readonly overrides?: Partial<InferenceRequest>;
  /** Gets the pending request before it runs, to cancel or pause it. */
  readonly onStart?: (pending: PendingRequest) => void;
}

export interface Outcome {
  readonly responses: readonly InferenceResponse[];
  readonly error: InferenceServerError | undefined;
}

export interface ModelOptions extends Partial<InstancePoolOptions> {
  readonly folder?: string;
  readonly services?: Partial<HostServices>;
  readonly clock?: Clock;
}

export function instanceGroup(count: number, changes = {}): ModelConfig['instance_group'][number] {
  return {
    name: 'm',
    kind: 'KIND_CPU',
    count,
    gpus: [],
    secondary_devices: [],
    profile: [],
    passive: false,
    host_policy: '',
    ...changes,
  };
}

/** Pools that a test file has opened, to be closed after each test. */
export class RunningModels {
  readonly #pools: InstancePool[] = [];

  newPool(folder: string, config: ModelConfig, options: ModelOptions, services: HostServices) {
    const pool = new InstancePool(
      {
        workerFile,
        modelName: config.name,
        modelVersion: '1',
        modelDirectory: `${modelsFolder}${folder}`,
        versionDirectory: `${modelsFolder}${folder}/1`,
        backend: config.backend,
        backendConfig: {},
        config,
        isAutoCompleteEnabled: true,
        cores: 2,
        logVerboseLevel: 0,
        executionTimeoutMs: 0,
        startTimeoutMs: 20_000,
        finalizeTimeoutMs: 200,
        readinessTimeoutMs: 300,
        heapMiBMax: 0,
        ...options,
      },
      services,
      options.clock ?? systemClock,
    );
    this.#pools.push(pool);
    return pool;
  }

  async start(
    folder: string,
    config: ModelConfig,
    options: ModelOptions = {},
  ): Promise<RunningModel> {
    const logs: string[] = [];
    const metrics: MetricUpdate[] = [];
    const responseEvents: ResponseEvent[] = [];
    const executions: number[] = [];
    const refuse = () =>
      Promise.reject(new InferenceServerError('UNAVAILABLE', 'not in this test'));
    const services: HostServices = {
      log: (_level, message) => logs.push(message),
      updateMetric: (update) => metrics.push(update),
      callModel: (_request, handler) => {
        handler.fail(new InferenceServerError('NOT_FOUND', 'no models in this test'));
        return { cancel() {}, pause() {}, resume() {} };
      },
      loadModel: refuse,
      unloadModel: refuse,
      isModelReady: async () => false,
      ...options.services,
    };
    const pool = this.newPool(folder, config, options, services);
    const complete = await pool.start((completed) => completed ?? config);
    const executor = new ModelExecutor(pool, '1', complete, {
      executed: (rows) => executions.push(rows),
      responded: (event) => responseEvents.push(event),
    });
    let wake: (() => void)[] = [];
    executor.onIdle(() => {
      const waiting = wake;
      wake = [];
      for (const resolve of waiting) resolve();
    });
    const run = async (...requests: readonly TestRequest[]): Promise<Outcome[]> => {
      while (executor.idleInstances === 0) {
        await new Promise<void>((resolve) => wake.push(resolve));
      }
      return runAhead(...requests);
    };
    const runAhead = async (...requests: readonly TestRequest[]): Promise<Outcome[]> => {
      const started = requests.map((request) => startRequest(complete.name, request));
      executor.execute(started.map(({ pending }) => pending));
      return Promise.all(started.map(({ outcome }) => outcome));
    };
    return {
      pool,
      executor,
      config: complete,
      logs,
      metrics,
      responseEvents,
      executions,
      run,
      runAhead,
    };
  }

  async closeAll(): Promise<void> {
    await Promise.all(this.#pools.splice(0).map((pool) => pool.destroy()));
  }
}

function startRequest(modelName: string, request: TestRequest) {
  let settle: (outcome: Outcome) => void = () => {};
  const outcome = new Promise<Outcome>((resolve) => {
    settle = resolve;
  });
  const observed = observedRequest(
    { modelName, inputs: request.inputs, ...request.overrides },
    request.rows ?? 1,
    ({ responses, end }) => settle({ responses, error: end?.error }),
  );
  request.onStart?.(observed.pending);
  return { pending: observed.pending, outcome };
}

export function fp32(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  return { name, datatype: 'FP32', shape, encoding: 'raw', bytes };
}

export function int32(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  const bytes = new Uint8Array(Int32Array.from(values).buffer);
  return { name, datatype: 'INT32', shape, encoding: 'raw', bytes };
}

export function text(
  name: string,
  shape: readonly number[],
  ...elements: readonly string[]
): Tensor {
  const parts = elements.flatMap((element) => {
    const encoded = Buffer.from(element);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(encoded.byteLength);
    return [length, encoded];
  });
  return {
    name,
    datatype: 'BYTES',
    shape,
    encoding: 'raw',
    bytes: new Uint8Array(Buffer.concat(parts)),
  };
}

/** The numbers of output `name` of the first response. */
export function numbersOf(outcome: Outcome | undefined, name: string): readonly number[] {
  const output = outcome?.responses[0]?.outputs.find((candidate) => candidate.name === name);
  if (output === undefined) throw new Error(`no output ${name}: ${outcome?.error?.message}`);
  const { buffer } = output.bytes.slice();
  return [...(output.datatype === 'FP32' ? new Float32Array(buffer) : new Int32Array(buffer))];
}
