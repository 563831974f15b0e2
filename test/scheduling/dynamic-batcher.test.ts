import { cases } from './dynamic-batcher-cases.js';

cases('DynamicBatcher without delay or preferred sizes', { max: 4 }, [
  ['runs a request at once when an instance is idle', '0 send a', '0 run a'],
  [
    'runs the first alone and gathers the rest meanwhile',
    '0 send a b c; 5 done',
    '0 run a; 5 run b c',
  ],
  [
    'fills a batch up to the maximum and leaves the rest',
    '0 send a b c d e f; 5 done; 6 done',
    '0 run a; 5 run b c d e; 6 run f',
  ],
  [
    'counts rows, not requests',
    '0 send a b*2 c*2 d; 5 done; 6 done',
    '0 run a; 5 run b c; 6 run d',
  ],
  [
    'never skips a request that does not fit for one behind it that would',
    '0 send a b*3 c*2 d; 5 done; 6 done',
    '0 run a; 5 run b; 6 run c d',
  ],
  ['runs a request of exactly the maximum', '0 send a*4', '0 run a'],
  [
    'does nothing when an instance becomes idle with an empty queue',
    '0 send a; 5 done; 9',
    '0 run a',
  ],
  [
    'runs the next batch after a failed one',
    '0 send a b; 5 crash',
    '0 run a; 5 failed a: INTERNAL instance failed; 5 run b',
  ],
  [
    'fails all of a batch whose instance dies and nobody else',
    '0 send a b c; 5 done; 6 send d; 7 crash',
    '0 run a; 5 run b c; 7 failed b: INTERNAL instance failed; 7 failed c: INTERNAL instance failed; 7 run d',
  ],
]);

cases('DynamicBatcher over two instances', { instances: 2, max: 4 }, [
  [
    'makes two batches of two requests while two instances are idle',
    '0 send a b',
    '0 run a; 0 run b',
  ],
  [
    'gathers only once every instance is busy',
    '0 send a b c d; 3 done 1',
    '0 run a; 0 run b; 3 run c d',
  ],
  [
    'gives each instance its own share of a long queue',
    '0 send a b c d e f g h; 3 done 0; 4 done 1',
    '0 run a; 0 run b; 3 run c d e f; 4 run g h',
  ],
]);

cases('DynamicBatcher that looks after simultaneous arrivals', { max: 4, gathers: true }, [
  ['lets what arrived together share a batch', '0 send a b c', '0 run a b c'],
  ['splits them by the maximum', '0 send a b c d e; 1 done', '0 run a b c d; 1 run e'],
  ['looks once a moment', '0 send a; 1 send b c; 2 done', '0 run a; 2 run b c'],
]);

cases('DynamicBatcher with preferred sizes and no delay', { preferred: [4, 6] }, [
  [
    'takes everything below the smallest preferred size',
    '0 send a; 0 send b c d; 5 done',
    '0 run a; 5 run b c d',
  ],
  [
    'cuts at 4 when 5 wait',
    '0 send z; 0 send a b c d e; 5 done; 6 done',
    '0 run z; 5 run a b c d; 6 run e',
  ],
  [
    'takes the largest preferred size that fits: 7 are 6 and 1',
    '0 send z; 0 send a b c d e f g; 5 done; 6 done',
    '0 run z; 5 run a b c d e f; 6 run g',
  ],
  ['6 are one batch', '0 send z; 0 send a b c d e f; 5 done', '0 run z; 5 run a b c d e f'],
  [
    '10 are 6 and 4',
    '0 send z; 0 send a b c d e f g h i j; 5 done; 6 done',
    '0 run z; 5 run a b c d e f; 6 run g h i j',
  ],
  [
    '9 are 6 and 3',
    '0 send z; 0 send a b c d e f g h i; 5 done; 6 done',
    '0 run z; 5 run a b c d e f; 6 run g h i',
  ],
  [
    'stops before the request that would pass the largest preferred size',
    '0 send z; 0 send a*3 b*4; 5 done; 6 done',
    '0 run z; 5 run a; 6 run b',
  ],
  ['runs a single request above the largest preferred size', '0 send a*7', '0 run a'],
  ['runs a single request of the maximum', '0 send a*8', '0 run a'],
]);

