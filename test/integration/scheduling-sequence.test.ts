import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseRequest } from '../scheduling/timeline.js';
import { gated, HeldServer } from './held-server.js';
import { inferHttp, observedTensors } from './observed-model.js';

/*
 * The cases of the reference server's sequence suites against the compiled server. Answers also tell
 * what their sequence has sent so far, as the model keeps it: by row where a sequence has its slot
 * (direct), else by correlation id, or in a state that the server keeps. It is checked for all.
 */

let server: HeldServer;
beforeAll(async () => {
  server = await HeldServer.start();
});
afterAll(() => server.stop());

const hourUs = 3_600_000_000;
const shortUs = 20_000;

const flag = (name: string, kind: string): string =>
  `control_input { name: "${name}" control { kind: CONTROL_SEQUENCE_${kind} int32_false_true: [ 0, 1 ] } }\n`;
const flags = `${flag('START', 'START')}${flag('END', 'END')}`;
const controls = `${flags}${flag('READY', 'READY')}`;
const correlationId = (type: string): string =>
  `control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: ${type} } }\n`;
const state = `state { input_name: "STATE_IN" output_name: "STATE_OUT" data_type: TYPE_INT32 dims: 1 }\n`;

interface Setting {
  readonly strategy: string;
  readonly rows?: number;
  readonly instances?: number;
  readonly idleUs?: number;
  readonly inputs?: string;
  readonly tensors?: string;
}

const sequences = (setting: Setting): string => {
  const { strategy, rows = 4, instances = 1, idleUs = hourUs, inputs = controls } = setting;
  return `max_batch_size: ${rows}\n${setting.tensors ?? observedTensors}${gated(instances)}
    sequence_batching { max_sequence_idle_microseconds: ${idleUs} ${strategy}\n${inputs} }`;
};

const direct = (utilization = 0, delayUs = 0): string =>
  `direct { minimum_slot_utilization: ${utilization} max_queue_delay_microseconds: ${delayUs} }`;
const oldest = (candidates: number, more = ''): string =>
  `oldest { max_candidate_sequences: ${candidates} ${more} }`;

type Case = readonly [name: string, script: string, happens: string];
type Suite = readonly [title: string, config: string, cases: readonly Case[]];

/** Rules at the door, the same for both strategies. */
const rules: readonly Case[] = [
  ['runs a sequence from its start to its end', 'send a@1( b@1 c@1)', 'a:S | b | c:E'],
  ['runs a sequence of one request', 'send a@1()', 'a:SE'],
  ['refuses a request without an id', 'send a', ' # a no-id'],
  ['refuses the id 0', 'send a@0(', ' # a no-id'],
  ['refuses more than one row', 'send a*2@1(; load', ' # a batch-size'],
  ['refuses a first request without START', 'send a@1', ' # a no-start'],
  ['refuses a request after the end', 'send a@1() b@1', 'a:SE # b no-start'],
  [
    'begins anew with START where the former sequence has no end',
    'send a@1( b@1 c@1( d@1 e@1)',
    'a:S | b | c:S | d | e:E',
  ],
  [
    'runs a sequence that is sent at once in its order',
    'hold; send a@1( b@1 c@1); release',
    'a:S | b | c:E',
  ],
];

/** Ids of each form and the space that they live in. */
const ids: readonly Case[] = [
  ['takes a text for an id', "send a@'x( b@'x)", 'a:S | b:E'],
  [
    'keeps the number 1 and the text "1" apart',
    "hold; send a@1( b@'1( c@1) d@'1); release",
    'a:S b:S | c:E d:E',
  ],
];

