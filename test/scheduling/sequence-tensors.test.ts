import { describe, expect, it } from 'vitest';
import type { Tensor } from '../../src/inference/tensor.js';
import type {
  ModelConfig,
  ModelSequenceBatching,
  SequenceControl,
  SequenceState,
} from '../../src/model-config/model-config.js';
import { SequenceBatcher } from '../../src/scheduling/sequence-batcher.js';
import { SequenceControls } from '../../src/scheduling/sequence-controls.js';
import { sequenceOptions } from '../../src/scheduling/sequence-options.js';
import { ImplicitState, initialStateFiles } from '../../src/scheduling/sequence-state.js';
import { FakeClock } from '../support/fake-clock.js';
import { FakeExecutor } from '../support/fake-executor.js';
import { modelConfig, modelInput, modelOutput } from '../support/model-configs.js';
import { int32Tensor, observedRequest } from '../support/pending-requests.js';

function control(kind: string, fields: Partial<SequenceControl> = {}): SequenceControl {
  return {
    kind: `CONTROL_SEQUENCE_${kind}`,
    int32_false_true: [],
    fp32_false_true: [],
    bool_false_true: [],
    data_type: 'TYPE_INVALID',
    ...fields,
  };
}

function state(fields: Partial<SequenceState> = {}): SequenceState {
  return {
    input_name: 'S_IN',
    output_name: 'S_OUT',
    data_type: 'TYPE_INT32',
    dims: [2],
    initial_state: [],
    use_same_buffer_for_input_output: false,
    use_growable_memory: false,
    ...fields,
  };
}

function configWith(
  batching: Partial<ModelSequenceBatching>,
  fields: Partial<ModelConfig> = {},
): ModelConfig {
  return modelConfig({
    max_batch_size: 4,
    input: [modelInput('X', 'TYPE_INT32', [2])],
    output: [modelOutput('Y', 'TYPE_INT32', [2])],
    sequence_batching: {
      max_sequence_idle_microseconds: 0,
      control_input: [],
      state: [],
      iterative_sequence: false,
      ...batching,
    },
    ...fields,
  });
}

describe('sequenceOptions', () => {
  it('is direct with one slot a row where no strategy is named, idle after a second', () => {
    const options = sequenceOptions(configWith({}));
    expect(options.strategy).toEqual({
      kind: 'direct',
      slots: 4,
      slotUtilizationMin: 0,
      queueDelayNs: 0,
    });
    expect(options.idleNs).toBe(1e9);
    expect(Object.isFrozen(options)).toBe(true);
  });

  it('has one slot without batching', () => {
    const options = sequenceOptions(configWith({}, { max_batch_size: 0 }));
    expect(options.strategy).toMatchObject({ kind: 'direct', slots: 1 });
    expect(options.isBatching).toBe(false);
  });

  it('takes direct and oldest as they are configured', () => {
    const direct = { max_queue_delay_microseconds: 7, minimum_slot_utilization: 0.5 };
    expect(sequenceOptions(configWith({ direct })).strategy).toMatchObject({
      slotUtilizationMin: 0.5,
      queueDelayNs: 7000,
    });
    const oldest = {
      max_candidate_sequences: 9,
      preferred_batch_size: [4, 2],
      max_queue_delay_microseconds: 5,
      preserve_ordering: true,
    };
    expect(sequenceOptions(configWith({ oldest })).strategy).toEqual({
      kind: 'oldest',
      candidatesMax: 9,
      batch: { batchSizeMax: 4, preferredBatchSizes: [2, 4], queueDelayNs: 5000 },
      preservesOrdering: true,
    });
  });
});

