import { describe, expect, it } from 'vitest';
import type { FakeClock } from '../support/fake-clock.js';
import { cases, setUp } from './dynamic-batcher-cases.js';
import { play } from './timeline.js';

cases('DynamicBatcher and cancellation', { max: 4 }, [
  [
    'drops a queued request and batches its neighbours',
    '0 send a b c d; 1 cancel c; 2 done',
    '0 run a; 1 cancelled c; 2 run b d',
  ],
  [
    'drops the head of the queue',
    '0 send a b c; 1 cancel b; 2 done',
    '0 run a; 1 cancelled b; 2 run c',
  ],
  [
    'drops the end of the queue',
    '0 send a b c; 1 cancel c; 2 done',
    '0 run a; 1 cancelled c; 2 run b',
  ],
  ['is heard once', '0 send a b; 1 cancel b b; 2 done', '0 run a; 1 cancelled b'],
  ['leaves what runs to the executor', '0 send a; 1 cancel a; 2 done', '0 run a'],
  ['means nothing after the end', '0 send a; 1 done; 2 cancel a', '0 run a'],
]);

cases('DynamicBatcher that stops', { max: 1 }, [
  [
    'drains: refuses newcomers and runs what waits',
    '0 send a b; 1 drain; 1 send c; 2 done; 3 done',
    "0 run a; 1 refused c: UNAVAILABLE [request id: c] model 'm' is stopping and takes no new requests; 2 run b",
  ],
  [
    'destroyed: fails what waits and starts nothing more',
    '0 send a b c; 1 destroy; 2 done',
    "0 run a; 1 failed b: UNAVAILABLE model 'm' was stopped before the request ran; 1 failed c: UNAVAILABLE model 'm' was stopped before the request ran",
  ],
  [
    'destroyed: refuses newcomers',
    '0 destroy; 1 send a',
    "1 refused a: UNAVAILABLE [request id: a] model 'm' is stopping and takes no new requests",
  ],
]);

cases('DynamicBatcher that preserves ordering', { instances: 2, max: 1, preservesOrdering: true }, [
  [
    'holds an answer until the one before it is out',
    '0 send a b; 1 done 1; 2 done 0',
    '0 run a; 0 run b; 2 answer a; 2 answer b',
  ],
  [
    'answers at once when it is its turn',
    '0 send a b; 1 done 0; 2 done 1',
    '0 run a; 0 run b; 1 answer a; 2 answer b',
  ],
  [
    'lets an instance that was overtaken by the order run on',
    '0 send a b c d; 1 done 1; 2 done 2; 3 done 3; 4 done 0',
    '0 run a; 0 run b; 1 run c; 2 run d; 4 answer a; 4 answer b; 4 answer c; 4 answer d',
  ],
  [
    'holds failures too',
    '0 send a b; 1 crash 1; 2 done 0',
    '0 run a; 0 run b; 2 answer a; 2 failed b: INTERNAL instance failed',
  ],
  [
    'a failure frees those behind it',
    '0 send a b; 1 done 1; 2 crash 0',
    '0 run a; 0 run b; 2 failed a: INTERNAL instance failed; 2 answer b',
  ],
  [
    'a request cancelled in the queue holds nobody up',
    '0 send a b c; 1 cancel c; 2 done 1; 3 done 0',
    '0 run a; 0 run b; 1 cancelled c; 3 answer a; 3 answer b',
  ],
]);

describe('DynamicBatcher', () => {
  it('keeps no timer once nothing waits', () => {
    const harness = setUp({ max: 1, delayMs: 0, levels: [{ defaultTimeoutUs: 1000 }] });
    play(harness, '0 send a b; 0.5 done; 5 done; 10');
    expect((harness.clock as FakeClock).pendingTimers).toBe(0);
  });

  it('stops its timer when it is destroyed', () => {
    const harness = setUp({ delayMs: 1000 });
    play(harness, '0 send a; 1 destroy');
    expect((harness.clock as FakeClock).pendingTimers).toBe(0);
  });

  it('counts what waits and what is under way', () => {
    const harness = setUp({ max: 1 });
    play(harness, '0 send a b c; 1 cancel b');
    expect(harness.scheduler.queuedRequests).toBe(1);
    expect(harness.scheduler.inFlightRequests).toBe(2);
    harness.executors[0]?.complete(0);
    harness.executors[0]?.complete(1);
    expect(harness.scheduler.queuedRequests).toBe(0);
    expect(harness.scheduler.inFlightRequests).toBe(0);
  });

  it('resolves a drain when the last request has settled, and at once when idle', async () => {
    const harness = setUp({ max: 1 });
    play(harness, '0 send a b');
    let isDrained = false;
    const drained = harness.scheduler.drain().then(() => {
      isDrained = true;
    });
    harness.executors[0]?.complete(0);
    await Promise.resolve();
    expect(isDrained).toBe(false);
    harness.executors[0]?.complete(1);
    await drained;
    await harness.scheduler.drain();
  });
});
