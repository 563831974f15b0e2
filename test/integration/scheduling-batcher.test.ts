import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { GrpcClient } from '../grpc/grpc-client.js';
import { parseRequest } from '../scheduling/timeline.js';
import { gated, HeldServer } from './held-server.js';
import { inferHttp, observedTensors } from './observed-model.js';

/*
 * The cases of the reference server's batcher suites against the compiled server. A delay of an hour
 * shows what keeps waiting, one of 20 ms what goes when the delay is over. `load` replaces the model,
 * which lets what waits run.
 */

let server: HeldServer;
beforeAll(async () => {
  server = await HeldServer.start();
});
afterAll(() => server.stop());

const hourUs = 3_600_000_000;
const shortUs = 20_000;

const batched = (batching: string, tensors = observedTensors): string =>
  `max_batch_size: 8\n${tensors}${gated()}dynamic_batching { ${batching} }\n`;
const preferring = (delayUs: number, more = ''): string =>
  `preferred_batch_size: [ 2, 6 ] max_queue_delay_microseconds: ${delayUs} ${more}`;
const policy = (fields: string): string => `default_queue_policy { ${fields} }`;

type Case = readonly [name: string, script: string, happens: string];
type Suite = readonly [title: string, config: string, cases: readonly Case[]];

const suites: readonly Suite[] = [
  [
    'preferred sizes 2 and 6 with a delay that does not end',
    batched(preferring(hourUs)),
    [
      ['runs a request of a preferred size at once', 'send a*2; send b*6', 'a*2 | b*6'],
      ['runs what is larger than every preferred size at once', 'send a*7; send b*8', 'a*7 | b*8'],
      ['keeps a smaller request waiting', 'send a; send b*6; load', 'a | b*6'],
      ['completes a preferred size with the next request', 'send a b', 'a b'],
      ['keeps sizes between preferred ones waiting', 'send a*3 b; send c*2', 'a*3 b c*2'],
      [
        'runs what waits when the next request would pass the largest preferred size',
        'send a*3 b*4; load',
        'a*3 | b*4',
      ],
      ['… and that one too where it is large enough', 'send a*3 b*7', 'a*3 | b*7'],
      ['closes a batch at another shape', 'send a*3 b[4]; load', 'a*3 | b'],
      [
        'closes a batch of several requests at another shape',
        'send a b*3[4]; send c*3[4]',
        'a | b*3 c*3',
      ],
      [
        'takes the largest preferred size of what is queued',
        'hold; send a b c d e f; release',
        'a b c d e f',
      ],
      [
        'takes the best preferred size and leaves the rest waiting',
        'hold; send a b c; release; send d',
        'a b | c d',
      ],
      [
        'takes preferred sizes one after another',
        'hold; send a*6 b c d*6; release; load',
        'a*6 | b c | d*6',
      ],
      [
        'lets shapes that alternate run in their order',
        'hold; send a*2 b*2[4] c*2 d*2[4]; release',
        'a*2 | b*2 | c*2 | d*2',
      ],
    ],
  ],
  [
    'preferred sizes 2 and 6 with a short delay',
    batched(preferring(shortUs)),
    [
      ['runs a lone small request when the delay is over', 'send a', 'a'],
      [
        'runs a size that is not preferred when the delay is over',
        'hold; send a b*3; release',
        'a b*3',
      ],
      ['runs both sides of a change of shape', 'hold; send a b*3[4] c; release', 'a | b*3 | c'],
    ],
  ],
  [
    'preferred sizes 4 and 6 without a delay',
    batched('preferred_batch_size: [ 4, 6 ]'),
    [
      ['takes a preferred size that fits exactly', 'hold; send a b c d; release', 'a b c d'],
      ['leaves what is over for the next batch', 'hold; send a b c d e; release', 'a b c d | e'],
      ['takes the largest preferred size', 'hold; send a b c d e f g; release', 'a b c d e f | g'],
      ['takes all where no preferred size is reached', 'hold; send a b c; release', 'a b c'],
      ['runs a request at once while the instance is free', 'send a; send b*3', 'a | b*3'],
    ],
  ],
  [
    'a delay without preferred sizes',
    batched(`max_queue_delay_microseconds: ${hourUs}`),
    [
      ['fills up to the maximum', 'send a b*3 c*4', 'a b*3 c*4'],
      ['runs what waits when the next does not fit', 'send a*5 b*4; send c*4', 'a*5 | b*4 c*4'],
      [
        'takes full batches from the queue',
        'hold; send a*4 b*4 c*4 d*4; release',
        'a*4 b*4 | c*4 d*4',
      ],
    ],
  ],
  [
    'neither delay nor preferred sizes',
    batched(''),
    [
      [
        'batches what is queued when the instance is free',
        'hold; send a b*2 c*5; release',
        'a b*2 c*5',
      ],
      ['never exceeds the maximum', 'hold; send a*5 b*4 c*4 d; release', 'a*5 | b*4 c*4 | d'],
      ['runs requests one by one while nothing holds them', 'send a b c', 'a | b | c'],
    ],
  ],
  [
    'shapes that may be ragged',
    batched('', observedTensors.replace('dims: -1 }', 'dims: -1 allow_ragged_batch: true }')),
    [['batches different shapes', 'hold; send a b[4] c*2[3]; release', 'a b c*2']],
  ],
  [
    'an optional input',
    batched(
      '',
      `${observedTensors}input { name: "opt" data_type: TYPE_INT32 dims: 1 optional: true }\n`,
    ),
    [
      [
        'keeps apart requests with and without it, in their order',
        'hold; send a b+opt c+opt d; release',
        'a | b c | d',
      ],
    ],
  ],
  [
    'two priority levels, the second by default',
    batched('priority_levels: 2 default_priority_level: 2'),
    [
      [
        'runs the first level first, each in order of arrival',
        'hold; send a*8 b*8^2 c*8^1 d*8^1; release',
        'c*8 | d*8 | a*8 | b*8',
      ],
      ['takes an unknown priority for the default', 'hold; send a*8^7 b*8^1; release', 'b*8 | a*8'],
      ['batches levels together', 'hold; send a b^1 c^2; release', 'b a c'],
    ],
  ],
  [
    'a queue of three requests',
    batched(policy('max_queue_size: 3')),
    [
      [
        'refuses the fourth, and not by rows',
        'hold; send a*2 b*2 c*2 d e; release; send f',
        'a*2 b*2 c*2 | f # d full, e full',
      ],
    ],
  ],
  [
    'a queue of one request at the first level, of two at the second',
    batched(
      `priority_levels: 2 default_priority_level: 2 ${policy('max_queue_size: 2')} priority_queue_policy { key: 1 value { max_queue_size: 1 } }`,
    ),
    [['refuses by level', 'hold; send a^1 b^1 c d e; release', 'a c d # b full, e full']],
  ],
  [
    'a timeout that rejects',
    batched(policy(`default_timeout_microseconds: ${shortUs} timeout_action: REJECT`)),
    [
      [
        'answers what has waited too long while nothing runs, and runs what comes later',
        'hold; send a b; until a b; release; send c',
        'c # a timeout, b timeout',
      ],
    ],
  ],
  [
    'a timeout that requests may shorten',
    batched(
      policy(
        `default_timeout_microseconds: ${hourUs} timeout_action: REJECT allow_timeout_override: true`,
      ),
    ),
    [
      [
        'rejects by the shorter one, and not by a longer one',
        'hold; send a~20 b c~7200000; until a; release',
        'b c # a timeout',
      ],
    ],
  ],
  [
    'a timeout that requests may not shorten',
    batched(policy(`default_timeout_microseconds: ${hourUs} timeout_action: REJECT`)),
    [['runs them whatever they ask', 'hold; send a~1 b~1; release', 'a b']],
  ],
  [
    'a timeout that delays',
    batched(
      policy(
        `default_timeout_microseconds: ${hourUs} timeout_action: DELAY allow_timeout_override: true`,
      ),
    ),
    [
      [
        'runs what has waited too long behind all others',
        'hold; send a*8~1 b*8 c*8; release',
        'b*8 | c*8 | a*8',
      ],
    ],
  ],
  [
    'a timeout of one level only',
    batched(
      `priority_levels: 2 default_priority_level: 2 priority_queue_policy { key: 1 value { default_timeout_microseconds: ${shortUs} timeout_action: REJECT } }`,
    ),
    [
      [
        'rejects there and nowhere else',
        'hold; send a^1 b c^2; until a; release',
        'b c # a timeout',
      ],
    ],
  ],
  [
    'clients that go away',
    batched(preferring(hourUs)),
    [
      ['leaves out who has gone', 'hold; send a b*2 c; cancel b; release', 'a c # b gone'],
      [
        'opens no batch for who has gone',
        'hold; send a b; cancel a b; release; send c*2',
        'c*2 # a gone, b gone',
      ],
      [
        'forgets who goes while a batch waits for its delay',
        'send a*3; cancel a; send b c',
        'b c # a gone',
      ],
    ],
  ],
  [
    'no dynamic batching',
    `max_batch_size: 8\n${observedTensors}${gated()}`,
    [
      ['runs each request alone, in order', 'hold; send a b*3 c; release', 'a | b*3 | c'],
      ['drops who has gone', 'hold; send a b c; cancel a c; release', 'b # a gone, c gone'],
      ['takes no notice of priority and timeout', 'hold; send a^2~1 b^1~1; release', 'a | b'],
    ],
  ],
];

