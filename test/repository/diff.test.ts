import { describe, expect, it } from 'vitest';
import { diffScans, isEmptyDiff } from '../../src/repository/diff.js';
import type { ModelListing, RepositoryScan } from '../../src/repository/model-repository.js';

const base: ModelListing = {
  name: 'm',
  configFingerprint: 'config',
  versions: new Map([['1', 'one']]),
  restFingerprint: 'rest',
  warnings: [],
};

function scan(...listings: readonly ModelListing[]): RepositoryScan {
  return new Map(listings.map((listing) => [listing.name, listing]));
}

describe('diffScans', () => {
  it('is empty for equal scans, whatever objects they are made of', () => {
    const copy = { ...base, versions: new Map(base.versions), warnings: ['told again'] };
    const diff = diffScans(scan(base), scan(copy));
    expect(diff).toEqual({ added: [], changed: [], removed: [] });
    expect(isEmptyDiff(diff)).toBe(true);
  });

  it('lists what came and what went in alphabetical order', () => {
    const named = (name: string): ModelListing => ({ ...base, name });
    const diff = diffScans(scan(named('z'), named('y')), scan(named('b'), named('a')));
    expect(diff.added.map(({ name }) => name)).toEqual(['a', 'b']);
    expect(diff.removed).toEqual(['y', 'z']);
    expect(diff.changed).toEqual([]);
    expect(isEmptyDiff(diff)).toBe(false);
  });

  const changes: readonly (readonly [string, Partial<ModelListing>, string])[] = [
    ['a configuration', { configFingerprint: 'other' }, 'config'],
    ['a new version', { versions: new Map([...base.versions, ['2', 'two']]) }, 'versions'],
    ['a removed version', { versions: new Map() }, 'versions'],
    ['another version instead', { versions: new Map([['2', 'one']]) }, 'versions'],
    ['a file inside a version', { versions: new Map([['1', 'other']]) }, 'versions'],
    ['a label file', { restFingerprint: 'other' }, 'rest'],
    ['all parts', { configFingerprint: '', versions: new Map(), restFingerprint: '' }, 'all'],
  ];
  it.each(changes)('tells which part changed: %s', (_name, change, part) => {
    const after = { ...base, ...change };
    expect(diffScans(scan(base), scan(after)).changed).toEqual([
      {
        before: base,
        after,
        isConfigChanged: part === 'config' || part === 'all',
        isVersionsChanged: part === 'versions' || part === 'all',
        isRestChanged: part === 'rest' || part === 'all',
      },
    ]);
  });
});
