import { describe, expect, it } from 'vitest';
import type { ModelListing, RepositoryScan } from '../../src/repository/model-repository.js';
import { type SettleState, settle, settledState } from '../../src/repository/settle.js';

const settleNs = 10;

/** `{ a: '1' }` is a repository whose model `a` holds something called `1`. */
function scan(models: Readonly<Record<string, string>>): RepositoryScan {
  return new Map(Object.entries(models).map(([name, rest]) => [name, listing(name, rest)]));
}

function listing(name: string, restFingerprint: string): ModelListing {
  return { name, configFingerprint: '', versions: new Map(), restFingerprint, warnings: [] };
}

function contents(state: SettleState): Readonly<Record<string, string>> {
  return Object.fromEntries([...state.settled].map(([name, each]) => [name, each.restFingerprint]));
}

type Look = readonly [atNs: number, models: Readonly<Record<string, string>>];

const cases: readonly {
  readonly behaviour: string;
  readonly looks: readonly Look[];
  readonly settled: Readonly<Record<string, string>>;
  readonly pending: readonly string[];
}[] = [
  {
    behaviour: 'does not believe the first look at a change',
    looks: [[0, { a: '2' }]],
    settled: { a: '1' },
    pending: ['a'],
  },
  {
    behaviour: 'believes a change that a second look finds again',
    looks: [
      [0, { a: '2' }],
      [10, { a: '2' }],
    ],
    settled: { a: '2' },
    pending: [],
  },
  {
    behaviour: 'does not take two looks shortly after one another for two',
    looks: [
      [0, { a: '2' }],
      [9, { a: '2' }],
    ],
    settled: { a: '1' },
    pending: ['a'],
  },
  {
    behaviour: 'counts from the first look that showed the change, not from the last',
    looks: [
      [0, { a: '2' }],
      [6, { a: '2' }],
      [12, { a: '2' }],
    ],
    settled: { a: '2' },
    pending: [],
  },
  {
    behaviour: 'starts again when the change moves on',
    looks: [
      [0, { a: '2' }],
      [10, { a: '3' }],
      [19, { a: '3' }],
    ],
    settled: { a: '1' },
    pending: ['a'],
  },
  {
    behaviour: 'forgets a change that is taken back',
    looks: [
      [0, { a: '2' }],
      [10, { a: '1' }],
      [20, { a: '2' }],
    ],
    settled: { a: '1' },
    pending: ['a'],
  },
  {
    behaviour: 'leaves a model alone whose folder is away for one look',
    looks: [
      [0, {}],
      [10, { a: '1' }],
    ],
    settled: { a: '1' },
    pending: [],
  },
  {
    behaviour: 'believes that a model is gone when a second look misses it too',
    looks: [
      [0, {}],
      [10, {}],
    ],
    settled: {},
    pending: [],
  },
  {
    behaviour: 'settles a new model while another one is still being copied',
    looks: [
      [0, { a: '1', b: '1', c: '1' }],
      [10, { a: '1', b: '1', c: '2' }],
    ],
    settled: { a: '1', b: '1' },
    pending: ['c'],
  },
  {
    behaviour: 'forgets a new model that is gone before it settled',
    looks: [
      [0, { a: '1', b: '1' }],
      [10, { a: '1' }],
    ],
    settled: { a: '1' },
    pending: [],
  },
];

describe('settle', () => {
  it.each(cases)('$behaviour', ({ looks, settled, pending }) => {
    let state = settledState(scan({ a: '1' }));
    for (const [atNs, models] of looks) {
      state = settle(state, scan(models), atNs, settleNs);
    }
    expect(contents(state)).toEqual(settled);
    expect([...state.pending.keys()]).toEqual(pending);
  });
});
