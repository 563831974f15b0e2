import { beforeEach, describe, expect, it } from 'vitest';
import type {
  ComputeStamps,
  ErrorMessage,
  MergedExecuteTask,
  RequestsExecuteTask,
  ResponseMessage,
} from '../../src/execution/messages.js';
import type {
  ExecuteOutcome,
  ExecuteReply,
  ExecuteTask,
  ModelInstances,
  StreamCommand,
  StreamListener,
} from '../../src/execution/model-instances.js';
import {
  packTensorLists,
  packTensors,
  unpackTensors,
} from '../../src/execution/tensor-transfer.js';
import type { InferenceRequest } from '../../src/inference/infer-request.js';
import type { Tensor } from '../../src/inference/tensor.js';
import { emptyDynamicBatching } from '../../src/model-config/auto-complete.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import type { PendingRequest } from '../../src/scheduling/pending-request.js';
import type { ResponseEvent } from '../../src/server/execution-recorder.js';
import { ModelExecutor } from '../../src/server/model-executor.js';
import { modelConfig, modelInput, modelOutput } from '../support/model-configs.js';
import { type ObservedRequest, observedRequest } from '../support/pending-requests.js';

const stamps = [10, 20, 30, 40] as const;

/** One instance whose answers the test gives by hand. */
class FakeInstances implements ModelInstances {
  canRunAhead = false;
  takesBundles = true;
  readonly batchForm: 'merged' | 'requests';
  readonly tasks: ExecuteTask[] = [];
  readonly commands: StreamCommand[] = [];
  readonly listeners: (StreamListener | undefined)[] = [];
  idleInstances = 1;
  #answer: (reply: ExecuteOutcome) => void = () => {};
  #onIdle: () => void = () => {};

  constructor(batchForm: 'merged' | 'requests') {
    this.batchForm = batchForm;
  }

  execute(task: ExecuteTask, listener: StreamListener | undefined): Promise<ExecuteOutcome> {
    this.idleInstances -= 1;
    this.tasks.push(task);
    this.listeners.push(listener);
    return new Promise((resolve) => {
      this.#answer = resolve;
    });
  }

  command(command: StreamCommand): void {
    this.commands.push(command);
  }

  onIdle(listener: () => void): void {
    this.#onIdle = listener;
  }

  async reply(reply: ExecuteOutcome): Promise<void> {
    this.idleInstances += 1;
    this.#answer(reply);
    await Promise.resolve();
    this.#onIdle();
  }

  notify(requestIndex: number, value: number | undefined, isFinal: boolean, error?: ErrorMessage) {
    const { buffer, tensors } = packTensors(
      value === undefined ? [] : [uint8('OUT', [1, 1], [value])],
    );
    this.listeners.at(-1)?.onResponse({
      type: 'response',
      executionId: this.tasks.at(-1)?.executionId ?? 0,
      requestIndex,
      buffer,
      response: value === undefined ? undefined : { outputs: tensors, parameters: [] },
      error,
      isFinal,
    });
  }
}

function uint8(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  return { name, datatype: 'UINT8', shape, encoding: 'raw', bytes: Uint8Array.from(values) };
}

function merged(...outputs: readonly Tensor[]): ExecuteReply {
  const { buffer, tensors } = packTensors(outputs);
  return { type: 'executed-merged', buffer, recycled: undefined, outputs: tensors, stamps };
}

function answers(
  ...each: readonly (readonly Tensor[] | ErrorMessage | 'streamed' | 'unstarted')[]
): ExecuteReply {
  const packed = packTensorLists(each.map((one) => (isTensors(one) ? one : [])));
  const results = each.map((one, index) => {
    if (one === 'streamed' || one === 'unstarted') return { type: one };
    if (!isTensors(one)) return { type: 'error' as const, error: one };
    const { tensors, byteOffset } = packed.lists[index] ?? { tensors: [], byteOffset: 0 };
    const response: ResponseMessage = { outputs: tensors, parameters: [] };
    return { type: 'response' as const, response, byteOffset };
  });
  return {
    type: 'executed-requests',
    buffer: packed.buffer,
    results,
    stamps,
    eachStamps: undefined,
    recycled: undefined,
  };
}

