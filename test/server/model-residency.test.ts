import { describe, expect, it } from 'vitest';
import { ModelResidency } from '../../src/server/model-residency.js';

const sizes: Readonly<Record<string, number>> = { a: 10, b: 20, c: 30 };
const bytesOf = (name: string): number => sizes[name] ?? 0;

function resident(limits: { modelsMax?: number; bytesMax?: number }, ...names: readonly string[]) {
  const residency = new ModelResidency({ modelsMax: 0, bytesMax: 0, ...limits });
  for (const name of names) residency.enter(name, bytesOf(name));
  return residency;
}

describe('ModelResidency', () => {
  it.each<[string, ModelResidency, readonly string[], unknown]>([
    ['no limits', resident({}, 'a', 'b'), ['c'], { type: 'enter' }],
    ['as many models as allowed', resident({ modelsMax: 2 }, 'a'), ['c'], { type: 'enter' }],
    [
      'one model too many',
      resident({ modelsMax: 2 }, 'a', 'b'),
      ['c'],
      { type: 'evict', victim: 'a' },
    ],
    ['as many bytes as allowed', resident({ bytesMax: 60 }, 'a', 'b'), ['c'], { type: 'enter' }],
    [
      'one byte too many',
      resident({ bytesMax: 59 }, 'a', 'b'),
      ['c'],
      { type: 'evict', victim: 'a' },
    ],
    ['a model above the limit by itself', resident({ bytesMax: 5 }), ['c'], { type: 'enter' }],
    [
      'a group above the limit by itself',
      resident({ modelsMax: 1 }, 'a'),
      ['a', 'b'],
      { type: 'enter' },
    ],
    ['a model that is there already', resident({ modelsMax: 1 }, 'a'), ['a'], { type: 'enter' }],
  ])('decides with %s', (_what, residency, group, decision) => {
    expect(residency.admit(group, bytesOf)).toEqual(decision);
  });

  it('lets the least recently used idle model go, and waits where all are at work', () => {
    const residency = resident({ modelsMax: 2 }, 'a', 'b');
    residency.hold(['a'])();
    expect(residency.admit(['c'], bytesOf)).toEqual({ type: 'evict', victim: 'b' });
    const endB = residency.hold(['b']);
    expect(residency.admit(['c'], bytesOf)).toEqual({ type: 'evict', victim: 'a' });
    const endA = residency.hold(['a']);
    expect(residency.admit(['c'], bytesOf)).toEqual({ type: 'wait' });
    endB();
    endB();
    expect(residency.admit(['c'], bytesOf)).toEqual({ type: 'evict', victim: 'b' });
    endA();
  });

  it('counts a model while it loads, without taking it for loaded', () => {
    const residency = resident({ modelsMax: 1 });
    const end = residency.begin(['a'], bytesOf);
    expect(residency.has('a')).toBe(false);
    expect(residency.admit(['b'], bytesOf)).toEqual({ type: 'wait' });
    end();
    expect(residency.admit(['b'], bytesOf)).toEqual({ type: 'enter' });
  });

  it('keeps a model whose load has succeeded', () => {
    const residency = resident({ modelsMax: 1 });
    const end = residency.begin(['a'], bytesOf);
    residency.enter('a', 7);
    end();
    expect(residency.names).toEqual(['a']);
    expect(residency.admit(['b'], bytesOf)).toEqual({ type: 'evict', victim: 'a' });
  });
});
