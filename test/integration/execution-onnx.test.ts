import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { Datatype } from '../../src/inference/datatype.js';
import type { Tensor } from '../../src/inference/tensor.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import type { PendingRequest } from '../../src/scheduling/pending-request.js';
import { modelConfig, modelInput, modelOutput } from '../support/model-configs.js';
import {
  fp32,
  instanceGroup,
  numbersOf,
  type Outcome,
  RunningModels,
  type TestRequest,
  text,
} from '../support/running-instances.js';

const models = new RunningModels();

afterEach(() => models.closeAll());

function start(folder: string, changes: Partial<ModelConfig> = {}, options = {}) {
  return models.start(folder, modelConfig({ backend: 'onnxruntime', ...changes }), options);
}

const sixteen = (value: number) => Array.from({ length: 16 }, () => value);
const addSub = (rows: number, left: number, right: number) => ({
  rows,
  inputs: [
    fp32('INPUT0', [rows, 16], Array.from({ length: rows }, () => sixteen(left)).flat()),
    fp32('INPUT1', [rows, 16], Array.from({ length: rows }, () => sixteen(right)).flat()),
  ],
});

describe('an ONNX model', () => {
  it('completes its configuration from the file', async () => {
    const { config } = await start('onnx_add_sub');
    expect(config.max_batch_size).toBe(4);
    expect(config.input.map(({ name, data_type, dims }) => [name, data_type, dims])).toEqual([
      ['INPUT0', 'TYPE_FP32', [16]],
      ['INPUT1', 'TYPE_FP32', [16]],
    ]);
    expect(config.output.map(({ name }) => name)).toEqual(['OUTPUT0', 'OUTPUT1']);
    expect(config.dynamic_batching).toBeDefined();
  });

  it('takes its default largest batch from the backend settings', async () => {
    const backendConfig = { 'default-max-batch-size': '9' };
    const { config } = await start('onnx_add_sub', {}, { backendConfig });
    expect(config.max_batch_size).toBe(9);
  });

  it('answers each request of a batch with its own rows', async () => {
    const model = await start('onnx_add_sub');
    const outcomes = await model.run(addSub(1, 1, 2), addSub(2, 30, 4), addSub(1, 5, 5));
    expect(outcomes.map((outcome) => numbersOf(outcome, 'OUTPUT0'))).toEqual([
      sixteen(3),
      [...sixteen(34), ...sixteen(34)],
      sixteen(10),
    ]);
    expect(outcomes.map(({ responses }) => responses[0]?.outputs[1]?.shape)).toEqual([
      [1, 16],
      [2, 16],
      [1, 16],
    ]);
    expect(model.executions).toEqual([4]);
  });

  it('takes one execution more while it runs another one, and answers both', async () => {
    const model = await start('onnx_add_sub', { instance_group: [instanceGroup(1)] });
    const { executor } = model;
    // An execution of more than 5 ms, for want of a core, lets nothing wait behind the next one.
    let first = model.run(addSub(2, 1, 2));
    while (!Number.isFinite(executor.aheadRowsMin)) {
      await first;
      first = model.run(addSub(2, 1, 2));
    }
    expect([executor.idleInstances, executor.aheadRowsMin]).toEqual([0, 2]);
    const second = model.runAhead(addSub(2, 30, 4));
    expect([executor.idleInstances, executor.aheadRowsMin]).toEqual([0, Number.POSITIVE_INFINITY]);
    const sums = (await Promise.all([first, second])).flat();
    expect(sums.map((outcome) => numbersOf(outcome, 'OUTPUT0')[0])).toEqual([3, 34]);
    expect(executor.idleInstances).toBe(1);
  });

  it('joins inputs by name where requests list them in different order', async () => {
    const model = await start('onnx_add_sub');
    const swapped = addSub(1, 9, 4);
    swapped.inputs.reverse();
    const outcomes = await model.run(addSub(1, 1, 2), swapped);
    expect(outcomes.map((outcome) => numbersOf(outcome, 'OUTPUT1')[0])).toEqual([-1, 5]);
  });

  it('gives each request the outputs that it asked for', async () => {
    const model = await start('onnx_add_sub');
    const asking = (...requestedOutputs: string[]) => ({
      ...addSub(1, 1, 1),
      overrides: { requestedOutputs },
    });
    const outcomes = await model.run(asking('OUTPUT1'), asking('OUTPUT0'), asking());
    expect(outcomes.map(({ responses }) => responses[0]?.outputs.map(({ name }) => name))).toEqual([
      ['OUTPUT1'],
      ['OUTPUT0'],
      ['OUTPUT0', 'OUTPUT1'],
    ]);
  });

  it('loads external weights from the folder that stands for the file', async () => {
    const model = await start('onnx_external_weights');
    const [outcome] = await model.run({ inputs: [fp32('X', [1, 4], [1, 2, 3, 4])] });
    expect(numbersOf(outcome, 'Y')).toEqual([3, 6, 9, 12]);
  });

  it('keeps the value of an initializer that is a graph input too', async () => {
    const model = await start('onnx_optional_bias');
    const [outcome] = await model.run({ inputs: [fp32('X', [1, 4], [1, 2, 3, 4])] });
    expect(numbersOf(outcome, 'Y')).toEqual([11, 12, 13, 14]);
  });

  it('shows a scalar as a shape of 1', async () => {
    const model = await start('onnx_scalar');
    expect(model.config.input[0]?.dims).toEqual([1]);
    const [outcome] = await model.run({ inputs: [fp32('X', [1], [5])] });
    expect(numbersOf(outcome, 'Y')).toEqual([-5]);
    expect(outcome?.responses[0]?.outputs[0]?.shape).toEqual([1]);
  });

  it('runs without a batch dimension where its first dimension is fixed', async () => {
    const model = await start('onnx_fixed_batch');
    expect(model.config.max_batch_size).toBe(0);
    expect(model.config.input[0]?.dims).toEqual([2, 4]);
    const [outcome] = await model.run({ inputs: [fp32('X', [2, 4], [1, 2, 3, 4, 5, 6, 7, 8])] });
    expect(numbersOf(outcome, 'Y')).toEqual([-1, -2, -3, -4, -5, -6, -7, -8]);
  });

  it('shows reshaped outputs as the configuration does', async () => {
    const model = await start('onnx_add_sub', {
      max_batch_size: 4,
      input: ['INPUT0', 'INPUT1'].map((name) => modelInput(name, 'TYPE_FP32', [16])),
      output: [modelOutput('OUTPUT0', 'TYPE_FP32', [4, 4], { reshape: { shape: [16] } })],
    });
    const outcomes = await model.run(addSub(1, 1, 2), addSub(2, 3, 4));
    expect(outcomes.map(({ responses }) => responses[0]?.outputs[0]?.shape)).toEqual([
      [1, 4, 4],
      [2, 4, 4],
    ]);
  });
});