/** The same as {@link answers}, of a bundle. */
function answersEach(
  eachStamps: readonly ComputeStamps[],
  ...each: readonly (readonly Tensor[] | ErrorMessage | 'unstarted')[]
): ExecuteReply {
  const reply = answers(...each);
  return reply.type === 'executed-requests' ? { ...reply, eachStamps } : reply;
}

function isTensors(
  one: readonly Tensor[] | ErrorMessage | 'streamed' | 'unstarted',
): one is readonly Tensor[] {
  return Array.isArray(one);
}

const batching = modelConfig({
  max_batch_size: 8,
  input: [modelInput('IN', 'TYPE_UINT8', [1])],
  output: [modelOutput('OUT', 'TYPE_UINT8', [1])],
});

interface Running {
  readonly instances: FakeInstances;
  readonly executor: ModelExecutor;
  readonly executed: (readonly [number, readonly number[]])[];
  readonly responded: ResponseEvent[];
  run(...requests: readonly ObservedRequest[]): void;
}

function running(form: 'merged' | 'requests', config: ModelConfig = batching): Running {
  const instances = new FakeInstances(form);
  const executed: (readonly [number, readonly number[]])[] = [];
  const responded: ResponseEvent[] = [];
  const executor = new ModelExecutor(instances, '3', config, {
    executed: (rows, reported) => executed.push([rows, reported]),
    responded: (event) => responded.push(event),
  });
  const run = (...requests: readonly ObservedRequest[]) =>
    executor.execute(requests.map(({ pending }) => pending));
  return { instances, executor, executed, responded, run };
}

function request(values: readonly number[], fields: Partial<InferenceRequest> = {}) {
  return observedRequest(
    { inputs: [uint8('IN', [values.length, 1], values)], ...fields },
    values.length,
  );
}

const outputOf = ({ responses }: ObservedRequest, name = 'OUT') => {
  const output = responses[0]?.outputs.find((candidate) => candidate.name === name);
  return output && [output.shape, [...output.bytes]];
};

const endOf = ({ end }: ObservedRequest) =>
  end && [end.error?.code, end.error?.message, end.outcome];

