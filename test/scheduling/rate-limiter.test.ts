import { describe, expect, it } from 'vitest';
import { DynamicBatcher, lookAtOnce } from '../../src/scheduling/dynamic-batcher.js';
import { ExecutorGroup, RateLimitedExecutor } from '../../src/scheduling/executors.js';
import {
  type InstanceNeeds,
  RateLimiter,
  type ResourceNeed,
} from '../../src/scheduling/rate-limiter.js';
import { batchSizeOptions, unlimitedQueue } from '../../src/scheduling/scheduling-options.js';
import { FakeClock } from '../support/fake-clock.js';
import { FakeExecutor } from '../support/fake-executor.js';
import { observedRequest } from '../support/pending-requests.js';

const need = (name: string, count: number, isGlobal = false): ResourceNeed => ({
  name,
  count,
  isGlobal,
});
const needs = (resources: readonly ResourceNeed[], priority = 1, deviceId = 0): InstanceNeeds => ({
  resources,
  priority,
  deviceId,
});

/** A model with one instance and a queue that the test fills. */
function addModel(limiter: RateLimiter, wanted: InstanceNeeds, order: string[], name: string) {
  const executor = new FakeExecutor(1);
  executor.onBatch = () => order.push(name);
  const limited = new RateLimitedExecutor(executor, limiter, wanted);
  const batcher = new DynamicBatcher(
    {
      modelName: name,
      batch: batchSizeOptions(1, [], 0),
      queue: unlimitedQueue,
      preservesOrdering: false,
      shapedInputs: [],
      optionalInputs: [],
      latencyTargetNs: 0,
    },
    limited,
    new FakeClock(),
    lookAtOnce,
  );
  const send = (count = 1) => {
    for (let index = 0; index < count; index += 1) batcher.enqueue(observedRequest({}).pending);
  };
  const finish = () => executor.complete(executor.batches.length - 1);
  return { send, finish, limited, isRunning: () => executor.runningBatches.length > 0, batcher };
}