describe('every datatype of the runtime passes through unchanged', () => {
  const bytesOf = (view: ArrayBufferView) => new Uint8Array(view.buffer);
  const values: readonly [Datatype, Uint8Array][] = [
    ['BOOL', Uint8Array.of(0, 1)],
    ['UINT8', Uint8Array.of(0, 255)],
    ['UINT16', bytesOf(Uint16Array.of(1, 65_535))],
    ['UINT32', bytesOf(Uint32Array.of(1, 4_294_967_295))],
    ['UINT64', bytesOf(BigUint64Array.of(1n, 18_446_744_073_709_551_615n))],
    ['INT8', bytesOf(Int8Array.of(-128, 127))],
    ['INT16', bytesOf(Int16Array.of(-32_768, 32_767))],
    ['INT32', bytesOf(Int32Array.of(-2_147_483_648, 2_147_483_647))],
    ['INT64', bytesOf(BigInt64Array.of(-9_223_372_036_854_775_808n, 9_223_372_036_854_775_807n))],
    ['FP16', bytesOf(Uint16Array.of(0x3c00, 0x7bff))],
    ['FP32', bytesOf(Float32Array.of(-0, Number.NaN))],
    ['FP64', bytesOf(Float64Array.of(Number.MIN_VALUE, Number.NEGATIVE_INFINITY))],
    ['BYTES', text('', [], 'ä€😀', '').bytes],
  ];
  const tensor = (datatype: Datatype, bytes: Uint8Array): Tensor => ({
    name: `IN_${datatype}`,
    datatype,
    shape: [1, 2],
    encoding: 'raw',
    bytes,
  });
  const inputs = values.map(([datatype, bytes]) => tensor(datatype, bytes));

  it.each(['onnx_identity', 'js_identity'])('%s', async (folder) => {
    const isOnnx = folder.startsWith('onnx');
    const model = await start(folder, {
      backend: isOnnx ? 'onnxruntime' : 'javascript',
      max_batch_size: 4,
      input: values.map(([type]) => modelInput(`IN_${type}`, configType(type), [-1])),
      output: values.map(([type]) => modelOutput(`OUT_${type}`, configType(type), [-1])),
    });
    const outcomes = await model.run({ inputs }, { inputs });
    for (const { error, responses } of outcomes) {
      expect(error).toBeUndefined();
      const outputs = responses[0]?.outputs ?? [];
      expect(outputs.map(({ name, bytes }) => [name, Buffer.from(bytes).toString('hex')])).toEqual(
        values.map(([type, bytes]) => [`OUT_${type}`, Buffer.from(bytes).toString('hex')]),
      );
    }
  });

  it('an empty tensor keeps its shape', async () => {
    const model = await start('onnx_identity');
    const empty = values.map(([datatype]) => ({
      ...tensor(datatype, new Uint8Array(0)),
      shape: [1, 0],
    }));
    const [outcome] = await model.run({ inputs: empty });
    for (const output of outcome?.responses[0]?.outputs ?? []) {
      expect([output.name, output.shape, output.bytes.byteLength]).toEqual([
        output.name,
        [1, 0],
        0,
      ]);
    }
    expect(outcome?.responses[0]?.outputs).toHaveLength(values.length);
  });

  const badStrings: readonly [string, Buffer, string][] = [
    ['bytes that are no UTF-8', Buffer.from([1, 0, 0, 0, 0xff]), 'element 0 of input'],
    ['a NUL', Buffer.from([2, 0, 0, 0, 0x61, 0]), 'has a NUL, where strings of ONNX Runtime end'],
  ];
  it.each(badStrings)('refuses %s, which its strings would change', async (_, bytes, message) => {
    const model = await start('onnx_identity');
    const one = (datatype: Datatype, raw: Uint8Array): Tensor => ({
      ...tensor(datatype, raw),
      shape: [1, 1],
    });
    const [outcome] = await model.run({
      inputs: values.map(([type, raw]) =>
        one(type, type === 'BYTES' ? bytes : raw.slice(0, raw.byteLength / 2)),
      ),
    });
    expect(outcome?.error?.code).toBe('INVALID_ARG');
    expect(outcome?.error?.message).toContain(message);
  });
});