describe('an instance that works on whole tensors', () => {
  let model: Running;
  beforeEach(() => {
    model = running('merged');
  });

  it('gets the rows of all requests as one tensor, and each gets its own back', async () => {
    const requests = [request([1]), request([2, 3]), request([4])];
    model.run(...requests);
    const task = model.instances.tasks[0] as MergedExecuteTask;
    expect(task.type).toBe('execute-merged');
    expect(unpackTensors(task.inputs, task.buffer)).toEqual([uint8('IN', [4, 1], [1, 2, 3, 4])]);
    await model.instances.reply(merged(uint8('OUT', [4, 1], [11, 12, 13, 14])));
    expect(requests.map((one) => outputOf(one))).toEqual([
      [[1, 1], [11]],
      [
        [2, 1],
        [12, 13],
      ],
      [[1, 1], [14]],
    ]);
    expect(requests.map(endOf)).toEqual(Array(3).fill([undefined, undefined, 'SUCCESS']));
  });

  it('stamps every request with the whole execution and counts its rows once', async () => {
    const requests = [request([1]), request([2, 3])];
    model.run(...requests);
    await model.instances.reply(merged(uint8('OUT', [3, 1], [1, 2, 3])));
    for (const { pending } of requests) {
      expect(pending.timing).toMatchObject({
        computeStartNs: 10,
        computeInputEndNs: 20,
        computeOutputStartNs: 30,
        computeEndNs: 40,
      });
    }
    expect(model.executed).toEqual([[3, stamps]]);
  });

  it('answers with the model, the version that ran, and the request id', async () => {
    const one = request([1], { id: 'seven' });
    model.run(one);
    await model.instances.reply(merged(uint8('OUT', [1, 1], [1])));
    expect(one.responses[0]).toMatchObject({ modelName: 'm', modelVersion: '3', id: 'seven' });
  });

  it.each([
    [
      [['A'], ['B']],
      ['A', 'B'],
    ],
    [
      [['A', 'B'], ['B']],
      ['A', 'B'],
    ],
    [[['A'], []], []],
    [[[]], []],
  ])('is asked for the outputs of %j: %j', (asked, expected) => {
    model.run(...asked.map((requestedOutputs) => request([1], { requestedOutputs })));
    expect((model.instances.tasks[0] as MergedExecuteTask).requestedOutputs).toEqual(expected);
  });

  it('fails every request where the rows of an output are not those of the batch', async () => {
    const requests = [request([1]), request([2])];
    model.run(...requests);
    await model.instances.reply(merged(uint8('OUT', [3, 1], [1, 2, 3])));
    expect(requests.map(endOf)).toEqual(
      Array(2).fill([
        'INTERNAL',
        "model 'm' version 3: output 'OUT' has shape [3,1], expected a first dimension of 2, " +
          'the rows of the batch',
        'BACKEND',
      ]),
    );
    expect(model.executed).toEqual([]);
  });

  it('fails every request where the execution has failed', async () => {
    const requests = [request([1]), request([2])];
    model.run(...requests);
    const error = { code: 'UNAVAILABLE' as const, message: 'it took too long' };
    await model.instances.reply({ type: 'failed', error, isFatal: true });
    expect(requests.map(endOf)).toEqual(
      Array(2).fill(['UNAVAILABLE', 'it took too long', 'BACKEND']),
    );
  });

  it('gets requests one by one where an input is still text', async () => {
    const text: Tensor = {
      ...uint8('IN', [1, 1], []),
      encoding: 'json',
      bytes: Buffer.from('[7]'),
    };
    const requests = [request([1]), observedRequest({ inputs: [text] })];
    model.run(...requests);
    const task = model.instances.tasks[0] as RequestsExecuteTask;
    expect(task.type).toBe('execute-requests');
    expect(task.requests.map(({ head }) => head.inputs[0]?.encoding)).toEqual(['raw', 'json']);
    const error = { code: 'INVALID_ARG' as const, message: 'no number' };
    await model.instances.reply(answers([uint8('OUT', [1, 1], [2])], error));
    expect(outputOf(requests[0] as ObservedRequest)).toEqual([[1, 1], [2]]);
    expect(requests.map(endOf)[1]?.slice(0, 2)).toEqual(['INVALID_ARG', 'no number']);
  });

  it('hears who wants text, if anybody does', () => {
    model.run(request([1]), request([2, 3], { prefersJsonText: true }));
    expect((model.instances.tasks[0] as MergedExecuteTask).textRequests).toEqual([
      { rows: 1, prefersJsonText: false },
      { rows: 2, prefersJsonText: true },
    ]);
    model.run(request([1]));
    expect((model.instances.tasks[1] as MergedExecuteTask).textRequests).toBeUndefined();
  });

  it('may be handed the next batch before this one is answered to its clients', async () => {
    const order: string[] = [];
    model.executor.onIdle(() => order.push('idle'));
    const one = observedRequest({ inputs: [uint8('IN', [1, 1], [1])] }, 1, () => order.push('end'));
    model.run(one);
    await model.instances.reply(merged(uint8('OUT', [1, 1], [1])));
    expect(order.slice(0, 2)).toEqual(['idle', 'end']);
  });

  it('settles first where sequences wait for their state', async () => {
    const sequences = { ...batching, sequence_batching: emptySequenceBatching() };
    const sequenced = running('merged', sequences);
    const order: string[] = [];
    sequenced.executor.onIdle(() => order.push('idle'));
    const one = observedRequest({ inputs: [uint8('IN', [1, 1], [1])] }, 1, () => order.push('end'));
    sequenced.run(one);
    await sequenced.instances.reply(merged(uint8('OUT', [1, 1], [1])));
    expect(order).toEqual(['end', 'idle']);
  });
});

