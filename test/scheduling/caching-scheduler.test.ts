import { describe, expect, it } from 'vitest';
import type { InferenceRequest } from '../../src/inference/infer-request.js';
import { CachingScheduler } from '../../src/scheduling/caching-scheduler.js';
import { DynamicBatcher, lookAtOnce } from '../../src/scheduling/dynamic-batcher.js';
import {
  type CachedResponse,
  LocalResponseCache,
  type ResponseCache,
} from '../../src/scheduling/response-cache.js';
import { batchSizeOptions } from '../../src/scheduling/scheduling-options.js';
import { FakeClock } from '../support/fake-clock.js';
import { FakeExecutor } from '../support/fake-executor.js';
import { int32Tensor, observedRequest } from '../support/pending-requests.js';

/** A cache outside of the process, whose answers come when the test says. */
class OuterCache implements ResponseCache {
  readonly inserted: string[] = [];
  readonly #lookups: ((found: CachedResponse | undefined) => void)[] = [];

  lookup(): Promise<CachedResponse | undefined> {
    return new Promise((resolve) => {
      this.#lookups.push(resolve);
    });
  }

  insert(key: string): void {
    this.inserted.push(key);
  }

  async close(): Promise<void> {}

  async answerNext(found: CachedResponse | undefined): Promise<void> {
    this.#lookups.shift()?.(found);
    // The scheduler goes on in a microtask after this one.
    await Promise.resolve();
    await Promise.resolve();
  }
}

function setUp(cache: ResponseCache = new LocalResponseCache(1e6), queueSizeMax = 0) {
  const clock = new FakeClock();
  const executor = new FakeExecutor(1);
  const inner = new DynamicBatcher(
    {
      modelName: 'm',
      batch: batchSizeOptions(1, [], 0),
      queue: {
        levels: [
          {
            timeoutAction: 'REJECT',
            defaultTimeoutUs: 0,
            allowsTimeoutOverride: true,
            queueSizeMax,
          },
        ],
        defaultLevel: 0,
      },
      preservesOrdering: false,
      shapedInputs: [],
      optionalInputs: [],
      latencyTargetNs: 0,
    },
    executor,
    clock,
    lookAtOnce,
  );
  const counts = { hits: 0, misses: 0, ns: 0 };
  const scheduler = new CachingScheduler(
    inner,
    cache,
    { modelName: 'm', modelVersion: '3', generation: 'g' },
    clock,
    {
      cacheHit: (ns) => {
        counts.hits += 1;
        counts.ns += ns;
      },
      cacheMiss: (ns) => {
        counts.misses += 1;
        counts.ns += ns;
      },
    },
  );
  /** Requests of equal `value` are identical. */
  const send = (value: number, fields: Partial<InferenceRequest> = {}) => {
    const observed = observedRequest({ inputs: [int32Tensor('X', [1], [value])], ...fields });
    scheduler.enqueue(observed.pending);
    return observed;
  };
  const finish = (value: number) =>
    executor.complete(executor.batches.length - 1, () => [int32Tensor('Y', [1], [value])]);
  return { clock, executor, scheduler, counts, send, finish };
}

type Sent = ReturnType<ReturnType<typeof setUp>['send']>;
const answerOf = ({ responses }: Sent) => responses[0]?.outputs[0]?.bytes[0];
const outcomes = (sent: readonly Sent[]) => sent.map(({ end }) => end?.outcome);

