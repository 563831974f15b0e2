import { describe, expect, it } from 'vitest';
import type { ParameterValue } from '../../src/inference/infer-request.js';
import { cacheKey } from '../../src/scheduling/cache-key.js';
import {
  decodeCachedResponse,
  encodeCachedResponse,
} from '../../src/scheduling/cached-response-codec.js';
import { RedisResponseCache } from '../../src/scheduling/redis-response-cache.js';
import { type CachedResponse, LocalResponseCache } from '../../src/scheduling/response-cache.js';
import { int32Tensor, observedRequest } from '../support/pending-requests.js';

/** Bytes that an entry with an output of `outputBytes` takes, as the cache itself counts. */
function sizeOfEntry(outputBytes: number): number {
  const cache = new LocalResponseCache(1e6);
  cache.insert('a', answer(outputBytes));
  return cache.sizeBytes;
}

function answer(outputBytes: number, first = 0): CachedResponse {
  const values = new Array<number>(outputBytes / 4).fill(first);
  return { parameters: new Map(), outputs: [int32Tensor('Y', [values.length], values)] };
}

describe('LocalResponseCache', () => {
  it('gives back what was put in, as a copy of its own', () => {
    const cache = new LocalResponseCache(1e6);
    const inserted = answer(8, 3);
    cache.insert('a', inserted);
    inserted.outputs[0]?.bytes.fill(9);
    expect(cache.lookup('a')).toEqual(answer(8, 3));
    expect(cache.lookup('b')).toBeUndefined();
  });

  it('drops the least recently used entries when an entry would pass the limit', () => {
    const cache = new LocalResponseCache(3 * sizeOfEntry(8));
    for (const key of ['a', 'b', 'c']) cache.insert(key, answer(8));
    cache.lookup('a');
    cache.insert('d', answer(8));
    expect(['a', 'b', 'c', 'd'].filter((key) => cache.lookup(key) !== undefined)).toEqual([
      'a',
      'c',
      'd',
    ]);
    expect(cache.entries).toBe(3);
  });

  it('drops as many as a large entry needs', () => {
    const cache = new LocalResponseCache(3 * sizeOfEntry(8));
    for (const key of ['a', 'b', 'c']) cache.insert(key, answer(8));
    cache.insert('d', answer(400));
    expect(['a', 'b', 'c', 'd'].filter((key) => cache.lookup(key) !== undefined)).toEqual([
      'c',
      'd',
    ]);
  });

  it('keeps an entry of exactly the limit and not one above it', () => {
    const cache = new LocalResponseCache(sizeOfEntry(80));
    cache.insert('a', answer(80));
    expect(cache.entries).toBe(1);
    cache.insert('b', answer(84));
    expect(cache.lookup('a')).toBeDefined();
    expect(cache.lookup('b')).toBeUndefined();
  });

  it('counts a replaced entry once', () => {
    const cache = new LocalResponseCache(1e6);
    cache.insert('a', answer(800));
    cache.insert('a', answer(8, 2));
    expect(cache.sizeBytes).toBe(sizeOfEntry(8));
    expect(cache.lookup('a')).toEqual(answer(8, 2));
  });

  it('is empty once closed', async () => {
    const cache = new LocalResponseCache(1e6);
    cache.insert('a', answer(8));
    await cache.close();
    expect(cache.lookup('a')).toBeUndefined();
    expect(cache.sizeBytes).toBe(0);
  });
});

describe('cacheKey', () => {
  const model = { modelName: 'm', modelVersion: '1', generation: 'g' };
  const x = int32Tensor('X', [1, 2], [1, 2]);
  const y = int32Tensor('Y', [1, 2], [3, 4]);
  type Fields = Parameters<typeof observedRequest>[0];
  const keyOf = (fields: Fields, of = model) => cacheKey(of, observedRequest(fields).pending);
  const parameters = (...entries: readonly (readonly [string, ParameterValue])[]) =>
    new Map(entries);
  const base = keyOf({ inputs: [x, y] });

  it.each<readonly [string, Fields]>([
    ['the id', { inputs: [x, y], id: 'other' }],
    ['priority and timeout', { inputs: [x, y], priority: 2, timeoutUs: 5 }],
    ['the order of the inputs', { inputs: [y, x] }],
  ])('does not depend on %s', (_, fields) => {
    expect(keyOf(fields)).toBe(base);
  });

  it('does not depend on the order of requested outputs and parameters', () => {
    const one = {
      inputs: [x],
      requestedOutputs: ['A', 'B'],
      parameters: parameters(['p', 1n], ['q', 'v']),
    };
    const other = {
      inputs: [x],
      requestedOutputs: ['B', 'A'],
      parameters: parameters(['q', 'v'], ['p', 1n]),
    };
    expect(keyOf(one)).toBe(keyOf(other));
  });

  it.each<readonly [string, Fields]>([
    ['a byte', { inputs: [x, int32Tensor('Y', [1, 2], [3, 5])] }],
    ['a shape with the same bytes', { inputs: [x, { ...y, shape: [2, 1] }] }],
    ['a datatype with the same bytes', { inputs: [x, { ...y, datatype: 'UINT32' }] }],
    ['a name', { inputs: [x, { ...y, name: 'Z' }] }],
    ['the form of the bytes', { inputs: [x, { ...y, encoding: 'json' }] }],
    ['an input less', { inputs: [x] }],
    [
      'exchanged values',
      {
        inputs: [
          { ...x, bytes: y.bytes },
          { ...y, bytes: x.bytes },
        ],
      },
    ],
    ['requested outputs', { inputs: [x, y], requestedOutputs: ['A'] }],
    ['the form of the answer', { inputs: [x, y], prefersJsonText: true }],
    ['a parameter', { inputs: [x, y], parameters: parameters(['p', 1n]) }],
  ])('depends on %s', (_, fields) => {
    expect(keyOf(fields)).not.toBe(base);
  });

  it('tells parameters of equal text apart by their types', () => {
    const key = (value: ParameterValue) => keyOf({ parameters: parameters(['p', value]) });
    expect(new Set([key(1n), key(1), key('1'), key(true), key('true')]).size).toBe(5);
  });

  it.each(['modelName', 'modelVersion', 'generation'] as const)('depends on the %s', (field) => {
    expect(keyOf({ inputs: [x, y] }, { ...model, [field]: 'other' })).not.toBe(base);
  });
});

