import { direct, oldest, sequenceCases } from './sequence-cases.js';

const noId =
  "INVALID_ARG inference request to model 'm' must specify a non-zero or non-empty correlation ID";
const noStart = (id: string) =>
  `INVALID_ARG inference request for sequence ${id} to model 'm' must specify the START flag on the first request of the sequence`;

sequenceCases('SequenceBatcher at the door', { strategy: direct(2) }, [
  ['refuses a request without a sequence', '0 send a', `0 refused a: ${noId}`],
  ['refuses the id 0', '0 send a@0(', `0 refused a: ${noId}`],
  ['refuses the empty text id', "0 send a@'(", `0 refused a: ${noId}`],
  [
    'refuses a request of several rows',
    '0 send a*2@7(',
    "0 refused a: INVALID_ARG inference request to model 'm' must specify batch-size 1 due to requirements of sequence batcher",
  ],
  ['refuses a first request without START', '0 send a@7', `0 refused a: ${noStart('7')}`],
  ['names a text id in the refusal', "0 send a@'zzz", `0 refused a: ${noStart('zzz')}`],
  [
    'refuses a request after the END',
    '0 send a@7(); 1 done; 2 send b@7',
    `0 run a:SE; 2 refused b: ${noStart('7')}`,
  ],
  [
    'refuses a request after the END even while that one still runs',
    '0 send a@7(); 1 send b@7',
    `0 run a:SE; 1 refused b: ${noStart('7')}`,
  ],
  [
    'takes 1 and the text 1 as two sequences',
    "0 send a@1(; 1 send b@'1; 2 send b@'1(; 3 done; 4 done",
    `0 run a:S; 1 refused b: ${noStart('1')}; 3 run - b:S`,
  ],
]);

sequenceCases('SequenceBatcher with one slot', { strategy: direct(1) }, [
  [
    'runs a sequence request by request',
    '0 send a@7( b@7 c@7); 1 done; 2 done; 3 done',
    '0 run a:S; 1 run b; 2 run c:E',
  ],
  ['runs a sequence of one request', '0 send a@7()', '0 run a:SE'],
  [
    'gives the slot to the next sequence after the END',
    '0 send a@1( x@2( b@1) y@2); 1 done; 2 done; 3 done',
    '0 run a:S; 1 run b:E; 2 run x:S; 3 run y:E',
  ],
  [
    'keeps the backlog in the order of its sequences',
    '0 send a@1( x@2() y@3() b@1); 1 done; 2 done; 3 done',
    '0 run a:S; 1 run b:E; 2 run x:SE; 3 run y:SE',
  ],
  [
    'takes a START on a live id into the same slot, behind what is queued',
    '0 send a@7( b@7 c@7( d@7); 1 done; 2 done; 3 done',
    '0 run a:S; 1 run b; 2 run c:S; 3 run d:E',
  ],
  [
    'starts an id anew behind its ending sequence',
    '0 send a@7( b@7) c@7( d@7); 1 done; 2 done; 3 done',
    '0 run a:S; 1 run b:E; 2 run c:S; 3 run d:E',
  ],
  [
    'does not let an id that starts anew overtake the backlog',
    '0 send a@7() x@8() b@7(); 1 done; 2 done',
    '0 run a:SE; 1 run x:SE; 2 run b:SE',
  ],
  [
    'goes on after a failed request',
    '0 send a@7( b@7); 1 crash; 2 done',
    '0 run a:S; 1 failed a: INTERNAL instance failed; 1 run b:E',
  ],
]);

sequenceCases('SequenceBatcher, direct', { strategy: direct(4) }, [
  ['gathers the requests of one moment', '0 send a@1( b@2( c@3(', '0 run a:S b:S c:S'],
  [
    'keeps each sequence in its row and fills the others with null requests',
    '0 send a@1( b@2( c@3(; 1 done; 2 send d@3; 3 done; 4 send e@1',
    '0 run a:S b:S c:S; 2 run - - d; 4 run e - -',
  ],
  [
    'gives a freed row to the next sequence',
    '0 send a@1() b@2(; 1 done; 2 send c@3(; 3 done; 4 send d@2 e@3',
    '0 run a:SE b:S; 2 run c:S -; 4 run e d',
  ],
  [
    'lets a batch end at the highest slot that has a sequence',
    '0 send a@1( b@2( c@3(); 1 done; 2 send d@1',
    '0 run a:S b:S c:SE; 2 run d -',
  ],
  [
    'runs one request of a sequence at a time',
    '0 send a@1( b@1 c@2(; 1 done; 2 done',
    '0 run a:S c:S; 1 run b -',
  ],
  [
    'puts a fifth sequence into the backlog',
    '0 send a@1( b@2( c@3( d@4( e@5(; 1 done; 2 send f@3); 3 done; 4 done',
    '0 run a:S b:S c:S d:S; 2 run - - f:E -; 3 run - - e:S -',
  ],
]);