describe('CachingScheduler', () => {
  it('runs a request once and answers the same request from the cache, under its own id', () => {
    const { executor, counts, send, finish } = setUp();
    const first = send(1, { id: 'a' });
    finish(7);
    const second = send(1, { id: 'b' });
    expect(executor.batches).toHaveLength(1);
    expect(outcomes([first, second])).toEqual(['SUCCESS', 'CACHE_HIT']);
    expect(second.responses[0]).toMatchObject({ modelName: 'm', modelVersion: '3', id: 'b' });
    expect(answerOf(second)).toBe(7);
    expect(counts).toMatchObject({ hits: 1, misses: 1 });
  });

  it('answers a hit although the model is busy', () => {
    const { send, finish } = setUp();
    send(1);
    finish(7);
    send(2);
    expect(send(1).end?.outcome).toBe('CACHE_HIT');
  });

  it('does not keep failures', () => {
    const { executor, counts, send } = setUp();
    send(1);
    executor.fail(0);
    send(1);
    expect(executor.batches).toHaveLength(2);
    expect(counts).toMatchObject({ hits: 0, misses: 0 });
  });

  it('runs identical requests in flight once', () => {
    const { executor, scheduler, counts, send, finish } = setUp();
    const sent = [send(1, { id: 'a' }), send(1, { id: 'b' }), send(1, { id: 'c' })];
    expect(scheduler.inFlightRequests).toBe(3);
    expect(scheduler.queuedRequests).toBe(2);
    finish(7);
    expect(executor.batches).toHaveLength(1);
    expect(sent.map(answerOf)).toEqual([7, 7, 7]);
    expect(sent.map(({ responses }) => responses[0]?.id)).toEqual(['a', 'b', 'c']);
    expect(outcomes(sent)).toEqual(['SUCCESS', 'CACHE_HIT', 'CACHE_HIT']);
    expect(counts).toMatchObject({ hits: 2, misses: 1 });
    expect(scheduler.inFlightRequests).toBe(0);
    expect(scheduler.queuedRequests).toBe(0);
  });

  it('lets requests of another priority or timeout run on their own', () => {
    const { scheduler, send } = setUp();
    send(1);
    send(1, { priority: 1 });
    send(1, { timeoutUs: 50_000 });
    expect(scheduler.inFlightRequests).toBe(3);
    expect(scheduler.queuedRequests).toBe(2);
  });

  it('fails followers with the execution that they waited for', () => {
    const { executor, send } = setUp();
    const sent = [send(1), send(1)];
    executor.fail(0, 'broken');
    expect(sent.map(({ end }) => end?.error?.message)).toEqual(['broken', 'broken']);
    expect(outcomes(sent)).toEqual(['BACKEND', 'BACKEND']);
    send(1);
    expect(executor.batches).toHaveLength(2);
  });

  it('lets the next one lead when the leader times out in the queue', () => {
    const { clock, executor, send, finish } = setUp();
    send(9);
    const leader = send(1, { timeoutUs: 50_000 });
    clock.advanceMs(20);
    const follower = send(1, { timeoutUs: 50_000 });
    clock.advanceMs(30);
    expect(leader.end?.outcome).toBe('REJECTED');
    expect(follower.end).toBeUndefined();
    finish(1);
    finish(7);
    expect(executor.batches).toHaveLength(2);
    expect(answerOf(follower)).toBe(7);
  });

  it('runs on for followers when the client of the leader goes away', () => {
    const { executor, send, finish } = setUp();
    const leader = send(1);
    const follower = send(1);
    leader.pending.cancel();
    expect(leader.end?.outcome).toBe('CANCELED');
    finish(7);
    expect(executor.batches).toHaveLength(1);
    expect(answerOf(follower)).toBe(7);
  });

  it('drops a queued execution that nobody waits for any more', () => {
    const { executor, send, finish, scheduler } = setUp();
    send(9);
    const leader = send(1);
    const follower = send(1);
    leader.pending.cancel();
    follower.pending.cancel();
    expect(outcomes([leader, follower])).toEqual(['CANCELED', 'CANCELED']);
    finish(1);
    expect(executor.batches).toHaveLength(1);
    expect(scheduler.inFlightRequests).toBe(0);
    send(1);
    expect(executor.batches).toHaveLength(2);
  });

  it('cancels a lone leader where it waits', () => {
    const { executor, send, finish } = setUp();
    send(9);
    const leader = send(1);
    leader.pending.cancel();
    expect(leader.end?.outcome).toBe('CANCELED');
    finish(1);
    expect(executor.batches).toHaveLength(1);
  });

  it('a follower that goes away holds nobody up', () => {
    const { send, finish } = setUp();
    const leader = send(1);
    const follower = send(1);
    follower.pending.cancel();
    finish(7);
    expect(outcomes([leader, follower])).toEqual(['SUCCESS', 'CANCELED']);
  });

  it('passes a refusal on and leaves the request with its caller', () => {
    const { scheduler, send, finish } = setUp(undefined, 1);
    send(1);
    send(2);
    expect(() => send(3)).toThrow('Exceeds maximum queue size');
    expect(scheduler.inFlightRequests).toBe(2);
    finish(1);
    expect(send(3).end).toBeUndefined();
  });

  it('drains: refuses newcomers and resolves when all have settled', async () => {
    const { scheduler, send, finish } = setUp();
    send(1);
    const follower = send(1);
    const drained = scheduler.drain();
    expect(() => send(2)).toThrow(/is stopping/);
    finish(7);
    await drained;
    expect(follower.end?.outcome).toBe('CACHE_HIT');
  });

  it('destroyed: fails what waits, followers too', () => {
    const { scheduler, send } = setUp();
    send(9);
    const sent = [send(1), send(1)];
    scheduler.destroy();
    expect(sent.map(({ end }) => end?.error?.code)).toEqual(['UNAVAILABLE', 'UNAVAILABLE']);
  });
});

