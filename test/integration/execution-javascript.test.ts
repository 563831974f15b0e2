import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { InferenceServerError } from '../../src/errors.js';
import type { HostServices } from '../../src/execution/model-instances.js';
import type { InferenceRequest } from '../../src/inference/infer-request.js';
import type { InferenceResponse, ResponseHandler } from '../../src/inference/infer-response.js';
import type { PendingRequest } from '../../src/scheduling/pending-request.js';
import { modelConfig, modelInput, modelOutput } from '../support/model-configs.js';
import {
  fp32,
  instanceGroup,
  int32,
  numbersOf,
  type Outcome,
  RunningModels,
  text,
} from '../support/running-instances.js';

const models = new RunningModels();

afterEach(() => models.closeAll());

const stringsOf = (outcome: Outcome | undefined): readonly string[] => {
  const bytes = outcome?.responses[0]?.outputs[0]?.bytes ?? new Uint8Array(0);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const strings: string[] = [];
  for (let at = 0; at < bytes.byteLength; ) {
    const length = view.getUint32(at, true);
    strings.push(new TextDecoder().decode(bytes.subarray(at + 4, at + 4 + length)));
    at += 4 + length;
  }
  return strings;
};

describe('the short form of a JavaScript model', () => {
  it('is one function of the rows of the whole batch', async () => {
    const model = await models.start(
      'js_sum',
      modelConfig({
        max_batch_size: 8,
        input: [modelInput('X', 'TYPE_FP32', [2])],
        output: [modelOutput('Y', 'TYPE_FP32', [2]), modelOutput('ROWS', 'TYPE_INT32', [1])],
      }),
    );
    const outcomes = await model.run(
      { inputs: [fp32('X', [1, 2], [1, 2])] },
      { rows: 2, inputs: [fp32('X', [2, 2], [3, 4, 5, 6])] },
    );
    expect(outcomes.map((outcome) => numbersOf(outcome, 'Y'))).toEqual([
      [2, 3],
      [4, 5, 6, 7],
    ]);
    expect(outcomes.map((outcome) => numbersOf(outcome, 'ROWS'))).toEqual([[3], [3, 3]]);
  });

  it('may be an ES module that a compiler turned into CommonJS', async () => {
    const model = await models.start(
      'js_compiled',
      modelConfig({
        default_model_filename: 'model.cjs',
        input: [modelInput('X', 'TYPE_FP32', [2])],
        output: [modelOutput('Y', 'TYPE_FP32', [2])],
      }),
    );
    const [outcome] = await model.run({ inputs: [fp32('X', [2], [1, 2])] });
    expect(numbersOf(outcome, 'Y')).toEqual([2, 3]);
  });
});

describe('the long form of a JavaScript model', () => {
  it('completes its configuration, knows itself, and sees id and parameters', async () => {
    const model = await models.start('js_auto', modelConfig({ name: 'auto' }));
    expect(model.config.input.map(({ name }) => name)).toEqual(['X']);
    const [outcome] = await model.run({
      inputs: [text('X', [1], 'x')],
      overrides: {
        id: 'seven',
        parameters: new Map<string, string | bigint>([
          ['small', 5n],
          ['large', 9_007_199_254_740_993n],
          ['word', 'w'],
        ]),
      },
    });
    const [seen, id] = stringsOf(outcome);
    expect(JSON.parse(seen ?? '')).toMatchObject({
      modelName: 'auto',
      modelVersion: '1',
      modelConfig: 'auto',
      modelInstanceName: 'auto_0',
      hasHost: true,
    });
    expect(id).toBe('seven');
    expect(outcome?.responses[0]?.id).toBe('seven');
    expect([...(outcome?.responses[0]?.parameters ?? [])]).toEqual([
      ['small', 5n],
      ['large', 9_007_199_254_740_993n],
      ['word', 'w'],
      ['count', 2n],
      ['ratio', 0.5],
    ]);
  });

  it.each([
    ['yes', true],
    ['no', false],
    ['neither', false],
    ['never', false],
  ])('answers %s to the question whether it is ready', async (answer, isReady) => {
    const config = modelConfig({
      max_batch_size: 1,
      input: [modelInput('MODE', 'TYPE_STRING', [1])],
      output: [modelOutput('LENGTH', 'TYPE_INT32', [1])],
    });
    const model = await models.start('js_ready', config);
    expect(await model.pool.isReady()).toBe(true);
    await model.run({ inputs: [text('MODE', [1, 1], answer)] });
    expect(await model.pool.isReady()).toBe(isReady);
  });
});

