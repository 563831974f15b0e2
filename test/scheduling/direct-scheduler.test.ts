import { describe, expect, it } from 'vitest';
import { DirectScheduler } from '../../src/scheduling/direct-scheduler.js';
import { type LookPolicy, lookAtOnce } from '../../src/scheduling/dynamic-batcher.js';
import { FakeClock } from '../support/fake-clock.js';
import { FakeExecutor } from '../support/fake-executor.js';
import { int32Tensor, observedRequest } from '../support/pending-requests.js';

function setUp(instances: number, lookPolicy: LookPolicy = lookAtOnce) {
  const clock = new FakeClock();
  const executor = new FakeExecutor(instances);
  const scheduler = new DirectScheduler('m', executor, clock, lookPolicy);
  const send = (id: string, rows = 1) => {
    const observed = observedRequest({ id }, rows);
    scheduler.enqueue(observed.pending);
    return observed;
  };
  const ranIds = () => executor.batches.map((batch) => batch.map(({ request }) => request.id));
  return { clock, executor, scheduler, send, ranIds };
}

describe('DirectScheduler', () => {
  it('runs each request alone and in order, as instances become free', () => {
    const { executor, scheduler, send, ranIds } = setUp(2);
    for (const id of ['a', 'b', 'c', 'd']) send(id, 3);
    expect(ranIds()).toEqual([['a'], ['b']]);
    expect(scheduler.queuedRequests).toBe(2);
    expect(scheduler.inFlightRequests).toBe(4);
    executor.complete(1);
    executor.complete(0);
    expect(ranIds()).toEqual([['a'], ['b'], ['c'], ['d']]);
    expect(scheduler.queuedRequests).toBe(0);
  });

  it.each<[string, number, number, readonly (readonly string[])[]]>([
    ['all that wait', 1, 8, [['a'], ['b', 'c', 'd', 'e', 'f']]],
    ['no more than the instance takes', 1, 3, [['a'], ['b', 'c', 'd'], ['e', 'f']]],
  ])('hands over %s where the instance takes several', (_what, instances, bundleSize, ran) => {
    const { executor, send, ranIds } = setUp(instances);
    send('a');
    for (const id of ['b', 'c', 'd', 'e', 'f']) send(id);
    executor.bundleSizeMax = bundleSize;
    for (let index = 0; index < ran.length; index += 1) executor.complete(index);
    expect(ranIds()).toEqual(ran);
  });

  it('shares what waits among the idle instances', () => {
    let look = (): void => {};
    const { executor, send, ranIds } = setUp(2, (later) => {
      look = later;
    });
    executor.bundleSizeMax = 8;
    for (const id of ['a', 'b', 'c', 'd', 'e']) send(id);
    expect(ranIds()).toEqual([]);
    look();
    expect(ranIds()).toEqual([
      ['a', 'b', 'c'],
      ['d', 'e'],
    ]);
  });

  it.each([
    [2 ** 20, [['small', '0', '1', '2', '3'], ['4']]],
    [
      2 ** 20 + 1,
      [
        ['small', '0', '1', '2'],
        ['3', '4'],
      ],
    ],
    [2 ** 22 + 1, [['small'], ['0'], ['1'], ['2'], ['3'], ['4']]],
  ])('hands over at most 4 MiB of inputs together: %i bytes each', (byteLength, ran) => {
    const { executor, scheduler, send, ranIds } = setUp(1);
    send('first');
    send('small');
    for (let index = 0; index < 5; index += 1) {
      const bytes = new Uint8Array(byteLength);
      const inputs = [{ ...int32Tensor('IN', [1], [0]), bytes }];
      scheduler.enqueue(observedRequest({ id: String(index), inputs }, 1).pending);
    }
    executor.bundleSizeMax = 8;
    for (let index = 0; index <= ran.length; index += 1) executor.complete(index);
    expect(ranIds()).toEqual([['first'], ...ran]);
  });

  it('leaves a request that was cancelled out of the next bundle', () => {
    const { executor, send, ranIds } = setUp(1);
    executor.bundleSizeMax = 8;
    send('a');
    send('b');
    send('c').pending.cancel();
    send('d');
    executor.complete(0);
    expect(ranIds()).toEqual([['a'], ['b', 'd']]);
  });

  it('stamps the arrival and marks what it hands over as executing', () => {
    const { clock, send } = setUp(1);
    clock.advanceMs(7);
    const ran = send('a');
    const waits = send('b');
    expect(ran.pending.timing.queueStartNs).toBe(clock.nowNs());
    expect(ran.pending.state).toBe('executing');
    expect(waits.pending.state).toBe('queued');
  });

  it('drops a waiting request at once when its client cancels', () => {
    const { executor, send, ranIds } = setUp(1);
    send('a');
    const gone = send('b');
    send('c');
    gone.pending.cancel();
    expect(gone.end?.error?.code).toBe('CANCELLED');
    expect(gone.end?.outcome).toBe('CANCELED');
    executor.complete(0);
    expect(ranIds()).toEqual([['a'], ['c']]);
  });

  it('never runs a request that was cancelled before it arrived', () => {
    const { scheduler, ranIds } = setUp(1);
    const gone = observedRequest({ id: 'a' });
    gone.pending.cancel();
    scheduler.enqueue(gone.pending);
    expect(gone.end?.outcome).toBe('CANCELED');
    expect(ranIds()).toEqual([]);
  });

  it('runs what comes back before all that waits', () => {
    const { executor, scheduler, send, ranIds } = setUp(1);
    executor.bundleSizeMax = 3;
    for (const id of ['a', 'b', 'c', 'd', 'e']) send(id);
    executor.complete(0);
    executor.giveBack(1, 1);
    expect(ranIds()).toEqual([['a'], ['b', 'c', 'd'], ['c', 'd']]);
    expect(scheduler.queuedRequests).toBe(1);
    executor.complete(2);
    executor.complete(3);
    expect(ranIds().at(-1)).toEqual(['e']);
    expect(scheduler.inFlightRequests).toBe(0);
  });

  it('destroyed: fails what comes back', () => {
    const { executor, scheduler, send } = setUp(1);
    const runs = send('a');
    scheduler.destroy();
    executor.giveBack(0);
    expect(runs.end?.error?.message).toBe("model 'm' was stopped before the request ran");
    expect(scheduler.inFlightRequests).toBe(0);
  });

  it('drains: refuses newcomers, runs what waits, then resolves', async () => {
    const { executor, scheduler, send } = setUp(1);
    send('a');
    const waits = send('b');
    let isDrained = false;
    const drained = scheduler.drain().then(() => {
      isDrained = true;
    });
    expect(() => send('c')).toThrow(/^\[request id: c\] model 'm' is stopping/);
    executor.complete(0);
    await Promise.resolve();
    expect(isDrained).toBe(false);
    executor.complete(1);
    await drained;
    expect(waits.end?.outcome).toBe('SUCCESS');
  });

  it('destroyed: fails what waits with UNAVAILABLE and leaves what runs alone', () => {
    const { executor, scheduler, send } = setUp(1);
    const runs = send('a');
    const waits = send('b');
    scheduler.destroy();
    scheduler.destroy();
    expect(waits.end?.error?.code).toBe('UNAVAILABLE');
    expect(runs.end).toBeUndefined();
    executor.complete(0);
    expect(runs.end?.outcome).toBe('SUCCESS');
    expect(scheduler.inFlightRequests).toBe(0);
  });
});