describe('outputs', () => {
  it('are those that the request asked for', async () => {
    const config = {
      ...batching,
      output: ['A', 'B'].map((name) => modelOutput(name, 'TYPE_UINT8', [1])),
    };
    const model = running('merged', config);
    const requests = [request([1], { requestedOutputs: ['B'] }), request([2])];
    model.run(...requests);
    await model.instances.reply(merged(uint8('A', [2, 1], [1, 2]), uint8('B', [2, 1], [3, 4])));
    expect(requests.map(({ responses }) => responses[0]?.outputs.map(({ name }) => name))).toEqual([
      ['B'],
      ['A', 'B'],
    ]);
  });

  it('with the state of a sequence always pass', async () => {
    const state = {
      input_name: 'S_IN',
      output_name: 'S_OUT',
      data_type: 'TYPE_UINT8',
      dims: [1],
      initial_state: [],
      use_same_buffer_for_input_output: false,
      use_growable_memory: false,
    };
    const model = running('merged', {
      ...batching,
      sequence_batching: { ...emptySequenceBatching(), state: [state] },
    });
    const one = request([1], { requestedOutputs: ['OUT'] });
    model.run(one);
    expect((model.instances.tasks[0] as MergedExecuteTask).requestedOutputs).toEqual([
      'OUT',
      'S_OUT',
    ]);
    await model.instances.reply(merged(uint8('OUT', [1, 1], [1]), uint8('S_OUT', [1, 1], [2])));
    expect(one.responses[0]?.outputs.map(({ name }) => name)).toEqual(['OUT', 'S_OUT']);
  });

  const reshapes: readonly [string, number, number[], number[], number[], number[]][] = [
    ['rows stay', 8, [2, 2], [4], [1, 4], [1, 2, 2]],
    ['to a scalar a row', 8, [1], [], [1], [1, 1]],
    ['variable dimensions keep their values', 8, [-1, 1, -1], [-1, -1], [1, 3, 5], [1, 3, 1, 5]],
    ['without batching', 0, [4], [2, 2], [2, 2], [4]],
    ['of another rank than configured are left alone', 8, [2, 2], [4], [1, 2, 2, 1], [1, 2, 2, 1]],
  ];
  it.each(reshapes)('reshaped: %s', async (_, maxBatch, dims, from, given, seen) => {
    const model = running('merged', {
      ...batching,
      max_batch_size: maxBatch,
      output: [modelOutput('OUT', 'TYPE_UINT8', dims, { reshape: { shape: from } })],
    });
    const one = request([1]);
    model.run(one);
    const count = given.reduce((product, dim) => product * dim, 1);
    await model.instances.reply(merged(uint8('OUT', given, Array(count).fill(0))));
    expect(one.responses[0]?.outputs[0]?.shape).toEqual(seen);
  });

  it('of a model without batching are all its one request has, whatever their shape', async () => {
    const model = running('merged', { ...batching, max_batch_size: 0 });
    const one = request([1]);
    model.run(one);
    await model.instances.reply(merged(uint8('OUT', [7], [1, 2, 3, 4, 5, 6, 7])));
    expect(outputOf(one)).toEqual([[7], [1, 2, 3, 4, 5, 6, 7]]);
  });
});