describe('SequenceControls', () => {
  const hex = ({ bytes }: Tensor) => Buffer.from(bytes).toString('hex');
  const controlsOf = (controls: readonly SequenceControl[], maxBatchSize = 4) =>
    new SequenceControls(
      sequenceOptions(
        configWith(
          { control_input: controls.map((one, index) => ({ name: `C${index}`, control: [one] })) },
          { max_batch_size: maxBatchSize },
        ),
      ),
    );

  it.each<readonly [string, SequenceControl, string, string, string]>([
    ['INT32', control('START', { int32_false_true: [0, 1] }), 'INT32', '00000000', '01000000'],
    [
      'INT32, other way round',
      control('START', { int32_false_true: [1, -1] }),
      'INT32',
      '01000000',
      'ffffffff',
    ],
    ['FP32', control('START', { fp32_false_true: [0, 1] }), 'FP32', '00000000', '0000803f'],
    ['BOOL', control('START', { bool_false_true: [false, true] }), 'BOOL', '00', '01'],
  ])('writes false and true as %s', (_, one, datatype, whenFalse, whenTrue) => {
    const controls = controlsOf([one]);
    const tensors = [false, true].map(
      (start) => controls.tensors({ start, end: false, ready: true }, [])[0],
    );
    expect(tensors.map((tensor) => tensor && hex(tensor))).toEqual([whenFalse, whenTrue]);
    expect(tensors[0]).toMatchObject({ name: 'C0', datatype, shape: [1, 1], encoding: 'raw' });
  });

  it('leaves the batch dimension out for a model without batching', () => {
    const controls = controlsOf([control('END', { bool_false_true: [false, true] })], 0);
    expect(controls.nullTensors()[0]?.shape).toEqual([1]);
  });

  it.each<readonly [string, bigint | string, string]>([
    ['TYPE_UINT64', 2n ** 64n - 1n, 'ffffffffffffffff'],
    ['TYPE_INT64', 2n ** 63n - 1n, 'ffffffffffffff7f'],
    ['TYPE_UINT32', 2n ** 32n - 1n, 'ffffffff'],
    ['TYPE_INT32', 2n ** 31n - 1n, 'ffffff7f'],
    ['TYPE_STRING', 'äb', '03000000c3a462'],
    ['TYPE_STRING', 42n, '020000003432'],
    ['TYPE_UINT64', 'text', '0000000000000000'],
  ])('writes the correlation id as %s: %s', (dataType, id, expected) => {
    const controls = controlsOf([control('CORRID', { data_type: dataType })]);
    expect(controls.correlationIdTensors(id).map(hex)).toEqual([expected]);
  });

  it.each<readonly [string, bigint, string]>([
    ['TYPE_INT64', 2n ** 63n, 'INT64'],
    ['TYPE_UINT32', 2n ** 32n, 'UINT32'],
    ['TYPE_INT32', 2n ** 31n, 'INT32'],
  ])('refuses an id that %s cannot hold', (dataType, id, datatype) => {
    const controls = controlsOf([control('CORRID', { data_type: dataType })]);
    expect(() => controls.correlationIdTensors(id)).toThrow(
      `correlation ID ${id} does not fit control input 'C0' of type ${datatype}`,
    );
  });

  it('keeps the order of the configuration, and zeros everything in a null row', () => {
    const controls = controlsOf([
      control('CORRID', { data_type: 'TYPE_UINT32' }),
      control('READY', { int32_false_true: [0, 1] }),
      control('END', { int32_false_true: [0, 1] }),
    ]);
    const row = controls.tensors(
      { start: true, end: true, ready: true },
      controls.correlationIdTensors(5n),
    );
    expect(row.map((tensor) => [tensor.name, hex(tensor)])).toEqual([
      ['C0', '05000000'],
      ['C1', '01000000'],
      ['C2', '01000000'],
    ]);
    expect(controls.nullTensors().map(hex)).toEqual(['00000000', '00000000', '00000000']);
    expect(controls.hasReady).toBe(true);
  });
});

describe('ImplicitState', () => {
  const stateOf = (one: SequenceState, files: readonly (readonly [string, Uint8Array])[] = []) =>
    new ImplicitState(sequenceOptions(configWith({ state: [one] })), new Map(files));
  const initial = (fields: Partial<SequenceState['initial_state'][number]>) =>
    state({ initial_state: [{ name: 'i', data_type: 'TYPE_INT32', dims: [2], ...fields }] });

  it('begins with zeros, -1 read as 1', () => {
    const [tensor] = stateOf(state({ dims: [-1, 3] })).initial;
    expect(tensor).toMatchObject({ name: 'S_IN', datatype: 'INT32', shape: [1, 1, 3] });
    expect([...(tensor?.bytes ?? [])]).toEqual(new Array(12).fill(0));
  });

  it('begins with empty texts for TYPE_STRING', () => {
    const [tensor] = stateOf(state({ data_type: 'TYPE_STRING' })).initial;
    expect(tensor).toMatchObject({ datatype: 'BYTES', shape: [1, 2] });
    expect(tensor?.bytes).toHaveLength(8);
  });

  it('begins with the file that the configuration names', () => {
    const one = initial({ data_file: 'f' });
    expect(initialStateFiles(sequenceOptions(configWith({ state: [one] })))).toEqual(['f']);
    const bytes = Uint8Array.of(1, 0, 0, 0, 2, 0, 0, 0);
    expect(stateOf(one, [['f', bytes]]).initial[0]?.bytes).toEqual(bytes);
  });

  it.each<readonly [string, readonly (readonly [string, Uint8Array])[], string]>([
    ['a missing file', [], "model 'm': initial state 'f' of 'S_IN' is missing"],
    [
      'a file of another size',
      [['f', new Uint8Array(7)]],
      "model 'm': initial state 'f' of 'S_IN' has 7 bytes, expected 8 for INT32 [1,2]",
    ],
  ])('refuses %s', (_, files, message) => {
    expect(() => stateOf(initial({ data_file: 'f' }), files)).toThrow(message);
  });
});