cases('DynamicBatcher with one preferred size', { preferred: [4] }, [
  [
    '9 waiting are 4, 4 and 1',
    '0 send z; 0 send a b c d e f g h i; 5 done; 6 done; 7 done',
    '0 run z; 5 run a b c d; 6 run e f g h; 7 run i',
  ],
]);

cases('DynamicBatcher with a delay', { max: 4, delayMs: 10 }, [
  ['waits for company even while an instance is idle', '0 send a; 9', ''],
  ['runs what there is when the delay is over', '0 send a; 4 send b; 12', '10 run a b'],
  [
    'counts the delay from the oldest request, not the newest',
    '0 send a; 9 send b; 30',
    '10 run a b',
  ],
  ['runs at once when the maximum is reached', '0 send a; 2 send b c; 3 send d', '3 run a b c d'],
  [
    'runs at once when the next request would pass the maximum',
    '0 send a*3; 2 send b*2; 30',
    '2 run a',
  ],
  [
    'starts the delay of what stays behind at its own arrival',
    '0 send a*3; 2 send b*2; 3 done; 30',
    '2 run a; 12 run b',
  ],
  [
    'does not wait again for a request that has waited while instances were busy',
    '0 send a*4; 1 send b; 20 done',
    '0 run a; 20 run b',
  ],
  [
    'waits on for one that has not waited long enough',
    '0 send a*4; 1 send b; 5 done; 20',
    '0 run a; 11 run b',
  ],
  [
    'lets later arrivals join an overdue batch',
    '0 send a*4; 1 send b; 19 send c; 20 done',
    '0 run a; 20 run b c',
  ],
  [
    'forgets a cancelled request that had started the delay',
    '0 send a; 3 send b; 4 cancel a; 20',
    '4 cancelled a; 13 run b',
  ],
  [
    'does not run when all that waited were cancelled',
    '0 send a b; 5 cancel a b; 50',
    '5 cancelled a; 5 cancelled b',
  ],
  ['runs a full single request at once', '0 send a*4', '0 run a'],
  ['stops waiting when it drains', '0 send a; 3 drain', '3 run a'],
]);

cases('DynamicBatcher with preferred sizes and a delay', { preferred: [2, 6], delayMs: 10 }, [
  ['runs a preferred size at once', '0 send a; 3 send b; 30', '3 run a b'],
  ['runs a single request of a preferred size at once', '0 send a*2', '0 run a'],
  ['waits below every preferred size', '0 send a; 30', '10 run a'],
  ['waits between preferred sizes', '0 send a*3; 30', '10 run a'],
  [
    '3 then 4 rows: the 3 go at once, the 4 wait',
    '0 send a*3; 1 send b*4; 2 done; 30',
    '1 run a; 11 run b',
  ],
  [
    'uses the biggest preferred size that waits',
    '0 send z*6; 0 send a b c d e f; 5 done',
    '0 run z; 5 run a b c d e f',
  ],
  [
    'uses the best preferred size and delays the rest',
    '0 send z*6; 0 send a b c; 5 done; 6 done; 30',
    '0 run z; 5 run a b; 10 run c',
  ],
  [
    'ignores preferred sizes once the delay is over',
    '0 send z*6; 0 send a b c; 15 done',
    '0 run z; 15 run a b c',
  ],
  [
    'fills up to the maximum once the delay is over',
    '0 send z*6; 0 send a*3 b*4 c; 15 done; 16 done',
    '0 run z; 15 run a b c',
  ],
  ['7 rows in one request are above all preferred sizes and go at once', '0 send a*7', '0 run a'],
  [
    'a cancellation that leaves a preferred size starts it',
    '0 send z*6; 0 send a*2 b*2 c; 1 cancel a; 2 done; 3 done; 30',
    '0 run z; 1 cancelled a; 2 run b; 10 run c',
  ],
]);