describe('tensors as JSON text', () => {
  const json = (name: string, shape: number[], value: string) => ({
    name,
    datatype: 'FP32' as const,
    shape,
    encoding: 'json' as const,
    bytes: Buffer.from(value),
  });
  const cases: readonly [string, string, boolean][] = [
    ['a model that works on whole batches', 'js_sum', false],
    ['a model that works on whole batches (ONNX)', 'onnx_optional_bias', true],
  ];
  it.each(cases)('are decoded for %s, and fail alone', async (_, folder, isOnnx) => {
    const model = await models.start(
      folder,
      modelConfig({
        backend: isOnnx ? 'onnxruntime' : 'javascript',
        max_batch_size: 8,
        input: [modelInput('X', 'TYPE_FP32', [4])],
        output: isOnnx
          ? [modelOutput('Y', 'TYPE_FP32', [4])]
          : [modelOutput('Y', 'TYPE_FP32', [4]), modelOutput('ROWS', 'TYPE_INT32', [1])],
      }),
    );
    const [good, short, raw] = await model.run(
      { inputs: [json('X', [1, 4], '[[1,2,3,4]]')] },
      { inputs: [json('X', [1, 4], '[1,2,3]')] },
      { inputs: [fp32('X', [1, 4], [5, 6, 7, 8])] },
    );
    const added = isOnnx ? 10 : 1;
    expect(numbersOf(good, 'Y')).toEqual([1 + added, 2 + added, 3 + added, 4 + added]);
    expect(numbersOf(raw, 'Y')).toEqual([5 + added, 6 + added, 7 + added, 8 + added]);
    expect(short?.error?.code).toBe('INVALID_ARG');
    expect(short?.error?.message).toContain("Unable to parse 'data'");
  });

  it('are written for large outputs of the requests that want them', async () => {
    const model = await models.start(
      'js_sum',
      modelConfig({
        max_batch_size: 8,
        input: [modelInput('X', 'TYPE_FP32', [-1])],
        output: [modelOutput('Y', 'TYPE_FP32', [-1]), modelOutput('ROWS', 'TYPE_INT32', [1])],
      }),
    );
    const values = Array.from({ length: 5000 }, (_, index) => index);
    const inputs = [fp32('X', [1, 5000], values)];
    const [asText, asBytes] = await model.run(
      { inputs, overrides: { prefersJsonText: true } },
      { inputs },
    );
    const [output, rows] = asText?.responses[0]?.outputs ?? [];
    expect([output?.encoding, rows?.encoding]).toEqual(['json', 'raw']);
    expect(JSON.parse(Buffer.from(output?.bytes ?? []).toString())).toEqual(
      values.map((value) => value + 1),
    );
    expect(numbersOf(asBytes, 'Y')).toEqual(values.map((value) => value + 1));
  });
});

