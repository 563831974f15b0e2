import { describe, expect, it } from 'vitest';
import type { ParameterValue } from '../../src/inference/infer-request.js';
import { chain, diamond, setUp, tensor, valuesOf } from './ensemble-cases.js';

describe('EnsembleScheduler', () => {
  it('hands tensors from step to step under the names of each model, without copying', () => {
    const { members, send, executed } = setUp({ steps: chain });
    const observed = send({ id: 'e1' });
    expect(valuesOf(members.call(0).request.inputs)).toEqual({ X: 1 });
    expect(members.call(0).request.requestedOutputs).toEqual(['Y']);
    const middle = tensor('Y', 5);
    members.call(0).answer([middle]);
    expect(members.models).toEqual(['p', 'q']);
    expect(members.call(1).request.inputs[0]?.bytes).toBe(middle.bytes);
    const last = tensor('Y', 9);
    members.call(1).answer([last]);
    const [response] = observed.responses;
    expect(response).toMatchObject({ modelName: 'e', modelVersion: '7', id: 'e1' });
    expect(valuesOf(response?.outputs)).toEqual({ z: 9 });
    expect(response?.outputs[0]?.bytes).toBe(last.bytes);
    expect(observed.end).toEqual({ error: undefined, outcome: 'SUCCESS' });
    expect(executed).toEqual(['e1']);
  });

  it('starts branches at once and their join when both are there', () => {
    const { members, send } = setUp({ steps: diamond });
    const observed = send();
    members.call(0).answer([tensor('Y', 2)]);
    expect(members.models).toEqual(['p', 'q', 'r']);
    members.call(2).answer([tensor('Y', 4)]);
    expect(members.models).toEqual(['p', 'q', 'r']);
    members.call(1).answer([tensor('Y', 3)]);
    expect(valuesOf(members.call(3).request.inputs)).toEqual({ X: 3, W: 4 });
    members.call(3).answer([tensor('Y', 8)]);
    expect(valuesOf(observed.responses[0]?.outputs)).toEqual({ z: 8 });
  });

  it('feeds one tensor to two inputs of a step and to the answer', () => {
    const { members, send } = setUp({
      steps: [
        ['p', { X: 'a', W: 'a' }, { Y: 'b' }],
        ['q', { X: 'b' }, { Y: 'z' }],
      ],
      outputs: ['b', 'z'],
    });
    const observed = send();
    expect(valuesOf(members.call(0).request.inputs)).toEqual({ X: 1, W: 1 });
    members.call(0).answer([tensor('Y', 2)]);
    expect(observed.responses).toHaveLength(0);
    members.call(1).answer([tensor('Y', 3)]);
    expect(valuesOf(observed.responses[0]?.outputs)).toEqual({ b: 2, z: 3 });
  });

  it('runs only the steps that the requested outputs need', () => {
    const { members, send } = setUp({
      steps: [
        ['p', { X: 'a' }, { Y: 'b' }],
        ['q', { X: 'b' }, { Y: 'y' }],
        ['r', { X: 'b' }, { Y: 'z' }],
      ],
      outputs: ['y', 'z'],
    });
    const observed = send({ requestedOutputs: ['z'] });
    members.call(0).answer([tensor('Y', 2)]);
    expect(members.models).toEqual(['p', 'r']);
    members.call(1).answer([tensor('Y', 3)]);
    expect(valuesOf(observed.responses[0]?.outputs)).toEqual({ z: 3 });
    expect(observed.end?.outcome).toBe('SUCCESS');
  });

  it('passes id, parameters, priority, timeout and sequence flags on to every step', () => {
    const { members, send } = setUp({ steps: chain });
    const parameters = new Map<string, ParameterValue>([['p', 'v']]);
    const sequence = { correlationId: 7n, start: true, end: false };
    send({ id: 'i', parameters, priority: 2, timeoutUs: 30, sequence });
    members.call(0).answer([tensor('Y', 2)]);
    for (const { request } of members.calls) {
      expect(request).toMatchObject({ id: 'i', parameters, priority: 2, timeoutUs: 30, sequence });
    }
  });

  it('lets a response replace the sequence flags for the steps behind it', () => {
    const { members, send } = setUp({ steps: chain });
    const observed = send({ sequence: { correlationId: 7n, start: true, end: false } });
    members.call(0).answer(
      [tensor('Y', 2)],
      new Map<string, ParameterValue>([
        ['sequence_id', 8n],
        ['sequence_end', true],
      ]),
    );
    expect(members.call(1).request.sequence).toEqual({
      correlationId: 8n,
      start: false,
      end: true,
    });
    members.call(1).answer([tensor('Y', 3)]);
    expect(observed.end?.outcome).toBe('SUCCESS');
  });

  it.each([
    ['no sequence', undefined, 0n, false],
    ['a number', { correlationId: 2n ** 64n - 1n, start: true, end: false }, -1n, true],
    ['a text', { correlationId: 'abc', start: false, end: false }, 'abc', false],
  ] as const)('answers with the sequence as parameters: %s', (_, sequence, id, start) => {
    const { members, send } = setUp({ steps: [['p', { X: 'a' }, { Y: 'z' }]] });
    const observed = send({ sequence });
    members.call(0).answer([tensor('Y', 2)]);
    expect([...(observed.responses[0]?.parameters ?? [])]).toEqual([
      ['sequence_id', id],
      ['sequence_start', start],
      ['sequence_end', false],
    ]);
  });

  it('asks for JSON text only from steps that nothing but the answer reads', () => {
    const { members, send } = setUp({ steps: chain });
    send({ prefersJsonText: true });
    members.call(0).answer([tensor('Y', 2)]);
    expect(members.calls.map(({ request }) => request.prefersJsonText)).toEqual([false, true]);
  });

  it('stamps the run as the time of all its steps', () => {
    const { members, send, clock } = setUp({ steps: chain });
    const { pending } = send();
    const startNs = clock.nowNs();
    clock.advanceMs(5);
    members.call(0).answer([tensor('Y', 2)]);
    clock.advanceMs(5);
    members.call(1).answer([tensor('Y', 2)]);
    expect(pending.timing).toMatchObject({
      queueStartNs: startNs,
      computeStartNs: startNs,
      computeInputEndNs: startNs,
      computeOutputStartNs: startNs + 10e6,
      computeEndNs: startNs + 10e6,
    });
  });
});

