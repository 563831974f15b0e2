import { cases } from './dynamic-batcher-cases.js';

cases('DynamicBatcher with a queue limit', { max: 1, levels: [{ queueSizeMax: 2 }] }, [
  ['takes as many as the limit says', '0 send a b c', '0 run a'],
  ['refuses the one above', '0 send a b c d', '0 run a; 0 full d'],
  ['counts requests, not rows', '0 send a b c d', '0 run a; 0 full d'],
  ['does not count what runs', '0 send a b c; 1 done; 1 send d e', '0 run a; 1 run b; 1 full e'],
  [
    'gives a cancelled place to the next',
    '0 send a b c; 1 cancel b; 1 send d e',
    '0 run a; 1 cancelled b; 1 full e',
  ],
]);

cases(
  'DynamicBatcher with a queue limit that looks after arrivals',
  { max: 2, gathers: true, levels: [{ queueSizeMax: 1 }] },
  [['starts what could run before it refuses a newcomer', '0 send a b c', '0 run a; 0 full c']],
);

cases('DynamicBatcher with a timeout', { max: 2, levels: [{ defaultTimeoutUs: 50_000 }] }, [
  [
    'fails a request that waits too long, on time and not when an instance frees',
    '0 send a b; 49; 100 done',
    '0 run a; 50 timeout b',
  ],
  ['lets it run just before', '0 send a b; 49 done', '0 run a; 49 run b'],
  ['fails it at the very moment', '0 send a b; 50 done', '0 run a; 50 timeout b'],
  ['does not touch what runs', '0 send a; 100 done', '0 run a'],
  [
    'fails each at its own time',
    '0 send a b; 10 send c; 100',
    '0 run a; 50 timeout b; 60 timeout c',
  ],
  ['ignores the own timeout of a request', '0 send a b~10; 100', '0 run a; 50 timeout b'],
  [
    'forgets the timeout of a cancelled request',
    '0 send a b; 10 cancel b; 100',
    '0 run a; 10 cancelled b',
  ],
  [
    'forms the batch without the timed-out',
    '0 send a b; 30 send c; 60 done',
    '0 run a; 50 timeout b; 60 run c',
  ],
]);

cases(
  'DynamicBatcher with a timeout that requests may shorten',
  { max: 2, levels: [{ defaultTimeoutUs: 50_000, allowsTimeoutOverride: true }] },
  [
    ['uses the shorter one', '0 send a b~20; 100', '0 run a; 20 timeout b'],
    ['keeps the default against a longer one', '0 send a b~80; 100', '0 run a; 50 timeout b'],
    ['keeps the default where there is none', '0 send a b; 100', '0 run a; 50 timeout b'],
    [
      'fires them in the order in which they are due',
      '0 send a b c~20 d~10; 100',
      '0 run a; 10 timeout d; 20 timeout c; 50 timeout b',
    ],
  ],
);

cases(
  'DynamicBatcher that allows timeouts and has none of its own',
  { max: 2, levels: [{ allowsTimeoutOverride: true }] },
  [
    ['uses the timeout of the request', '0 send a b~20; 100', '0 run a; 20 timeout b'],
    ['waits for ever without one', '0 send a b; 100000', '0 run a'],
  ],
);

cases(
  'DynamicBatcher whose delay passes the timeout',
  { max: 4, delayMs: 20, levels: [{ defaultTimeoutUs: 10_000 }] },
  [['times the request out before the delay is over', '0 send a; 30', '10 timeout a']],
);

cases(
  'DynamicBatcher with DELAY',
  { max: 1, levels: [{ timeoutAction: 'DELAY', defaultTimeoutUs: 50_000 }] },
  [
    [
      'serves a late request after those that are in time',
      '0 send a b; 40 send c; 60 done; 61 done; 62 done',
      '0 run a; 60 run c; 61 run b',
    ],
    ['serves it when nothing else waits', '0 send a b; 60 done', '0 run a; 60 run b'],
    [
      'keeps the order among late ones',
      '0 send a b c; 60 send d; 70 done; 71 done; 72 done',
      '0 run a; 70 run d; 71 run b; 72 run c',
    ],
    [
      'a late one can still be cancelled',
      '0 send a b; 60 cancel b; 70 done',
      '0 run a; 60 cancelled b',
    ],
  ],
);