describe('a decoupled JavaScript model', () => {
  const config = (decoupled: boolean) =>
    modelConfig({
      input: [modelInput('COUNT', 'TYPE_INT32', [1])],
      output: [modelOutput('INDEX', 'TYPE_INT32', [1])],
      model_transaction_policy: { decoupled },
    });
  const count = (value: number, onStart?: (pending: PendingRequest) => void) => ({
    inputs: [int32('COUNT', [1], [value])],
    ...(onStart !== undefined && { onStart }),
  });
  const indexes = (outcome: Outcome | undefined) =>
    outcome?.responses.map(({ outputs }) => outputs[0]?.bytes[0]);

  it.each(['js_generator', 'js_sender'])(
    '%s gives as many responses as it likes',
    async (folder) => {
      const model = await models.start(folder, config(true));
      for (const responses of [3, 0, 1]) {
        const [outcome] = await model.run(count(responses));
        expect(outcome?.error).toBeUndefined();
        expect(indexes(outcome)).toEqual(Array.from({ length: responses }, (_, index) => index));
      }
      expect(model.responseEvents.map(({ index, kind }) => [index, kind])).toEqual([
        [0, 'success'],
        [1, 'success'],
        [2, 'success'],
        [3, 'empty_response'],
        [0, 'empty_response'],
        [0, 'success'],
        [1, 'empty_response'],
      ]);
    },
  );

  it('ends with an error after some responses', async () => {
    const model = await models.start('js_generator', config(true));
    const [outcome] = await model.run(count(-2));
    expect(indexes(outcome)).toEqual([0, 1]);
    expect(outcome?.error).toMatchObject({ code: 'UNAVAILABLE', message: 'enough' });
  });

  it('takes the next batch while it still sends', async () => {
    const model = await models.start('js_sender', config(true));
    const outcomes = await Promise.all([model.run(count(20)), model.run(count(20))]);
    expect(outcomes.map(([outcome]) => outcome?.responses.length)).toEqual([20, 20]);
  });

  it('stops when the client has gone', async () => {
    const model = await models.start('js_sender', config(true));
    let seen = 0;
    const [outcome] = await model.run({
      ...count(2_000_000_000, (pending) => {
        const { respond } = pending;
        pending.respond = (response) => {
          respond.call(pending, response);
          seen += 1;
          if (seen === 5) pending.cancel();
        };
      }),
    });
    expect(outcome?.responses.length).toBeLessThan(10_000);
    await model.pool.drain();
  });

  it('waits while a slow reader has paused it', async () => {
    const model = await models.start('js_sender', config(true));
    let pausedAt = 0;
    let seen = 0;
    let held: PendingRequest | undefined;
    const running = model.run({
      ...count(5000, (pending) => {
        held = pending;
        const { respond } = pending;
        pending.respond = (response) => {
          respond.call(pending, response);
          seen += 1;
          if (seen === 3) pending.pause();
        };
      }),
    });
    await expect.poll(async () => seen - (await settledCount(() => seen))).toBe(0);
    pausedAt = seen;
    expect(pausedAt).toBeLessThan(5000);
    held?.resume();
    expect((await running)[0]?.responses).toHaveLength(5000);
  });

  it('fails open streams when its thread dies', async () => {
    const model = await models.start('js_sender', config(true));
    const [outcome] = await model.run(
      count(2_000_000_000, () => setTimeout(() => void model.pool.destroy(), 50)),
    );
    expect(outcome?.error?.code).toBe('UNAVAILABLE');
    expect(outcome?.error?.message).toContain('is being unloaded');
  });

  it.each([
    [0, 'expected a single response, got 0'],
    [2, 'expected a single response, got 2'],
  ])('that is not configured so fails with %i responses', async (responses, message) => {
    const model = await models.start('js_generator', config(false));
    const [outcome] = await model.run(count(responses));
    expect(outcome?.error).toMatchObject({ code: 'INTERNAL', message });
    expect(outcome?.responses).toEqual([]);
  });

  it('that is not configured so may stream its single response', async () => {
    const model = await models.start('js_generator', config(false));
    expect(indexes((await model.run(count(1)))[0])).toEqual([0]);
  });
});

/** `read()` after what is on its way has arrived. */
async function settledCount(read: () => number): Promise<number> {
  const before = read();
  await pause(30);
  return read() === before ? before : -1;
}

