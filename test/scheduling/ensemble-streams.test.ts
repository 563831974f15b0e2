import { describe, expect, it } from 'vitest';
import { observedRequest } from '../support/pending-requests.js';
import { chain, setUp, tensor, valuesOf } from './ensemble-cases.js';

describe('EnsembleScheduler and cancellation', () => {
  it('cancels what runs, starts nothing more and fails with CANCELLED', () => {
    const { members, send } = setUp({ steps: chain });
    const observed = send();
    observed.pending.cancel();
    expect(members.call(0).isCancelled).toBe(true);
    expect(observed.end?.error?.code).toBe('CANCELLED');
    expect(observed.end?.outcome).toBe('CANCELED');
    members.call(0).answer([tensor('Y', 2)]);
    expect(members.models).toEqual(['p']);
  });

  it('never starts a request that was cancelled before', () => {
    const { members, scheduler } = setUp({ steps: chain });
    const observed = observedRequest({ inputs: [tensor('a', 1)] });
    observed.pending.cancel();
    scheduler.enqueue(observed.pending);
    expect(members.calls).toHaveLength(0);
    expect(observed.end?.outcome).toBe('CANCELED');
  });
});

describe('EnsembleScheduler with a decoupled step', () => {
  const setting = { steps: chain, decoupled: ['p'] };

  it('runs the steps behind it once a response, and answers each', () => {
    const { members, send } = setUp(setting);
    const observed = send();
    members.call(0).respond([tensor('Y', 10)]);
    members.call(0).respond([tensor('Y', 11)]);
    members.call(1).answer([tensor('Y', 20)]);
    members.call(0).complete();
    expect(observed.end).toBeUndefined();
    members.call(2).answer([tensor('Y', 21)]);
    expect(observed.responses.map(({ outputs }) => valuesOf(outputs))).toEqual([
      { z: 20 },
      { z: 21 },
    ]);
    expect(observed.end?.outcome).toBe('SUCCESS');
  });

  it('answers in the order of the stream even where later steps overtake', () => {
    const { members, send } = setUp(setting);
    const observed = send();
    members.call(0).respond([tensor('Y', 10)]);
    members.call(0).respond([tensor('Y', 11)]);
    members.call(0).complete();
    members.call(2).answer([tensor('Y', 21)]);
    expect(observed.responses).toHaveLength(0);
    members.call(1).answer([tensor('Y', 20)]);
    expect(observed.responses.map(({ outputs }) => valuesOf(outputs))).toEqual([
      { z: 20 },
      { z: 21 },
    ]);
  });

  it('may answer nothing at all', () => {
    const { members, send } = setUp(setting);
    const observed = send();
    members.call(0).complete();
    expect(observed.responses).toHaveLength(0);
    expect(observed.end?.outcome).toBe('SUCCESS');
  });

  it('numbers the responses of a decoupled step behind a decoupled step in one stream', () => {
    const { members, send } = setUp({ steps: chain, decoupled: ['p', 'q'] });
    const observed = send();
    members.call(0).respond([tensor('Y', 1)]);
    members.call(0).respond([tensor('Y', 2)]);
    members.call(0).complete();
    members.call(1).respond([tensor('Y', 3)]);
    members.call(2).respond([tensor('Y', 4)]);
    members.call(1).respond([tensor('Y', 5)]);
    members.call(1).complete();
    members.call(2).complete();
    expect(observed.responses.map(({ outputs }) => valuesOf(outputs)['z'])).toEqual([3, 4, 5]);
    expect(observed.end?.outcome).toBe('SUCCESS');
  });

  it('passes pauses of a slow reader on, also to steps that start meanwhile', () => {
    const { members, send } = setUp(setting);
    const { pending } = send();
    pending.pause();
    expect(members.call(0).isPaused).toBe(true);
    members.call(0).respond([tensor('Y', 1)]);
    expect(members.call(1).isPaused).toBe(true);
    pending.resume();
    expect(members.calls.map((call) => call.isPaused)).toEqual([false, false]);
  });

  it('bounds what runs of each step over all requests, and holds producers back meanwhile', () => {
    const { members, send } = setUp({ ...setting, inflightMax: 2 });
    const observed = send();
    for (const value of [1, 2, 3]) members.call(0).respond([tensor('Y', value)]);
    expect(members.models).toEqual(['p', 'q', 'q']);
    expect(members.call(0).isPaused).toBe(true);
    members.call(1).answer([tensor('Y', 1)]);
    expect(members.models).toEqual(['p', 'q', 'q', 'q']);
    expect(members.call(0).isPaused).toBe(false);
    members.call(0).complete();
    members.call(2).answer([tensor('Y', 2)]);
    members.call(3).answer([tensor('Y', 3)]);
    expect(observed.responses.map(({ outputs }) => valuesOf(outputs)['z'])).toEqual([1, 2, 3]);
  });

  it('gives the place in line of a request that ended to the next', () => {
    const { members, send } = setUp({ steps: chain, inflightMax: 1 });
    const [first, second, third] = [send(), send(), send()];
    expect(members.models).toEqual(['p']);
    second.pending.cancel();
    members.call(0).answer([tensor('Y', 1)]);
    expect(members.models).toEqual(['p', 'q', 'p']);
    members.call(1).answer([tensor('Y', 2)]);
    members.call(2).answer([tensor('Y', 3)]);
    members.call(3).answer([tensor('Y', 4)]);
    expect([first, second, third].map(({ end }) => end?.outcome)).toEqual([
      'SUCCESS',
      'CANCELED',
      'SUCCESS',
    ]);
  });
});

describe('EnsembleScheduler that stops', () => {
  it('refuses newcomers and resolves its drain when the last run has ended', async () => {
    const { members, send, scheduler } = setUp({ steps: [['p', { X: 'a' }, { Y: 'z' }]] });
    send();
    expect(scheduler.inFlightRequests).toBe(1);
    expect(scheduler.queuedRequests).toBe(0);
    const drained = scheduler.drain();
    expect(() => send()).toThrow(/model 'e' is stopping/);
    members.call(0).answer([tensor('Y', 2)]);
    await drained;
    expect(scheduler.inFlightRequests).toBe(0);
  });
});