describe('an instance that works request by request', () => {
  let model: Running;
  beforeEach(() => {
    model = running('requests');
  });

  it('gets what each request says of itself', () => {
    model.run(
      request([1], {
        id: 'a',
        parameters: new Map([['k', 5n]]),
        sequence: { correlationId: 9n, start: true, end: true },
        priority: 2,
        timeoutUs: 7,
        requestedOutputs: ['OUT'],
      }),
      request([2], { sequence: { correlationId: 's', start: false, end: true } }),
    );
    const { requests } = model.instances.tasks[0] as RequestsExecuteTask;
    expect(requests[0]).toMatchObject({
      id: 'a',
      head: {
        parameters: [['k', 5n]],
        correlationId: 9n,
        flags: 3,
        priority: 2,
        timeoutUs: 7,
        requestedOutputs: ['OUT'],
      },
    });
    expect(requests[1]).toMatchObject({
      id: '',
      head: { correlationId: 's', flags: 2, parameters: [] },
    });
  });

  it('settles each request by its own result', async () => {
    const requests = [request([1]), request([2])];
    model.run(...requests);
    const error = { code: 'INVALID_ARG' as const, message: 'not this one' };
    await model.instances.reply(answers([uint8('OUT', [1, 1], [5])], error));
    expect(outputOf(requests[0] as ObservedRequest)).toEqual([[1, 1], [5]]);
    expect(requests.map(endOf)).toEqual([
      [undefined, undefined, 'SUCCESS'],
      ['INVALID_ARG', 'not this one', 'SUCCESS'],
    ]);
    expect(model.executed).toEqual([[2, stamps]]);
  });

  it.each<[string, Partial<ModelConfig>, boolean]>([
    ['executes each of several where nothing makes batches', {}, true],
    ['executes each of several without a batch dimension', { max_batch_size: 0 }, true],
    ['executes several as a batch', { dynamic_batching: emptyDynamicBatching() }, false],
    ['executes several sequences', { sequence_batching: emptySequenceBatching() }, false],
  ])('%s', (_what, fields, executesEach) => {
    const { run, instances } = running('requests', { ...batching, ...fields });
    run(request([1]), request([2]));
    expect(instances.tasks[0]).toMatchObject({ executesEach });
    run(request([1]));
    expect(instances.tasks[1]).toMatchObject({ executesEach: false });
  });

  it('fills large buffers again that its instance gives back', async () => {
    const input = { ...uint8('IN', [65_536], []), bytes: new Uint8Array(65_536) };
    const large = () => observedRequest({ inputs: [input] });
    model.run(large());
    const { buffer } = model.instances.tasks[0] as RequestsExecuteTask;
    await model.instances.reply({ ...answers([]), recycled: buffer } as ExecuteReply);
    model.run(large());
    expect((model.instances.tasks[1] as RequestsExecuteTask).buffer).toBe(buffer);
  });

  it('stamps and counts each execution of a bundle by itself', async () => {
    const requests = [request([1]), request([2, 3])];
    model.run(...requests);
    const own = [
      [10, 11, 12, 13],
      [13, 14, 15, 16],
    ] as const;
    const error = { code: 'INVALID_ARG' as const, message: 'not this one' };
    await model.instances.reply(answersEach(own, [uint8('OUT', [1, 1], [5])], error));
    expect(requests.map(({ pending }) => pending.timing.computeEndNs)).toEqual([13, 16]);
    expect(model.executed).toEqual([
      [1, own[0]],
      [2, own[1]],
    ]);
    expect(requests.map(endOf)[1]).toEqual(['INVALID_ARG', 'not this one', 'SUCCESS']);
  });

  it('gives back what a bundle had no time for, before it is idle', async () => {
    const order: unknown[] = [];
    model.executor.onReturned((given) => order.push(given));
    model.executor.onIdle(() => order.push('idle'));
    const requests = [request([1]), request([2]), request([3])];
    model.run(...requests);
    await model.instances.reply(
      answersEach(
        [stamps, [0, 0, 0, 0], [0, 0, 0, 0]],
        [uint8('OUT', [1, 1], [5])],
        'unstarted',
        'unstarted',
      ),
    );
    expect(order.slice(0, 2)).toEqual([requests.slice(1).map(({ pending }) => pending), 'idle']);
    expect(requests.map(endOf)).toEqual([[undefined, undefined, 'SUCCESS'], undefined, undefined]);
    expect(model.executed).toEqual([[1, stamps]]);
  });

  it('gives back a batch that never ran', async () => {
    const returned: (readonly PendingRequest[])[] = [];
    model.executor.onReturned((given) => returned.push(given));
    const one = request([1]);
    model.run(one);
    await model.instances.reply({ type: 'unstarted' });
    expect(returned).toEqual([[one.pending]]);
    expect(one.end).toBeUndefined();
    // Its former instance hears no more of it.
    one.pending.cancel();
    expect(model.instances.commands).toEqual([]);
  });

  it.each<[string, Partial<ModelConfig>, boolean, number]>([
    ['several at once when executions turn out to be short', {}, true, 32],
    ['one at a time that does not take several', {}, false, 1],
    ['one at a time that is decoupled', { model_transaction_policy: { decoupled: true } }, true, 1],
    [
      'one batch at a time that makes batches',
      { dynamic_batching: emptyDynamicBatching() },
      true,
      1,
    ],
  ])('gives a model %s', async (_what, fields, takesBundles, expected) => {
    const { executor, run, instances } = running('requests', { ...batching, ...fields });
    instances.takesBundles = takesBundles;
    expect(executor.bundleSizeMax).toBe(1);
    for (let round = 0; round < 1000; round += 1) {
      run(request([1]));
      await instances.reply(answers([uint8('OUT', [1, 1], [5])]));
    }
    expect(executor.bundleSizeMax).toBe(expected);
  });

  it('fails a request that its reply forgets', async () => {
    const requests = [request([1]), request([2])];
    model.run(...requests);
    await model.instances.reply(answers([uint8('OUT', [1, 1], [5])]));
    expect(requests.map(endOf)[1]).toEqual([
      'INTERNAL',
      "model 'm' version 3: gave no response",
      'BACKEND',
    ]);
  });

  it('hears of cancelled, paused and resumed requests', () => {
    const one = request([1]);
    model.run(request([0]), one);
    one.pending.pause();
    one.pending.resume();
    one.pending.cancel();
    const executionId = model.instances.tasks[0]?.executionId;
    expect(model.instances.commands).toEqual(
      ['pause', 'resume', 'cancel'].map((type) => ({ type, executionId, requestIndex: 1 })),
    );
  });
});