const suites: readonly Suite[] = [
  ['direct slots', sequences({ strategy: direct() }), rules],
  ['the oldest candidates', sequences({ strategy: oldest(4), inputs: flags }), rules],
  [
    'four direct slots',
    sequences({ strategy: direct() }),
    [
      [
        'runs four sequences together, each in its row',
        'hold; send a@1( b@1 c@1) d@2( e@2 f@2) g@3( h@3 i@3) j@4( k@4 l@4); release',
        'a:S d:S g:S j:S | b e h k | c:E f:E i:E l:E',
      ],
      [
        'fills half a batch with null rows up to the highest slot in use',
        'hold; send a@1( b@1) c@2( d@2 e@2 f@2; release; send g@2)',
        'a:S c:S | b:E d | - e | - f | - g:E',
      ],
      [
        'leaves out the rows of sequences that have nothing to run',
        'hold; send a@1( b@1) c@2( d@2 e@2 f@2) g@3( h@3) i@4( j@4 k@4 l@4); release',
        'a:S c:S g:S i:S | b:E d h:E j | - e - k | - f:E - l:E',
      ],
      [
        'goes on with a row that had a pause',
        'hold; send a@1( c@2( d@2 e@2; release; hold; send b@1) f@2); release',
        'a:S c:S | - d | - e | b:E f:E',
      ],
      [
        'puts a fifth sequence into the backlog until a slot is free',
        'hold; send a@1( b@1) c@2( d@2) e@3( f@3) g@4( h@4) i@5( j@5); release',
        'a:S c:S e:S g:S | b:E d:E f:E h:E | i:S | j:E',
      ],
      [
        'gives the slot that is free first to the backlog',
        'hold; send a@1( b@1 c@1) d@2() e@3( f@3 g@3) h@4( i@4 j@4) k@5( l@5); release',
        'a:S d:SE e:S h:S | b k:S f i | c:E l:E g:E j:E',
      ],
      [
        'gives the slot of a sequence that begins again to that sequence',
        'hold; send a@1( b@1 c@1( d@1) e@2( f@2 g@2 h@2); release',
        'a:S e:S | b f | c:S g | d:E h:E',
      ],
      [
        'runs a sequence of the backlog that has the id of one in a slot after that one',
        'hold; send a@1( b@1) c@2( d@2) e@3( f@3) g@4( h@4 i@4) j@1( k@1); release',
        'a:S c:S e:S g:S | b:E d:E f:E h | j:S - - i:E | k:E',
      ],
      [
        'keeps the backlog waiting while sequences without an end keep their slots',
        'hold; send a@1( b@2( c@3( d@4( e@5( f@5); release; send g@2); until e f; send h@1) i@3) j@4)',
        'a:S b:S c:S d:S | - g:E - - | - e:S - - | - f:E - - | h:E - - - | - - i:E - | - - - j:E',
      ],
      [
        'separates shapes that differ',
        'hold; send a[2]@1( b@2( c[2]@1) d@2); release',
        'a:S - | - b:S | c:E - | - d:E',
      ],
    ],
  ],
];