describe('an ONNX model that fails', () => {
  it('reports what the runtime says and answers the next request', async () => {
    const model = await start('onnx_gather');
    const index = (value: bigint): Tensor => ({
      name: 'INDEX',
      datatype: 'INT64',
      shape: [1, 1],
      encoding: 'raw',
      bytes: new Uint8Array(BigInt64Array.of(value).buffer),
    });
    const [bad] = await model.run({ inputs: [index(9n)] });
    expect(bad?.error?.code).toBe('INTERNAL');
    expect(bad?.error?.message).toContain('onnx runtime error: ');
    expect(bad?.error?.message).toContain('idx=9');
    const [good] = await model.run({ inputs: [index(2n)] });
    expect(numbersOf(good, 'Y')).toEqual([3]);
  });

  it('whose output has other rows than its batch fails all of it and says which output', async () => {
    const model = await start('onnx_unique_rows');
    const one = { inputs: [fp32('X', [1, 4], [1, 2, 3, 4])] };
    const outcomes = await model.run(one, one);
    for (const { error } of outcomes) {
      expect(error?.code).toBe('INTERNAL');
      expect(error?.message).toBe(
        "model 'm' version 1: output 'Y' has shape [1,4], expected a first dimension of 2, " +
          'the rows of the batch',
      );
    }
  });

  const loads: readonly [string, string, Partial<ModelConfig>, string][] = [
    ['has no file', 'onnx_missing', {}, "unable to find 'model.onnx' for model 'm'"],
    [
      'is no ONNX file',
      'js_sum',
      { default_model_filename: 'model.js' },
      'Load model from model.onnx failed:Protobuf parsing failed.',
    ],
    [
      'names an unknown accelerator',
      'onnx_add_sub',
      { optimization: accelerators({ cpu_execution_accelerator: [accelerator('npu')] }) },
      "unknown Execution Accelerator 'npu' is requested",
    ],
    [
      'wants a GPU that is not there',
      'onnx_add_sub',
      { instance_group: [instanceGroup(1, { kind: 'KIND_GPU' })] },
      "model 'm': execution provider cuda can't be used: ",
    ],
    [
      'has a wrong execution mode',
      'onnx_add_sub',
      { parameters: { execution_mode: { string_value: '2' } } },
      "model 'm': parameter 'execution_mode' is '2', expected an integer from 0 to 1",
    ],
    [
      'has an input of another datatype',
      'onnx_add_sub',
      {
        max_batch_size: 1,
        input: ['INPUT0', 'INPUT1'].map((name) => modelInput(name, 'TYPE_INT32', [16])),
        output: [modelOutput('OUTPUT0', 'TYPE_FP32', [16])],
      },
      "configuration expects datatype TYPE_INT32 for input 'INPUT0', model provides TYPE_FP32",
    ],
    [
      'has a fixed first dimension and a largest batch',
      'onnx_fixed_batch',
      {
        max_batch_size: 2,
        input: [modelInput('X', 'TYPE_FP32', [4])],
        output: [modelOutput('Y', 'TYPE_FP32', [4])],
      },
      'and the first dimension must be -1',
    ],
  ];
  it.each(loads)('that %s does not load', async (_, folder, changes, message) => {
    await expect(start(folder, changes)).rejects.toThrow(message);
  });

  it('that wants a GPU if there is one runs on the CPU, and the log says so', async () => {
    const model = await start('onnx_add_sub', {
      instance_group: [instanceGroup(1, { kind: 'KIND_AUTO' })],
      optimization: accelerators({ gpu_execution_accelerator: [accelerator('cuda')] }),
    });
    expect(numbersOf((await model.run(addSub(1, 1, 2)))[0], 'OUTPUT0')).toEqual(sixteen(3));
    expect(model.logs.join()).toContain('the CPU runs the model');
  });
});