describe('SequenceBatcher with implicit state', () => {
  function setUp(fields: Partial<ModelConfig> = {}) {
    const executor = new FakeExecutor(1);
    const config = configWith({ state: [state()] }, fields);
    const batcher = new SequenceBatcher(
      sequenceOptions(config),
      [executor],
      new FakeClock(),
      (look) => look(),
      new Map(),
    );
    const send = (start: boolean, end = false, requestedOutputs: readonly string[] = []) => {
      const observed = observedRequest({
        inputs: [int32Tensor('X', [1, 2], [1, 1])],
        sequence: { correlationId: 1n, start, end },
        requestedOutputs,
        prefersJsonText: true,
      });
      batcher.enqueue(observed.pending);
      return observed;
    };
    /** The state that the last batch's first request got. */
    const stateIn = () => {
      const tensor = executor.batches.at(-1)?.[0]?.modelInputs.find(({ name }) => name === 'S_IN');
      return tensor && [...new Int32Array(tensor.bytes.slice().buffer)];
    };
    const answer = (value: number | undefined) => {
      const state_ = value === undefined ? [] : [int32Tensor('S_OUT', [1, 2], [value, value])];
      executor.complete(executor.batches.length - 1, () => [
        int32Tensor('Y', [1, 2], [9, 9]),
        ...state_,
      ]);
    };
    return { executor, send, stateIn, answer };
  }
  const names = (tensors: readonly Tensor[] | undefined) => tensors?.map(({ name }) => name);

  it('carries the state output of one request into the next, and hides it from clients', () => {
    const { send, stateIn, answer } = setUp();
    const first = send(true);
    expect(stateIn()).toEqual([0, 0]);
    answer(5);
    expect(names(first.responses[0]?.outputs)).toEqual(['Y']);
    send(false);
    expect(stateIn()).toEqual([5, 5]);
  });

  it('starts anew with START on a live sequence, and with a new sequence in the same slot', () => {
    const { send, stateIn, answer } = setUp();
    send(true);
    answer(5);
    send(true);
    expect(stateIn()).toEqual([0, 0]);
    answer(6);
    send(false, true);
    expect(stateIn()).toEqual([6, 6]);
    answer(7);
    send(true);
    expect(stateIn()).toEqual([0, 0]);
  });

  it('keeps the state where a response leaves it out or the request fails', () => {
    const { executor, send, stateIn, answer } = setUp();
    send(true);
    answer(5);
    send(false);
    answer(undefined);
    send(false);
    executor.fail(2);
    send(false);
    expect(stateIn()).toEqual([5, 5]);
  });

  it('shows a state that is also an output, where the client asks for it', () => {
    const output = ['Y', 'S_OUT'].map((name) => modelOutput(name, 'TYPE_INT32', [2]));
    const { send, answer } = setUp({ output });
    const all = send(true);
    answer(1);
    const one = send(false, false, ['Y']);
    answer(2);
    expect(names(all.responses[0]?.outputs)).toEqual(['Y', 'S_OUT']);
    expect(names(one.responses[0]?.outputs)).toEqual(['Y']);
  });

  it('never asks for JSON text, which could not go in again', () => {
    const { executor, send } = setUp();
    send(true);
    expect(executor.batches[0]?.[0]?.request.prefersJsonText).toBe(false);
  });
});

describe('SequenceBatcher, direct, null rows', () => {
  it('are zeros in the shapes of the request beside them, and nobody hears of them', () => {
    const executor = new FakeExecutor(1);
    const ready = control('READY', { int32_false_true: [0, 1] });
    const config = configWith({
      control_input: [{ name: 'READY', control: [ready] }],
      state: [state()],
    });
    const batcher = new SequenceBatcher(
      sequenceOptions(config),
      [executor],
      new FakeClock(),
      (look) => look(),
      new Map(),
    );
    const send = (id: bigint) =>
      batcher.enqueue(
        observedRequest({
          inputs: [int32Tensor('X', [1, 2], [3, 3])],
          sequence: { correlationId: id, start: true, end: false },
        }).pending,
      );
    send(1n);
    send(2n);
    executor.complete(0);
    const [nullRow, real] = executor.batches[1] ?? [];
    const values = (tensors: readonly Tensor[] | undefined) =>
      tensors?.map(({ name, shape, bytes }) => [
        name,
        shape,
        [...new Int32Array(bytes.slice().buffer)],
      ]);
    expect(values(real?.modelInputs)).toEqual([
      ['X', [1, 2], [3, 3]],
      ['READY', [1, 1], [1]],
      ['S_IN', [1, 2], [0, 0]],
    ]);
    expect(values(nullRow?.modelInputs)).toEqual([
      ['X', [1, 2], [0, 0]],
      ['READY', [1, 1], [0]],
      ['S_IN', [1, 2], [0, 0]],
    ]);
    executor.complete(1);
    expect(batcher.inFlightRequests).toBe(0);
  });
});
