import { describe, expect, it } from 'vitest';
import type { FakeClock } from '../support/fake-clock.js';
import { direct, oldest, sequenceCases, setUpSequences } from './sequence-cases.js';
import { play } from './timeline.js';

const noStart = (id: string) =>
  `INVALID_ARG inference request for sequence ${id} to model 'm' must specify the START flag on the first request of the sequence`;
const expired = 'timeout of the corresponding sequence has been expired';

sequenceCases('SequenceBatcher and silence', { strategy: direct(1), idleMs: 100 }, [
  [
    'forgets a sequence that sends nothing for the idle time',
    '0 send a@1(; 1 done; 99 send b@1; 99 done; 199 send c@1',
    `0 run a:S; 99 run b; 199 refused c: ${noStart('1')}`,
  ],
  ['keeps one that speaks just before', '0 send a@1(; 1 done; 99 send b@1', '0 run a:S; 99 run b'],
  [
    'gives the slot of a silent sequence to the backlog',
    '0 send a@1( x@2(; 1 done; 120',
    '0 run a:S; 100 run x:S',
  ],
  [
    'counts from the arrival of the last request, not from its end; what was accepted still runs',
    '0 send a@1( b@1; 90 done; 100 send c@1; 110 done',
    `0 run a:S; 90 run b; 100 refused c: ${noStart('1')}`,
  ],
  [
    'frees the slot of a silent sequence only when its last request has ended',
    '0 send a@1( x@2(; 150 done',
    '0 run a:S; 150 run x:S',
  ],
  [
    'does not reap a sequence in the backlog',
    '0 send a@1( x@2(; 90 send b@1; 180 send c@1; 185 done; 186 done; 187 done; 290; 291 done; 292 send y@2',
    '0 run a:S; 185 run b; 186 run c; 280 run x:S; 292 run y',
  ],
  [
    'hands the slot on through a backlog of silent sequences',
    '0 send a@1( b@2( c@3(; 1 done; 101 done; 202 done; 400 send d@4(',
    '0 run a:S; 100 run b:S; 200 run c:S; 400 run d:S',
  ],
]);