describe('a call of the runtime that is under way', () => {
  // Ending a thread in the middle of a call aborts the process: these tests would not fail, but die.
  const times = (count: number): { readonly inputs: readonly Tensor[] } => ({
    inputs: [
      {
        name: 'TIMES',
        datatype: 'INT64',
        shape: [1],
        encoding: 'raw',
        bytes: new Uint8Array(BigInt64Array.of(BigInt(count)).buffer),
      },
    ],
  });

  it('fails its request when it takes too long, and is replaced when it has returned', async () => {
    const model = await start('onnx_slow', {}, { executionTimeoutMs: 100 });
    const [late] = await model.run(times(2000));
    expect(late?.error?.code).toBe('UNAVAILABLE');
    expect(late?.error?.message).toContain('took longer than 100 ms');
    expect(numbersOf((await model.run(times(1)))[0], 'Y')).toEqual([0]);
  });

  it('gives back what waits behind an execution that takes too long', async () => {
    const model = await start('onnx_slow', {}, { executionTimeoutMs: 100 });
    const { executor } = model;
    const returned = new Promise<readonly PendingRequest[]>((resolve) =>
      executor.onReturned(resolve),
    );
    let late: Promise<Outcome[]> | undefined;
    // One more is taken only after an execution of at most 5 ms, and cores may be busy.
    do {
      await late;
      for (let round = 0; round < 2; round += 1) await model.run(times(1));
      late = model.run(times(10_000));
    } while (!Number.isFinite(executor.aheadRowsMin));
    const waiting = model.runAhead(times(1));
    const given = await returned;
    expect((await late)[0]?.error?.message).toContain('took longer than 100 ms');
    expect(given.map(({ state }) => state)).toEqual(['executing']);
    // Its scheduler runs it again; here that is the test.
    await model.run(times(1));
    executor.execute(given);
    expect(numbersOf((await waiting)[0], 'Y')).toEqual([0]);
  });

  it('fails its request when the model is destroyed, which waits until it has returned', async () => {
    const model = await start('onnx_slow');
    const running = model.run(times(1000));
    const destroyed = Promise.all([model.pool.destroy(), model.pool.destroy()]);
    expect((await running)[0]?.error?.code).toBe('UNAVAILABLE');
    await destroyed;
  });

  it('of a load is waited for when the load is given up', async () => {
    const reasons: string[] = [];
    for (let attempt = 0; attempt < 8; attempt += 1) {
      const load = start('onnx_slow').catch((error: Error) => reasons.push(error.message));
      // Some way into the load, each time another one; the last may be through.
      await pause(attempt * 10);
      await models.closeAll();
      await load;
    }
    expect(reasons.length).toBeGreaterThan(0);
    expect(new Set(reasons)).toEqual(new Set(["model 'm' version 1: the load was given up"]));
  });
});