cases(
  'DynamicBatcher with DELAY and a queue limit',
  { max: 1, levels: [{ timeoutAction: 'DELAY', defaultTimeoutUs: 50_000, queueSizeMax: 2 }] },
  [['counts the late ones too', '0 send a b c; 60 send d', '0 run a; 60 full d']],
);

cases(
  'DynamicBatcher with DELAY and batches',
  { max: 4, levels: [{ timeoutAction: 'DELAY', defaultTimeoutUs: 50_000 }] },
  [
    [
      'fills a batch with late ones behind those in time',
      '0 send a b; 40 send c; 60 done',
      '0 run a; 60 run c b',
    ],
  ],
);

cases('DynamicBatcher with priorities', { max: 1, levels: [{}, {}, {}], defaultLevel: 1 }, [
  [
    'serves the highest level first',
    '0 send a b^3 c^2 d^1; 1 done; 2 done; 3 done',
    '0 run a; 1 run d; 2 run c; 3 run b',
  ],
  [
    'keeps the order within a level',
    '0 send a b^1 c^1; 1 done; 2 done',
    '0 run a; 1 run b; 2 run c',
  ],
  [
    'uses the default level for priority 0',
    '0 send a b^3 c d^1; 1 done; 2 done; 3 done',
    '0 run a; 1 run d; 2 run c; 3 run b',
  ],
  [
    'uses the default level for a priority that does not exist',
    '0 send a b^3 c^9 d^1; 1 done; 2 done; 3 done',
    '0 run a; 1 run d; 2 run c; 3 run b',
  ],
  [
    'lets a later request of a higher level overtake',
    '0 send a b^2; 1 send c^1; 2 done; 3 done',
    '0 run a; 2 run c; 3 run b',
  ],
]);

cases('DynamicBatcher with priorities and batches', { max: 3, levels: [{}, {}], defaultLevel: 1 }, [
  [
    'fills a batch over levels, the highest first',
    '0 send z b^2 c^2 d^1 e^1; 1 done; 2 done',
    '0 run z; 1 run d e b; 2 run c',
  ],
]);

cases(
  'DynamicBatcher with priorities and a delay',
  { max: 4, delayMs: 10, levels: [{}, {}], defaultLevel: 1 },
  [
    [
      'counts the delay from the oldest of the batch, whatever its level',
      '0 send a^2; 6 send b^1; 30',
      '10 run b a',
    ],
  ],
);

cases(
  'DynamicBatcher with a policy for each level',
  {
    max: 1,
    levels: [
      { queueSizeMax: 1, defaultTimeoutUs: 400_000 },
      { timeoutAction: 'DELAY', defaultTimeoutUs: 50_000 },
    ],
    defaultLevel: 1,
  },
  [
    ['bounds each level by itself', '0 send z a^1 b^1 c^2 d^2', '0 run z; 0 full b'],
    [
      'times each level out by its own policy',
      '0 send z a^1 b^2; 300 send c^2; 340 done; 345 send x; 401',
      '0 run z; 340 run a',
    ],
    [
      'rejects in one level and delays in the other',
      '0 send z a^1 b^2; 390 send c^2; 410 done; 411 done; 412 done',
      '0 run z; 400 timeout a; 410 run c; 411 run b',
    ],
    [
      'serves late requests of a level before the next level',
      '0 send z b^2; 60 send a^1; 61 done; 62 done',
      '0 run z; 61 run a; 62 run b',
    ],
  ],
);

cases(
  'DynamicBatcher with DELAY in the higher level',
  {
    max: 1,
    levels: [{ timeoutAction: 'DELAY', defaultTimeoutUs: 50_000 }, {}],
    defaultLevel: 1,
  },
  [
    [
      'puts a late request behind its own level but before lower ones',
      '0 send z a^1 b^2; 60 send c^1; 70 done; 71 done; 72 done',
      '0 run z; 70 run c; 71 run a; 72 run b',
    ],
  ],
);