describe('EnsembleScheduler and failures', () => {
  it('names itself in front of the error of a step and keeps its code', () => {
    const { members, send } = setUp({ steps: chain });
    const observed = send();
    members.call(0).fail('INVALID_ARG', 'bad');
    expect(observed.end?.error).toMatchObject({
      code: 'INVALID_ARG',
      message: "in ensemble 'e', bad",
    });
    expect(observed.end?.outcome).toBe('OTHER');
    expect(members.models).toEqual(['p']);
  });

  it('fails at the first error, cancels the other branch and ignores what comes of it', () => {
    const { members, send, scheduler } = setUp({ steps: diamond });
    const observed = send();
    members.call(0).answer([tensor('Y', 2)]);
    members.call(1).fail('UNAVAILABLE', 'busy');
    expect(observed.end?.error?.code).toBe('UNAVAILABLE');
    expect(members.call(2).isCancelled).toBe(true);
    members.call(2).answer([tensor('Y', 2)]);
    expect(members.models).toEqual(['p', 'q', 'r']);
    expect(scheduler.inFlightRequests).toBe(0);
  });

  it('survives steps that answer or fail before infer returns', () => {
    const { members, send } = setUp({ steps: diamond });
    members.automatic = (call) => {
      call.answer([tensor('Y', 6)]);
      return true;
    };
    expect(valuesOf(send().responses[0]?.outputs)).toEqual({ z: 6 });
    members.automatic = (call) => {
      call.fail('NOT_FOUND', 'no such model');
      return true;
    };
    expect(send().end?.error?.message).toBe("in ensemble 'e', no such model");
  });

  it('does not end before a sibling has started, when a step answers at once', () => {
    const { members, send } = setUp({
      steps: [
        ['p', { X: 'a' }, { Y: 'y' }],
        ['q', { X: 'a' }, { Y: 'z' }],
      ],
      outputs: ['y', 'z'],
    });
    members.automatic = (call) => {
      if (call.request.modelName === 'p') call.answer([tensor('Y', 2)]);
      return true;
    };
    const observed = send();
    expect(observed.end).toBeUndefined();
    members.call(1).answer([tensor('Y', 3)]);
    expect(valuesOf(observed.responses[0]?.outputs)).toEqual({ y: 2, z: 3 });
  });

  it('cancels a sibling whose handle comes only after the run has failed', () => {
    const { members, send } = setUp({
      steps: [
        ['p', { X: 'a' }, { Y: 'b' }],
        ['q', { X: 'b' }, { Y: 'y' }],
        ['q', { X: 'a' }, { Y: 'z' }],
      ],
      outputs: ['y', 'z'],
    });
    let isFirst = true;
    members.automatic = (call) => {
      if (!isFirst) call.fail('INTERNAL', 'x');
      isFirst = false;
      return true;
    };
    const observed = send();
    expect(observed.end?.error?.message).toBe("in ensemble 'e', x");
    expect(members.call(0).isCancelled).toBe(true);
  });

  it('says so when a model that is not decoupled ends without an answer', () => {
    const { members, send } = setUp({ steps: [['p', { X: 'a' }, { Y: 'z' }]] });
    const observed = send({ id: 'i' });
    members.call(0).complete();
    expect(observed.end?.error).toMatchObject({
      code: 'INVALID_ARG',
      message:
        "in ensemble 'e', [request id: i] unexpected deadlock, at least one output is not set while no more ensemble steps can be made",
    });
  });

  it('leaves out what a step leaves out: of the next step, and of the answer', () => {
    const { members, send } = setUp({
      steps: [
        ['p', { X: 'a' }, { Y: 'b', V: 'c' }],
        ['q', { X: 'b', O: 'c' }, { Y: 'z' }],
      ],
      optional: ['O'],
      outputs: ['z', 'c'],
    });
    const observed = send();
    members.call(0).answer([tensor('Y', 2)]);
    expect(valuesOf(members.call(1).request.inputs)).toEqual({ X: 2 });
    members.call(1).answer([tensor('Y', 3)]);
    expect(valuesOf(observed.responses[0]?.outputs)).toEqual({ z: 3 });
    expect(observed.end?.outcome).toBe('SUCCESS');
  });

  it('leaves out an optional input that the client left out', () => {
    const { members, send } = setUp({
      steps: [['p', { X: 'a', O: 'o' }, { Y: 'z' }]],
      inputs: ['a', 'o'],
      optional: ['o', 'O'],
    });
    send();
    expect(valuesOf(members.call(0).request.inputs)).toEqual({ X: 1 });
  });
});

describe('EnsembleScheduler and batching', () => {
  const rowsIn = [4, 2];
  it.each<
    readonly [
      string,
      readonly string[],
      number,
      readonly number[],
      readonly number[],
      readonly number[],
    ]
  >([
    ['keeps the batch dimension between models that batch', ['e', 'p'], 4, rowsIn, rowsIn, rowsIn],
    ['adds a batch of 1 for a model that batches', ['p'], 1, [2], [1, 2], [2]],
    ['takes a batch of 1 away for a model that does not', ['e'], 1, [1, 2], [2], [1, 2]],
    ['adds nothing where no one batches', [], 1, [2], [2], [2]],
  ])('%s', (_, batches, rows, sent, received, answered) => {
    const { members, send } = setUp({ steps: [['p', { X: 'a' }, { Y: 'z' }]], batches });
    const observed = send({ inputs: [tensor('a', 1, sent)] }, rows);
    expect(members.call(0).request.inputs[0]?.shape).toEqual(received);
    members.call(0).answer([tensor('Y', 1, received)]);
    expect(observed.responses[0]?.outputs[0]?.shape).toEqual(answered);
  });
});