sequenceCases(
  'SequenceBatcher and timeouts in the backlog',
  { strategy: direct(1) },
  [
    [
      'rejects the whole sequence when one of its requests has waited too long',
      '0 send a@1(; 1 send x@2(~500 y@2; 2 send z@2~20; 50 send w@2',
      '0 run a:S; 22 failed x: UNAVAILABLE EXPIRED; 22 failed y: UNAVAILABLE EXPIRED; 22 failed z: UNAVAILABLE EXPIRED; 50 refused w: NOSTART',
    ],
    [
      'lets a sequence run that got its slot before',
      '0 send a@1(); 1 send x@2(~50; 10 done; 100',
      '0 run a:SE; 10 run x:S',
    ],
    ['does not time out what has a slot', '0 send a@1( b@1~20; 50 done', '0 run a:S; 50 run b'],
  ].map(([name = '', events = '', happens = '']) => [
    name,
    // Tokens put the sequence before the timeout where that reads better.
    events.replace(/(@\d\(?)~(\d+)/g, (_, sequence, timeout) => `~${timeout}${sequence}`),
    happens.replaceAll('EXPIRED', expired).replace('NOSTART', noStart('2')),
  ]),
);

sequenceCases('SequenceBatcher and cancellation', { strategy: direct(2) }, [
  [
    'cancels the whole sequence with one of its requests',
    '0 send a@1( b@1 c@1; 1 cancel b; 2 done; 3 send d@1',
    `0 run a:S; 1 cancelled b; 1 cancelled c; 3 refused d: ${noStart('1')}`,
  ],
  [
    'leaves other sequences alone',
    '0 send a@1( b@2( c@1 d@2; 1 cancel c; 2 done',
    '0 run a:S b:S; 1 cancelled c; 2 run - d',
  ],
  [
    'frees the slot when what runs has ended',
    '0 send a@1( b@2( x@3(; 1 cancel a; 2 done; 3 done',
    '0 run a:S b:S; 2 run x:S -',
  ],
  [
    'drops a sequence from the backlog',
    '0 send a@1( b@2( x@3( y@3; 1 cancel y; 2 send c@1); 3 done; 4 done',
    '0 run a:S b:S; 1 cancelled x; 1 cancelled y; 3 run c:E -',
  ],
  [
    'never starts a request that was cancelled before its turn',
    '0 send a@1(; 0 send b@1; 1 cancel b; 2 done; 5',
    '0 run a:S; 1 cancelled b',
  ],
]);

sequenceCases('SequenceBatcher, oldest, and cancellation', { strategy: oldest(4, 1) }, [
  [
    'drops a candidate from the queue of its lane',
    '0 send a@1( b@2( c@3(; 1 cancel b; 2 done',
    '0 run a:S; 1 cancelled b; 2 run c:S',
  ],
]);

sequenceCases('SequenceBatcher that stops', { strategy: direct(1) }, [
  [
    'drains: live sequences go on, new ones are refused',
    '0 send a@1(; 1 drain; 2 send b@1 x@2(; 3 done; 4 done',
    "0 run a:S; 2 refused x: UNAVAILABLE [request id: x] model 'm' is stopping and takes no new sequences; 3 run b",
  ],
  [
    'destroyed: fails what waits and starts nothing more',
    '0 send a@1( b@1 x@2(; 1 destroy; 2 done; 3 send c@1',
    "0 run a:S; 1 failed b: UNAVAILABLE model 'm' was stopped before the request ran; 1 failed x: UNAVAILABLE model 'm' was stopped before the request ran; 3 refused c: UNAVAILABLE [request id: c] model 'm' is stopping and takes no new sequences",
  ],
]);

sequenceCases('SequenceBatcher, oldest, that stops', { strategy: oldest(4, 1) }, [
  [
    'destroyed: fails what its lanes hold',
    '0 send a@1( b@2( c@2; 1 destroy; 2 done',
    "0 run a:S; 1 failed c: UNAVAILABLE model 'm' was stopped before the request ran; 1 failed b: UNAVAILABLE model 'm' was stopped before the request ran",
  ],
]);

describe('SequenceBatcher', () => {
  it('reaps fifty silent sequences at once, lets a new one run and keeps one timer', () => {
    const harness = setUpSequences({ strategy: direct(50), idleMs: 100 });
    const names = Array.from({ length: 50 }, (_, index) => `a${index}@${index + 1}(`);
    const happened = play(harness, `0 send ${names.join(' ')}; 1 done; 200 send b@1(`);
    expect(happened).toHaveLength(2);
    expect(happened[1]).toBe('200 run b:S');
    expect((harness.clock as FakeClock).pendingTimers).toBe(1);
  });

  it('counts what waits, also in the lanes, and what is under way', () => {
    const harness = setUpSequences({ strategy: oldest(2, 1) });
    play(harness, '0 send a@1( b@1 c@2( d@3(');
    expect(harness.scheduler.queuedRequests).toBe(3);
    expect(harness.scheduler.inFlightRequests).toBe(4);
  });

  it('keeps no timer after a drain', async () => {
    const harness = setUpSequences({ strategy: direct(1), idleMs: 60_000 });
    play(harness, '0 send a@1(; 1 done');
    await harness.scheduler.drain();
    expect((harness.clock as FakeClock).pendingTimers).toBe(0);
  });

  it('stamps the arrival of a request, not its turn', () => {
    const harness = setUpSequences({ strategy: oldest(1, 1) });
    const startNs = harness.clock.nowNs();
    play(harness, '0 send a@1(; 5 send b@1; 9 done');
    const [second] = harness.executors[0]?.batches[1] ?? [];
    expect(second?.timing.queueStartNs).toBe(startNs + 5e6);
  });
});

sequenceCases(
  'SequenceBatcher with iterative sequences',
  { strategy: oldest(4, 2), isIterative: true },
  [
    [
      'runs a request without an id again for as long as its model asks, START only at first',
      '0 send a b; 1 again; 2 again; 3 done',
      '0 run a:S b:S; 1 run a b; 2 run a b',
    ],
    [
      'batches a newcomer with what runs again, which waits behind those that waited before',
      '0 send a; 0 send b c; 1 again; 2 again; 3 done; 4 done',
      '0 run a:S; 1 run b:S c:S; 2 run a b; 3 run c',
    ],
    [
      'waits with a slow reader and runs its neighbours',
      '0 send a b; 1 pause a; 2 again; 3 again; 4 resume a; 5 done; 6 done',
      '0 run a:S b:S; 2 run b; 3 run b; 5 run a',
    ],
    [
      'fails what was cancelled while it ran, and what its reader leaves while it waits',
      '0 send a b; 1 cancel a; 2 pause b; 3 again; 4 cancel b; 5 send c',
      '0 run a:S b:S; 3 cancelled a; 4 cancelled b; 5 run c:S',
    ],
    [
      'goes on with what is under way while it drains',
      '0 send a; 1 drain; 2 again; 3 done',
      '0 run a:S; 2 run a',
    ],
    [
      'destroyed: runs nothing again',
      '0 send a; 1 destroy; 2 again',
      "0 run a:S; 2 failed a: UNAVAILABLE model 'm' was stopped before the request ran",
    ],
  ],
);

sequenceCases(
  'SequenceBatcher with iterative sequences, direct',
  { strategy: direct(1), isIterative: true },
  [['keeps the slot', '0 send a b; 1 again; 2 done; 3 done', '0 run a:S; 1 run a; 2 run b:S']],
);

sequenceCases(
  'SequenceBatcher with iterative sequences that keeps order',
  { strategy: oldest(4, 1, [], 0, true), isIterative: true, instances: 1 },
  [
    [
      'gives a request that runs again a new turn',
      '0 send a b; 1 again; 2 done; 3 done',
      '0 run a:S; 1 run b:S; 2 answer b; 2 run a; 3 answer a',
    ],
  ],
);