describe('RateLimiter', () => {
  it('lets instances without resources run at any time', () => {
    const order: string[] = [];
    const limiter = new RateLimiter([]);
    const models = ['a', 'b'].map((name) => addModel(limiter, needs([]), order, name));
    for (const model of models) model.send();
    expect(order).toEqual(['a', 'b']);
  });

  it('runs one at a time where the default availability is the largest single need', () => {
    const order: string[] = [];
    const limiter = new RateLimiter([]);
    const [a, b] = ['a', 'b'].map((name) =>
      addModel(limiter, needs([need('R', name === 'a' ? 4 : 3)]), order, name),
    );
    a?.send();
    b?.send();
    expect(order).toEqual(['a']);
    a?.finish();
    expect(order).toEqual(['a', 'b']);
  });

  it('runs as many at a time as an explicit count allows, and not one more', () => {
    const order: string[] = [];
    const limiter = new RateLimiter([{ name: 'r', count: 5, device: undefined }]);
    const [a, b, c] = ['a', 'b', 'c'].map((name) =>
      addModel(limiter, needs([need('R', 2)]), order, name),
    );
    a?.send();
    b?.send();
    c?.send();
    expect(order).toEqual(['a', 'b']);
    b?.finish();
    expect(order).toEqual(['a', 'b', 'c']);
  });

  it('needs all resources of an instance to be free', () => {
    const order: string[] = [];
    const limiter = new RateLimiter([]);
    const a = addModel(limiter, needs([need('R', 1)]), order, 'a');
    const b = addModel(limiter, needs([need('S', 1)]), order, 'b');
    const both = addModel(limiter, needs([need('R', 1), need('S', 1)]), order, 'both');
    a.send();
    b.send();
    both.send();
    a.finish();
    expect(both.isRunning()).toBe(false);
    b.finish();
    expect(both.isRunning()).toBe(true);
  });

  it('has a pool for each device, and one for all of a global resource', () => {
    const order: string[] = [];
    const limiter = new RateLimiter([]);
    const models = [0, 1].flatMap((device) => [
      addModel(limiter, needs([need('R', 1)], 1, device), order, `device ${device}`),
      addModel(limiter, needs([need('G', 1, true)], 1, device), order, `global ${device}`),
    ]);
    for (const model of models) model.send();
    expect(order).toEqual(['device 0', 'global 0', 'device 1']);
  });

  it('takes the limit of the very device before that of all', () => {
    const limits = [
      { name: 'R', count: 1, device: undefined },
      { name: 'R', count: 2, device: 1 },
    ];
    const limiter = new RateLimiter(limits);
    limiter.register(needs([need('R', 2)], 1, 1), () => {});
    expect(() => limiter.register(needs([need('R', 2)], 1, 0), () => {})).toThrow(
      'Resource count for "r" is limited to 1 which will prevent scheduling of one or more model instances, the minimum required count is 2',
    );
  });

  it('refuses a resource that is both global and of a device', () => {
    const limiter = new RateLimiter([]);
    limiter.register(needs([need('R', 1)]), () => {});
    expect(() => limiter.register(needs([need('r', 1, true)]), () => {})).toThrow(
      expect.objectContaining({
        code: 'INVALID_ARG',
        message:
          'Resource "r" is present as both global and device-specific resource in the model configuration.',
      }),
    );
  });

  it('chooses an instance of priority 2 half as often as one of priority 1', () => {
    const order: string[] = [];
    const limiter = new RateLimiter([]);
    const a = addModel(limiter, needs([need('R', 1)], 1), order, 'a');
    const b = addModel(limiter, needs([need('R', 1)], 2), order, 'b');
    a.send(100);
    b.send(100);
    while (order.length < 60) {
      if (a.isRunning()) a.finish();
      else b.finish();
    }
    const runs = (name: string) => order.filter((one) => one === name).length;
    expect(Math.abs(runs('a') - 2 * runs('b'))).toBeLessThanOrEqual(2);
  });

  it('does not starve a large need behind many small ones', () => {
    const order: string[] = [];
    const limiter = new RateLimiter([{ name: 'R', count: 2, device: undefined }]);
    const small = ['a', 'b'].map((name) => addModel(limiter, needs([need('R', 1)]), order, name));
    const large = addModel(limiter, needs([need('R', 2)]), order, 'large');
    for (const model of small) model.send(10);
    large.send(1);
    small[0]?.finish();
    small[1]?.finish();
    expect(large.isRunning()).toBe(true);
    large.finish();
    expect(order.slice(3)).toEqual(['a', 'b']);
  });

  it('holds nobody up for one that has nothing to run any more', () => {
    const order: string[] = [];
    const limiter = new RateLimiter([]);
    const a = addModel(limiter, needs([need('R', 1)]), order, 'a');
    const b = addModel(limiter, needs([need('R', 1)]), order, 'b');
    a.send();
    b.send();
    b.batcher.destroy();
    a.finish();
    a.send();
    expect(order).toEqual(['a', 'a']);
  });

  it('gives back what a removed instance held', () => {
    const order: string[] = [];
    const limiter = new RateLimiter([]);
    const a = addModel(limiter, needs([need('R', 1)]), order, 'a');
    const b = addModel(limiter, needs([need('R', 1)]), order, 'b');
    a.send();
    b.send();
    a.limited.release();
    a.limited.release();
    expect(order).toEqual(['a', 'b']);
  });
});

describe('RateLimitedExecutor', () => {
  it('keeps its resources when it is told late that an earlier execution is over', () => {
    const inner = new FakeExecutor(1);
    let tell = () => {};
    inner.onIdle = (listener) => {
      tell = listener;
    };
    const limiter = new RateLimiter([]);
    const limited = new RateLimitedExecutor(inner, limiter, needs([need('r', 1)]));
    const other = new RateLimitedExecutor(new FakeExecutor(1), limiter, needs([need('r', 1)]));
    limited.execute([observedRequest({}).pending]);
    tell();
    expect(other.idleInstances).toBe(0);
  });
});

describe('ExecutorGroup', () => {
  it('is idle as often as its members are, and runs on one that is', () => {
    const members = [new FakeExecutor(1), new FakeExecutor(2)];
    const group = new ExecutorGroup(members);
    let calls = 0;
    group.onIdle(() => {
      calls += 1;
    });
    expect(group.idleInstances).toBe(3);
    for (let index = 0; index < 3; index += 1) group.execute([observedRequest({}).pending]);
    expect(members.map((member) => member.batches.length)).toEqual([1, 2]);
    expect(group.idleInstances).toBe(0);
    expect(() => group.execute([observedRequest({}).pending])).toThrow('without an idle instance');
    members[1]?.complete(0);
    expect(calls).toBe(1);
    expect(group.idleInstances).toBe(1);
  });
});