describe('responses beside the reply', () => {
  const decoupled = { ...batching, model_transaction_policy: { decoupled: true } };

  it('of a decoupled model pass on as they come, also after the reply', async () => {
    const model = running('requests', decoupled);
    const one = request([1]);
    model.run(one);
    model.instances.notify(0, 4, false);
    await model.instances.reply(answers('streamed'));
    model.instances.notify(0, 5, false);
    expect(one.responses.map(({ outputs }) => outputs[0]?.bytes[0])).toEqual([4, 5]);
    expect(one.end).toBeUndefined();
    model.instances.notify(0, undefined, true);
    expect(endOf(one)).toEqual([undefined, undefined, 'SUCCESS']);
    expect(model.responded.map(({ index, kind }) => [index, kind])).toEqual([
      [0, 'success'],
      [1, 'success'],
      [2, 'empty_response'],
    ]);
  });

  it('of a decoupled model may be none', async () => {
    const model = running('requests', decoupled);
    const one = request([1]);
    model.run(one);
    model.instances.notify(0, undefined, true);
    await model.instances.reply(answers('streamed'));
    expect(one.responses).toEqual([]);
    expect(endOf(one)).toEqual([undefined, undefined, 'SUCCESS']);
  });

  it('of a decoupled model may end with an error', () => {
    const model = running('requests', decoupled);
    const one = request([1]);
    model.run(one);
    model.instances.notify(0, 4, false);
    model.instances.notify(0, undefined, true, { code: 'INTERNAL', message: 'broke' });
    model.instances.notify(0, 5, true);
    expect(one.responses).toHaveLength(1);
    expect(endOf(one)?.slice(0, 2)).toEqual(['INTERNAL', 'broke']);
    expect(model.responded.map(({ kind }) => kind)).toEqual(['success', 'fail']);
  });

  it('of a decoupled model that answers in its reply count too', async () => {
    const model = running('requests', decoupled);
    const one = request([1]);
    model.run(one);
    await model.instances.reply(answers([uint8('OUT', [1, 1], [5])]));
    expect(outputOf(one)).toEqual([[1, 1], [5]]);
    expect(model.responded.map(({ index, kind }) => [index, kind])).toEqual([[0, 'success']]);
  });

  it('end with the instance', async () => {
    const model = running('requests', decoupled);
    const [ended, open] = [request([1]), request([2])];
    model.run(ended, open);
    model.instances.notify(0, undefined, true);
    await model.instances.reply(answers('streamed', 'streamed'));
    model.instances.listeners[0]?.onLost({ code: 'INTERNAL', message: 'it died' });
    expect([ended, open].map(endOf)).toEqual([
      [undefined, undefined, 'SUCCESS'],
      ['INTERNAL', 'it died', 'BACKEND'],
    ]);
  });

  it.each([
    [0, 'expected a single response, got 0'],
    [2, 'expected a single response, got 2'],
    [3, 'expected a single response, got 3'],
  ])('of a model that is not decoupled: %i are an error', (count, message) => {
    const model = running('requests');
    const one = request([1]);
    model.run(one);
    for (let index = 0; index < count; index += 1) model.instances.notify(0, index, false);
    model.instances.notify(0, undefined, true);
    expect(one.responses).toEqual([]);
    expect(endOf(one)).toEqual(['INTERNAL', message, 'BACKEND']);
  });

  it('of a model that is not decoupled: one is its answer', async () => {
    const model = running('requests');
    const one = request([1]);
    model.run(one);
    model.instances.notify(0, 8, true);
    await model.instances.reply(answers('streamed'));
    expect(outputOf(one)).toEqual([[1, 1], [8]]);
    expect(model.responded).toEqual([]);
  });
});

function emptySequenceBatching(): NonNullable<ModelConfig['sequence_batching']> {
  return {
    max_sequence_idle_microseconds: 0,
    control_input: [],
    state: [],
    iterative_sequence: false,
  };
}