sequenceCases('SequenceBatcher, direct, without READY', { strategy: direct(4), hasReady: false }, [
  [
    'adds no null requests, which the model could not tell apart',
    '0 send a@1( b@2(; 1 done; 2 send c@2',
    '0 run a:S b:S; 2 run c',
  ],
]);

sequenceCases(
  'SequenceBatcher, direct, over two instances',
  { strategy: direct(2), instances: 2 },
  [
    [
      'spreads sequences over the instances before it fills their slots',
      '0 send a@1( b@2( c@3( d@4(',
      '0 run 0|a:S c:S; 0 run 1|b:S d:S',
    ],
    [
      'keeps a sequence with its instance',
      '0 send a@1( b@2(; 1 done; 1 done; 2 send c@2; 3 done; 4 send d@2',
      '0 run 0|a:S; 0 run 1|b:S; 2 run 1|c; 4 run 1|d',
    ],
    [
      'waits for its own instance even while another is idle',
      '0 send a@1( b@2(; 1 done 1; 2 send c@1; 5 done 0',
      '0 run 0|a:S; 0 run 1|b:S; 5 run 0|c',
    ],
  ],
);

sequenceCases(
  'SequenceBatcher, direct, with a slot utilization',
  { strategy: direct(4, 0.5, 10) },
  [
    ['waits for half of the slots', '0 send a@1(; 3 send b@2(; 20', '3 run a:S b:S'],
    ['runs fewer when the delay is over', '0 send a@1(; 20', '10 run a:S'],
    [
      'counts the delay from the oldest request',
      '0 send a@1( b@2(; 1 done; 2 send c@1; 11.9; 20',
      '0 run a:S b:S; 12 run c -',
    ],
  ],
);

sequenceCases('SequenceBatcher, direct, with a delay alone', { strategy: direct(4, 0, 10) }, [
  ['ignores the delay', '0 send a@1(; 20', '0 run a:S'],
]);

sequenceCases(
  'SequenceBatcher, direct, with variable shapes',
  { strategy: direct(3), shaped: ['X'] },
  [
    [
      'runs equal shapes together and the others next, each in its row',
      '0 send a[5]@1( b[6]@2( c[5]@3(; 1 done',
      '0 run a:S - c:S; 1 run - b:S -',
    ],
  ],
);

sequenceCases(
  'SequenceBatcher, direct, without batching',
  { strategy: direct(1), isBatching: false },
  [['runs one sequence at a time', '0 send a@1() b@2(); 1 done; 2 done', '0 run a:SE; 1 run b:SE']],
);

sequenceCases('SequenceBatcher, oldest', { strategy: oldest(3, 2) }, [
  [
    'batches the candidates that are ready',
    '0 send a@1( b@2( c@3(; 1 done',
    '0 run a:S b:S; 1 run c:S',
  ],
  [
    'runs one request of a sequence at a time',
    '0 send a@1( b@1 c@1; 1 done; 2 done',
    '0 run a:S; 1 run b; 2 run c',
  ],
  [
    'serves the sequence that has waited longest first',
    '0 send a@1( b@2( c@3(; 0 send d@1; 1 done; 2 done',
    '0 run a:S b:S; 1 run c:S d',
  ],
  [
    'puts a fourth sequence into the backlog',
    '0 send a@1( b@2( c@3( d@4(; 1 done; 2 done; 3 send e@2); 4 done; 5 done',
    '0 run a:S b:S; 1 run c:S; 3 run e:E; 4 run d:S',
  ],
  ['adds no null requests', '0 send a@1( b@2(; 1 done; 2 send c@2', '0 run a:S b:S; 2 run c'],
]);

sequenceCases(
  'SequenceBatcher, oldest, with preferred size and delay',
  { strategy: oldest(8, 4, [2], 10) },
  [
    ['runs a preferred size at once', '0 send a@1( b@2(; 20', '0 run a:S b:S'],
    ['waits for the delay below it', '0 send a@1(; 20', '10 run a:S'],
  ],
);

sequenceCases(
  'SequenceBatcher, oldest, over two instances',
  { strategy: oldest(2, 2), instances: 2 },
  [
    [
      'spreads the candidates and keeps each with its instance',
      '0 send a@1( b@2( c@3(; 1 done 0; 1 done 1; 2 send d@2 e@3',
      '0 run 0|a:S c:S; 0 run 1|b:S; 2 run 1|d; 2 run 0|e',
    ],
  ],
);

sequenceCases(
  'SequenceBatcher, oldest, that preserves ordering',
  { strategy: oldest(4, 1, [], 0, true) },
  [
    [
      'answers in the order in which requests started',
      '0 send a@1( b@2(; 1 done; 2 done',
      '0 run a:S; 1 answer a; 1 run b:S; 2 answer b',
    ],
  ],
);