describe('CachingScheduler with a cache outside of the process', () => {
  const found: CachedResponse = {
    parameters: new Map(),
    outputs: [int32Tensor('Y', [1], [7])],
  };

  it('runs nothing when the cache has the answer', async () => {
    const cache = new OuterCache();
    const { clock, executor, scheduler, counts, send } = setUp(cache);
    const sent = [send(1), send(1)];
    expect(scheduler.queuedRequests).toBe(2);
    clock.advanceMs(1);
    await cache.answerNext(found);
    expect(outcomes(sent)).toEqual(['CACHE_HIT', 'CACHE_HIT']);
    expect(executor.batches).toHaveLength(0);
    expect(cache.inserted).toHaveLength(0);
    expect(counts.ns).toBe(2e6);
    expect(scheduler.queuedRequests).toBe(0);
  });

  it('runs the request when it has not, and inserts the answer', async () => {
    const cache = new OuterCache();
    const { send, finish } = setUp(cache);
    const sent = [send(1), send(1)];
    await cache.answerNext(undefined);
    finish(7);
    expect(outcomes(sent)).toEqual(['SUCCESS', 'CACHE_HIT']);
    expect(cache.inserted).toHaveLength(1);
  });

  it('lets a follower lead when the client of the leader went away meanwhile', async () => {
    const cache = new OuterCache();
    const { scheduler, send, finish } = setUp(cache);
    const leader = send(1);
    const follower = send(1);
    leader.pending.cancel();
    await cache.answerNext(undefined);
    finish(7);
    expect(outcomes([leader, follower])).toEqual(['CANCELED', 'SUCCESS']);
    expect(scheduler.inFlightRequests).toBe(0);
    expect(scheduler.queuedRequests).toBe(0);
  });

  it('fails a request that the model refuses after the look-up, and lets the next one try', async () => {
    const cache = new OuterCache();
    const { send, finish } = setUp(cache, 1);
    send(8);
    await cache.answerNext(undefined);
    send(9);
    await cache.answerNext(undefined);
    const sent = [send(1), send(1)];
    await cache.answerNext(undefined);
    expect(outcomes(sent)).toEqual(['REFUSED', 'REFUSED']);
    expect(sent[0]?.end?.error?.message).toContain('Exceeds maximum queue size');
    finish(1);
  });
});