describe.each(suites)('a batcher with %s', (_title, config, cases) => {
  beforeAll(() => server.load(config));

  for (const protocol of ['HTTP', 'gRPC'] as const) {
    it.each(cases)(`%s, over ${protocol}`, async (_name, script, happens) => {
      // A load starts other statistics.
      const before = script.includes('load') ? undefined : await server.counts();
      expect(await server.play(protocol, script, config)).toBe(happens);
      if (before === undefined) return;
      const after = await server.counts();
      const sizes = sizesOf(happens);
      expect(after.executions - before.executions).toBe(sizes.length);
      expect(after.inferences - before.inferences).toBe(sizes.reduce((sum, size) => sum + size, 0));
      for (const size of new Set(sizes)) {
        const count = (after.batches.get(size) ?? 0) - (before.batches.get(size) ?? 0);
        expect([size, count]).toEqual([size, sizes.filter((one) => one === size).length]);
      }
    });
  }
});

describe('requests of one execution', () => {
  const never = new AbortController().signal;
  const request = (token: string, requestedOutputs: readonly string[]) => {
    const { fields } = parseRequest(token);
    return () => inferHttp(server.httpUrl, { ...fields, requestedOutputs }, never);
  };

  it('get the outputs that each asked for', async () => {
    await server.load(batched(''));
    const before = await server.counts();
    const answers = await server.together([
      request('a*2', []),
      request('b', ['SUM', 'ECHO']),
      request('c', ['TEXT']),
    ]);
    const [a, b, c] = answers.map((answer) => ('error' in answer ? answer.error : answer));
    expect(a).toMatchObject({ text: '0|1|a*2 b c', echo: 97 });
    expect(b).toMatchObject({ text: 'undefined', echo: 98 });
    expect(c).toMatchObject({ text: '0|1|a*2 b c', sum: Number.NaN });
    expect((await server.counts()).executions - before.executions).toBe(1);
  });

  it('are dropped when the deadline of a gRPC call has passed in the queue', async () => {
    await server.load(batched(''));
    const client = new GrpcClient(server.grpcTarget);
    const before = await server.counts();
    const [kept] = await server.together([request('a', [])], async () => {
      const { code } = await client.call(
        'ModelInfer',
        {
          model_name: 'm',
          inputs: [
            { name: 'X', datatype: 'INT32', shape: [1, 1], contents: { int_contents: [1] } },
          ],
        },
        { deadlineMs: 50 },
      );
      expect(code).toBe(status.DEADLINE_EXCEEDED);
    });
    expect(kept).toMatchObject({ text: '0|1|a' });
    client.close();
    const after = await server.counts();
    expect(after.inferences - before.inferences).toBe(1);
  });
});

/** Rows of each execution of a description. */
function sizesOf(happens: string): readonly number[] {
  const [executions = ''] = happens.split(' # ');
  return executions
    .split(' | ')
    .map((batch) =>
      batch.split(' ').reduce((rows, token) => rows + Number(token.split('*')[1] ?? 1), 0),
    );
}