const rich: CachedResponse = {
  parameters: new Map<string, ParameterValue>([
    ['b', true],
    ['i', -5n],
    ['n', 1.5],
    ['s', 'ä'],
  ]),
  outputs: [
    int32Tensor('Y', [1, 2], [1, -1]),
    { name: 'E', datatype: 'FP32', shape: [0], encoding: 'raw', bytes: new Uint8Array(0) },
    { name: 'J', datatype: 'BYTES', shape: [1], encoding: 'json', bytes: Buffer.from('["a"]') },
  ],
};

describe('cached response codec', () => {
  const plain = ({ parameters, outputs }: CachedResponse) => ({
    parameters: [...parameters],
    outputs: outputs.map((output) => ({ ...output, bytes: [...output.bytes] })),
  });

  it('reads what it wrote', () => {
    const decoded = decodeCachedResponse(encodeCachedResponse(rich));
    expect(decoded && plain(decoded)).toEqual(plain(rich));
  });

  it('never reads a block that was cut short or made longer', () => {
    const block = encodeCachedResponse(rich);
    for (let length = 0; length < block.length; length += 1) {
      expect(decodeCachedResponse(block.subarray(0, length))).toBeUndefined();
    }
    expect(decodeCachedResponse(Buffer.concat([block, Buffer.of(0)]))).toBeUndefined();
  });

  it.each([
    ['no JSON', 'x'],
    ['null', 'null'],
    ['no lists', '{}'],
    ['an unknown datatype', '{"parameters":[],"outputs":[["Y","INT7",[0],"raw",0]]}'],
    ['an unknown form', '{"parameters":[],"outputs":[["Y","INT8",[0],"zip",0]]}'],
    ['a negative size', '{"parameters":[],"outputs":[["Y","INT8",[0],"raw",-1]]}'],
    ['a negative dimension', '{"parameters":[],"outputs":[["Y","INT8",[-1],"raw",0]]}'],
    ['an integer that is none', '{"parameters":[["p","bigint","x"]],"outputs":[]}'],
    ['an unknown parameter type', '{"parameters":[["p","symbol","x"]],"outputs":[]}'],
    ['a short entry', '{"parameters":[["p"]],"outputs":[]}'],
  ])('reads %s as nothing', (_, text) => {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(text.length, 0);
    expect(decodeCachedResponse(Buffer.concat([length, Buffer.from(text)]))).toBeUndefined();
  });
});

describe('RedisResponseCache', () => {
  function setUp() {
    const stored = new Map<string, Buffer>();
    const events: unknown[] = [];
    const calls: string[] = [];
    let failure: Error | undefined;
    const attempt = async <Result>(name: string, act: () => Result): Promise<Result> => {
      calls.push(name);
      if (failure !== undefined) throw failure;
      return act();
    };
    const store = {
      getBuffer: (key: string) => attempt('get', () => stored.get(key) ?? null),
      set: (key: string, value: Buffer) => attempt('set', () => stored.set(key, value)),
      quit: () => attempt('quit', () => 'OK'),
      disconnect: () => {
        calls.push('disconnect');
      },
    };
    const cache = new RedisResponseCache(store, {
      lost: (error) => events.push(error),
      found: () => events.push('found'),
    });
    const breakWith = (error: Error | undefined) => {
      failure = error;
    };
    return { cache, stored, events, calls, breakWith };
  }

  it('keeps answers under a prefix of its own', async () => {
    const { cache, stored } = setUp();
    cache.insert('k', rich);
    expect([...stored.keys()]).toEqual(['nereid:response:k']);
    const found = await cache.lookup('k');
    expect(found?.outputs.map(({ name }) => name)).toEqual(['Y', 'E', 'J']);
    expect(await cache.lookup('other')).toBeUndefined();
  });

  it('reads what others left there as a miss', async () => {
    const { cache, stored } = setUp();
    stored.set('nereid:response:k', Buffer.from('rubbish'));
    expect(await cache.lookup('k')).toBeUndefined();
  });

  it('turns every failure of the store into a miss, and tells once that it is away', async () => {
    const { cache, events, breakWith } = setUp();
    const failure = new Error('away');
    breakWith(failure);
    cache.insert('k', rich);
    expect(await cache.lookup('k')).toBeUndefined();
    cache.failed(new Error('no connection'));
    expect(events).toEqual([failure]);
  });

  it('tells once that the store answers again, and of the next failure', async () => {
    const { cache, events, breakWith } = setUp();
    await cache.lookup('k');
    const failures = [new Error('away'), new Error('away again')];
    for (const failure of failures) {
      breakWith(failure);
      await cache.lookup('k');
      breakWith(undefined);
      await cache.lookup('k');
      await cache.lookup('k');
    }
    expect(events).toEqual([failures[0], 'found', failures[1], 'found']);
  });

  it('says goodbye, and stops connecting even where it cannot', async () => {
    const { cache, calls, breakWith } = setUp();
    breakWith(new Error('away'));
    await cache.close();
    expect(calls).toEqual(['quit', 'disconnect']);
  });
});