describe('many threads at once', () => {
  it('four instances answer 400 runs, each with its own numbers', async () => {
    const model = await start('onnx_add_sub', { instance_group: [instanceGroup(4)] });
    const outcomes = await Promise.all(
      Array.from({ length: 400 }, (_, index) => model.run(addSub(2, index, 1))),
    );
    expect(outcomes.map(([outcome]) => numbersOf(outcome, 'OUTPUT0')[31])).toEqual(
      Array.from({ length: 400 }, (_, index) => index + 1),
    );
  });

  it('100 small requests at once keep their bytes, whatever buffer they came in', async () => {
    const model = await start('onnx_add_sub');
    // Small Buffers are slices of Node's shared pool: moving one would take its neighbours along.
    const pooled = (index: number): TestRequest => ({
      inputs: ['INPUT0', 'INPUT1'].map((name) => ({
        ...fp32(name, [1, 16], []),
        bytes: Buffer.from(new Uint8Array(Float32Array.from(sixteen(index)).buffer)),
      })),
    });
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, (_, index) => model.run(pooled(index))),
    );
    expect(outcomes.map(([outcome]) => numbersOf(outcome, 'OUTPUT0')[7])).toEqual(
      Array.from({ length: 100 }, (_, index) => 2 * index),
    );
  });

  it('large batches keep their numbers while their buffers are used again', async () => {
    const model = await start('onnx_optional_bias', {
      max_batch_size: 100_000,
      input: [modelInput('X', 'TYPE_FP32', [4])],
      output: [modelOutput('Y', 'TYPE_FP32', [4])],
      instance_group: [instanceGroup(2)],
    });
    const request = (index: number) => {
      const rows = 8000 + 100 * (index % 7);
      const values = Array.from({ length: 4 * rows }, (_, at) => index + (at % 3));
      return { rows, inputs: [fp32('X', [rows, 4], values)] };
    };
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, (_, index) => model.run(request(index), request(index + 100))),
    );
    for (const [index, pair] of outcomes.entries()) {
      for (const [at, outcome] of pair.entries()) {
        const [first] = request(index + 100 * at).inputs;
        const sent = new Float32Array(first?.bytes.slice().buffer ?? new ArrayBuffer(0));
        expect(numbersOf(outcome, 'Y')).toEqual([...sent.map((value) => value + 10)]);
      }
    }
  });

  it('50 loads and unloads end all their threads', async () => {
    for (let cycle = 0; cycle < 50; cycle += 1) {
      const model = await start('onnx_add_sub');
      expect(numbersOf((await model.run(addSub(1, cycle, 1)))[0], 'OUTPUT1')[0]).toBe(cycle - 1);
      await model.pool.close();
    }
    const ports = process.getActiveResourcesInfo().filter((name) => name === 'MessagePort');
    expect(ports.length).toBeLessThan(10);
  });
});

function configType(datatype: Datatype): string {
  return datatype === 'BYTES' ? 'TYPE_STRING' : `TYPE_${datatype}`;
}

function accelerator(name: string) {
  return { name, parameters: {} };
}

function accelerators(changes: object): NonNullable<ModelConfig['optimization']> {
  return {
    priority: 'PRIORITY_DEFAULT',
    execution_accelerators: {
      gpu_execution_accelerator: [],
      cpu_execution_accelerator: [],
      ...changes,
    },
    gather_kernel_buffer_threshold: 0,
    eager_batching: false,
  };
}