describe('calls of a model to other models', () => {
  const calls: InferenceRequest[] = [];
  const answer = (modelName: string): InferenceResponse => ({
    modelName,
    modelVersion: '4',
    id: '',
    parameters: new Map(),
    outputs: [fp32('Y', [1, 1], [calls.length])],
  });
  let cancelled = 0;
  const services: Partial<HostServices> = {
    callModel(request: InferenceRequest, handler: ResponseHandler) {
      calls.push(request);
      const { modelName } = request;
      if (modelName === 'absent') handler.fail(new InferenceServerError('NOT_FOUND', 'no absent'));
      else if (modelName !== 'slow') {
        const count = modelName === 'stream three' ? 3 : modelName === 'twice' ? 2 : 1;
        for (let index = 0; index < count; index += 1) handler.respond(answer(modelName));
        handler.complete();
      }
      return {
        cancel: () => {
          cancelled += 1;
          handler.fail(new InferenceServerError('CANCELLED', 'it was cancelled'));
        },
        pause() {},
        resume() {},
      };
    },
  };
  const config = modelConfig({
    input: [modelInput('MODEL', 'TYPE_STRING', [1])],
    output: [modelOutput('TEXT', 'TYPE_STRING', [-1])],
  });
  const call = (name: string, onStart?: (pending: PendingRequest) => void) => ({
    inputs: [text('MODEL', [1], name)],
    ...(onStart !== undefined && { onStart }),
  });

  it('carry tensors there and back', async () => {
    const model = await models.start('js_caller', config, { services });
    calls.length = 0;
    expect(stringsOf((await model.run(call('other')))[0])).toEqual(['other/4 1']);
    const [input] = calls[0]?.inputs ?? [];
    expect(input).toMatchObject({ name: 'X', datatype: 'FP32', shape: [1, 2] });
    expect([...new Float32Array(input?.bytes.slice().buffer ?? new ArrayBuffer(0))]).toEqual([
      1, 2,
    ]);
  });

  it('give the responses of a decoupled model one by one', async () => {
    const model = await models.start('js_caller', config, { services });
    calls.length = 0;
    expect(stringsOf((await model.run(call('stream three')))[0])).toHaveLength(3);
  });

  it.each([
    ['absent', 'NOT_FOUND', 'no absent'],
    ['twice', 'INTERNAL', 'expected a single response, got 2'],
  ])('%s: fail with the code and words of the callee', async (name, code, message) => {
    const model = await models.start('js_caller', config, { services });
    const [outcome] = await model.run(call(name));
    expect(outcome?.error).toMatchObject({ code, message });
  });

  it('are cancelled with the request they are made for', async () => {
    const model = await models.start('js_caller', config, { services });
    calls.length = 0;
    cancelled = 0;
    const running = model.run(
      call('slow', (pending) => {
        const wait = setInterval(() => {
          if (calls.length === 0) return;
          clearInterval(wait);
          pending.cancel();
        }, 5);
      }),
    );
    expect((await running)[0]?.error).toMatchObject({ code: 'CANCELLED' });
    expect(cancelled).toBe(1);
  });

  it('and logs and metrics reach the server', async () => {
    const model = await models.start('js_caller', config, { services });
    await model.run(call('other'));
    expect(model.logs).toContain('caller is ready');
    expect(model.metrics).toEqual([
      { type: 'family', name: 'caller_calls', help: 'Calls made.', kind: 'counter' },
      {
        type: 'value',
        family: 'caller_calls',
        labels: { called: 'other' },
        action: 'increment',
        value: 1,
      },
    ]);
  });
});

describe('the number of instances', () => {
  const config = modelConfig({
    max_batch_size: 4,
    input: [modelInput('MODE', 'TYPE_STRING', [1])],
    output: [modelOutput('LENGTH', 'TYPE_INT32', [1])],
    instance_group: [instanceGroup(1)],
  });
  const mode = (value: string) => ({ inputs: [text('MODE', [1, 1], value)] });
  const withCount = (count: number) => ({ ...config, instance_group: [instanceGroup(count)] });

  it('grows and shrinks in place, and a removed one finishes what it runs', async () => {
    const model = await models.start('js_faults', config, { executionTimeoutMs: 500 });
    await model.pool.setInstances(withCount(3));
    expect(model.pool.idleInstances).toBe(3);
    const running = model.run(mode('first'));
    await model.pool.setInstances(withCount(1));
    expect(numbersOf((await running)[0], 'LENGTH')).toEqual([5]);
    expect(model.pool.members().length).toBe(1);
    expect(numbersOf((await model.run(mode('a')))[0], 'LENGTH')).toEqual([1]);
  });

  it('leaves passive instances without work', async () => {
    const passive = instanceGroup(1, { name: 'p', passive: true });
    const model = await models.start('js_faults', {
      ...config,
      instance_group: [instanceGroup(1), passive],
    });
    expect(model.pool.idleInstances).toBe(1);
  });

  it('close, drain and destroy may be called again and together', async () => {
    const model = await models.start('js_faults', config);
    await Promise.all([model.pool.close(), model.pool.close(), model.pool.drain()]);
    await model.pool.destroy();
    await model.pool.destroy();
    expect(model.pool.idleInstances).toBe(0);
  });

  it('close waits for what runs', async () => {
    const model = await models.start('js_faults', config);
    const running = model.run(mode('good'));
    await model.pool.close();
    expect(numbersOf((await running)[0], 'LENGTH')).toEqual([4]);
  });
});