const others: readonly Suite[] = [
  [
    'two instances of two direct slots',
    sequences({ strategy: direct(), rows: 2, instances: 2 }),
    [
      [
        'fills the lowest slot of every instance first and keeps each sequence where it began',
        'hold; send a@1( b@2( c@3( d@1) e@2) f@3); release',
        '0:(a:S c:S) | 0:(d:E f:E) | 1:(b:S) | 1:(e:E)',
      ],
      [
        'shares one backlog',
        'hold; send a@1( b@2( c@3( d@4( e@5(; release; send f@2); until e; send g@5) h@1) i@3) j@4)',
        '0:(a:S c:S) | 0:(h:E -) | 0:(- i:E) | 1:(b:S d:S) | 1:(f:E -) | 1:(e:S -) | 1:(g:E -) | 1:(- j:E)',
      ],
    ],
  ],
  [
    'four instances of one direct slot',
    sequences({ strategy: direct(), rows: 1, instances: 4 }),
    [
      [
        'gives each sequence an instance of its own',
        'hold; send a@1( b@2( c@3( d@4( e@4) f@3) g@2) h@1); release',
        '0:(a:S) | 0:(h:E) | 1:(b:S) | 1:(g:E) | 2:(c:S) | 2:(f:E) | 3:(d:S) | 3:(e:E)',
      ],
    ],
  ],
  [
    'direct slots of which half must be filled',
    sequences({ strategy: direct(0.5, hourUs) }),
    [
      ['waits for the second sequence', 'send a@1( b@2(; send c@1) d@2)', 'a:S b:S | c:E d:E'],
      [
        'does not wait for more',
        'hold; send a@1( b@2( c@3() d@2) e@1); release',
        'a:S b:S c:SE | e:E d:E',
      ],
    ],
  ],
  [
    'direct slots that must all be filled',
    sequences({ strategy: direct(1, hourUs) }),
    [['waits for all of them', 'send a@1() b@2() c@3() d@4()', 'a:SE b:SE c:SE d:SE']],
  ],
  [
    'direct slots that must all be filled within a short delay',
    sequences({ strategy: direct(1, shortUs) }),
    [
      [
        'runs what there is when the delay is over',
        'hold; send a@1( b@2(; release; until a b; hold; send c@1) d@2); release',
        'a:S b:S | c:E d:E',
      ],
    ],
  ],
  [
    'direct slots that need not be filled, with a delay',
    sequences({ strategy: direct(0, hourUs) }),
    [['never waits', 'send a@1( b@2( c@1) d@2)', 'a:S | - b:S | c:E - | - d:E']],
  ],
  [
    'direct slots of a model that is not told which rows are null',
    sequences({ strategy: oldest(4), inputs: flags }).replace(/oldest \{[^}]*\}/, direct()),
    [
      [
        'gets only rows that have a request',
        'hold; send a@1( b@2( c@3( d@3) e@2; release; send f@1) g@2)',
        'a:S b:S c:S | e d:E | f:E | g:E',
      ],
    ],
  ],
  [
    'one direct slot and a short idle time',
    sequences({ strategy: direct(), rows: 1, idleUs: shortUs }),
    [
      [
        'ends a silent sequence and gives its slot to the backlog',
        'send a@1(; send b@2(); until b; send c@1',
        'a:S | b:SE # c no-start',
      ],
    ],
  ],
  [
    'one direct slot and timeouts of requests',
    sequences({ strategy: direct(), rows: 1 }),
    [
      [
        'rejects a whole sequence of the backlog',
        'send a@1( b~1000@2( c@2 d@3(; until b c; send e@1); until d; send f@3)',
        'a:S | e:E | d:S | f:E # b expired, c expired',
      ],
      ['takes no notice of them in a slot', 'hold; send a~1@1( b~1@1); release', 'a:S | b:E'],
    ],
  ],
  [
    'two candidates of the oldest',
    sequences({ strategy: oldest(2), inputs: flags }),
    [
      [
        'batches one request of each candidate',
        'hold; send a@1( b@1 c@1) d@2( e@2); release',
        'a:S d:S | b e:E | c:E',
      ],
      [
        'lets a third sequence in when one has ended',
        'hold; send a@1( b@1 c@1) d@2() e@3( f@3); release',
        'a:S d:SE | b e:S | c:E f:E',
      ],
    ],
  ],
  [
    'the oldest candidates with preferred sizes and a delay',
    sequences({
      strategy: oldest(8, `preferred_batch_size: 2 max_queue_delay_microseconds: ${hourUs}`),
      inputs: flags,
    }),
    [
      ['waits for a preferred size', 'send a@1( b@2(; send c@1) d@2)', 'a:S b:S | c:E d:E'],
      [
        'takes the oldest of more than a preferred size',
        'hold; send a@1() b@2() c@3() d@4(); release',
        'a:SE b:SE | c:SE d:SE',
      ],
    ],
  ],
  [
    'the oldest candidates of two instances',
    sequences({ strategy: oldest(1), instances: 2, inputs: flags }),
    [
      [
        'keeps each sequence on its instance',
        'hold; send a@1( b@2( c@1 d@2 e@1) f@2); release',
        '0:(a:S) | 0:(c) | 0:(e:E) | 1:(b:S) | 1:(d) | 1:(f:E)',
      ],
    ],
  ],
  [
    'the oldest candidates and shapes that differ',
    sequences({ strategy: oldest(4), inputs: flags }),
    [['separates them', 'hold; send a[2]@1( b@2( c[2]@1) d@2); release', 'a:S | b:S | c:E | d:E']],
  ],
  [
    'a state that the server keeps, direct',
    sequences({ strategy: direct(), inputs: `${controls}${state}` }),
    [
      [
        'carries it from request to request, each sequence its own, and starts anew with START',
        'hold; send a@1( b@1 c@1) d@2( e@2 f@2( g@2) h@3( i@3) j@4( k@4) l@5( m@5); release',
        'a:S d:S h:S j:S | b e i:E k:E | c:E f:S l:S | - g:E m:E',
      ],
    ],
  ],
  [
    'a state that the server keeps, oldest',
    sequences({ strategy: oldest(4), inputs: `${flags}${state}` }),
    [
      [
        'carries it from request to request',
        'hold; send a@1( b@1 c@1) d@2( e@2( f@2) g@3( h@3); release',
        'a:S d:S g:S | b e:S h:E | c:E f:E',
      ],
    ],
  ],
  [
    'a state and no batching',
    sequences({
      strategy: direct(),
      rows: 0,
      inputs: `${controls}${state}`,
      tensors: observedTensors.replaceAll('dims: -1', 'dims: [ -1, -1 ]'),
    }),
    [['carries it', 'hold; send a@1( b@1) c@2( d@2); release', 'a:S | b:E | c:S | d:E']],
  ],
  [
    'clients that go away',
    sequences({ strategy: direct(), rows: 1 }),
    [
      [
        'cancels the sequence of a request and leaves the backlog to go on',
        'hold; send a@1( b@1 c@2(; cancel b; release; send d@2) e@1',
        'c:S | d:E # a cancelled, b gone, e no-start',
      ],
      [
        'drops a sequence from the backlog',
        'hold; send a@1( b@2( c@3(; cancel b; release; send d@1); until c; send e@3)',
        'a:S | d:E | c:S | e:E # b gone',
      ],
    ],
  ],
  ['ids of any form', sequences({ strategy: oldest(4), inputs: flags }), ids],
  [
    'ids told to the model as text',
    sequences({ strategy: oldest(4), inputs: flags + correlationId('TYPE_STRING') }),
    ids.slice(0, 1),
  ],
  ...['TYPE_UINT64', 'TYPE_INT64', 'TYPE_UINT32', 'TYPE_INT32'].map(
    (type): Suite => [
      `ids told to the model as ${type}`,
      sequences({ strategy: oldest(4), inputs: flags + correlationId(type) }),
      [
        ['takes a number', 'hold; send a@7( b@8( c@8) d@7); release', 'a:S b:S | d:E c:E'],
        ['takes a text', "send a@'x()", 'a:SE'],
      ],
    ],
  ),
];

describe.each([...suites, ...others])('sequences with %s', (_title, config, cases) => {
  beforeAll(() => server.load(config));

  for (const protocol of ['HTTP', 'gRPC'] as const) {
    it.each(cases)(`%s, over ${protocol}`, async (_name, script, happens) => {
      expect(await server.play(protocol, script, config)).toBe(happens);
    });
  }
});

it('keeps the sequences of two models apart, though their ids are the same', async () => {
  const config = sequences({ strategy: oldest(4), inputs: flags });
  await server.load(config);
  await server.load(config, 'n');
  const never = new AbortController().signal;
  const tokens = ['a@1(', 'b@1', 'c@1)'];
  const answers = await server.together(
    tokens.flatMap((token) =>
      ['m', 'n'].map(
        (modelName) => () =>
          inferHttp(server.httpUrl, { ...parseRequest(token).fields, modelName }, never),
      ),
    ),
  );
  const sums = answers.map((answer) => ('error' in answer ? answer.error : answer.sum));
  expect(sums).toEqual([97, 97, 195, 195, 294, 294]);
  for (const name of ['m', 'n']) {
    expect(await server.counts(name)).toMatchObject({ success: 3, executions: 3 });
  }
});