cases(
  'DynamicBatcher with a preferred size that sums may skip',
  { preferred: [3, 8], delayMs: 10 },
  [
    [
      'hits it when a cancellation makes the sum fit',
      '0 send a*2 b*2 c; 1 cancel a; 30',
      '1 cancelled a; 1 run b c',
    ],
  ],
);

cases('DynamicBatcher with inputs of variable shape', { max: 4, delayMs: 10, shaped: ['X'] }, [
  ['keeps equal shapes together', '0 send a[5] b[5]; 30', '10 run a b'],
  [
    'runs the batch before the first other shape at once',
    '0 send a[5] b[5] c[6]; 1 done; 30',
    '0 run a b; 10 run c',
  ],
  [
    'never reaches past the other shape',
    '0 send a[5] b[6] c[5]; 1 done; 2 done; 30',
    '0 run a; 1 run b; 10 run c',
  ],
  [
    'alternating shapes all make progress',
    '0 send a[16] b[20] c[16] d[20]; 1 done; 2 done; 3 done; 30',
    '0 run a; 1 run b; 2 run c; 10 run d',
  ],
  ['compares all inner dimensions', '0 send a[2,3] b[3,2]; 1 done; 30', '0 run a; 10 run b'],
  ['ignores the batch dimension', '0 send a*2[5] b*1[5]; 30', '10 run a b'],
]);

cases('DynamicBatcher with ragged inputs', { max: 4, delayMs: 10, shaped: [] }, [
  ['mixes shapes', '0 send a[1] b[2] c[3]; 30', '10 run a b c'],
]);

cases('DynamicBatcher with optional inputs', { max: 4, delayMs: 10, optional: ['p', 'q'] }, [
  ['keeps requests with the same inputs together', '0 send a+p b+p; 30', '10 run a b'],
  ['separates those with and without', '0 send a+p b; 1 done; 30', '0 run a; 10 run b'],
  ['separates different optional inputs', '0 send a+p b+q; 1 done; 30', '0 run a; 10 run b'],
  ['does not mind their order', '0 send a+p+q b+q+p; 30', '10 run a b'],
]);

cases(
  'DynamicBatcher with optional inputs of variable shape',
  { max: 4, delayMs: 10, shaped: ['X', 'p'], optional: ['p'] },
  [
    ['separates by presence', '0 send a[2]+p b[2]; 1 done; 30', '0 run a; 10 run b'],
    ['separates by shape', '0 send a[2]+p b[3]+p; 1 done; 30', '0 run a; 10 run b'],
  ],
);

cases(
  'DynamicBatcher over an instance that takes 2 rows or more ahead',
  { max: 4, aheadRowsMin: 2 },
  [
    ['keeps fewer rows for when the instance is idle', '0 send a b; 5 done', '0 run a; 5 run b'],
    ['hands over what waits once it is enough', '0 send a b; 3 send c', '0 run a; 3 run b c'],
    [
      'hands over one batch ahead and not two',
      '0 send a b c d e; 5 done 0',
      '0 run a; 0 run b c; 5 run d e',
    ],
    ['counts rows', '0 send a b*2', '0 run a; 0 run b'],
    [
      'runs what comes back before all that waits, as it was',
      '0 send a b c d; 4 crash 0; 4 return 1; 5 done; 6 done',
      '0 run a; 0 run b c; 4 failed a: INTERNAL instance failed; 4 run b c; 5 run d',
    ],
  ],
);

cases(
  'DynamicBatcher that preserves ordering, when a batch comes back',
  { max: 1, instances: 2, preservesOrdering: true },
  [
    [
      'keeps its place in the order of answers',
      '0 send a b c; 1 return 0; 2 done 1; 3 done 2; 4 done 3',
      '0 run a; 0 run b; 1 run a; 2 run c; 3 answer a; 3 answer b; 4 answer c',
    ],
  ],
);
