import { describe, expect, it } from 'vitest';
import { completeModelConfig } from '../../src/model-config/complete-model-config.js';
import { parseModelConfigText } from '../../src/model-config/read-model-config.js';
import { compareRevisions, type ModelRevision } from '../../src/server/model-revision.js';

interface Difference {
  readonly config?: string;
  readonly rest?: string;
  readonly versions?: Readonly<Record<string, string>>;
  readonly served?: readonly string[];
  readonly origin?: ModelRevision['origin'];
}

const base = 'backend: "python" max_batch_size: 4';

function revision(difference: Difference = {}): ModelRevision {
  const versions = new Map(Object.entries(difference.versions ?? { '1': 'a', '2': 'b' }));
  const parsed = parseModelConfigText(difference.config ?? base, 'config.pbtxt');
  return {
    id: { namespace: '', name: 'm' },
    listing: {
      name: 'm',
      configFingerprint: '',
      versions,
      restFingerprint: difference.rest ?? '',
      warnings: [],
    },
    config: completeModelConfig(parsed, { modelName: 'm', versionFiles: [] }),
    versions: difference.served ?? [...versions.keys()],
    origin: difference.origin ?? 'repository',
    localize: () => Promise.reject(new Error('not needed')),
  };
}

describe('compareRevisions', () => {
  it.each<[string, Difference, unknown]>([
    ['nothing', {}, { type: 'none' }],
    [
      'the number of instances',
      { config: `${base} instance_group { count: 3 }` },
      { type: 'in-place' },
    ],
    [
      'the version policy alone',
      { config: `${base} version_policy { all {} }` },
      { type: 'in-place' },
    ],
    ['the versions that are served', { served: ['1'] }, { type: 'in-place' }],
    ['any other field', { config: 'backend: "python" max_batch_size: 8' }, { type: 'all' }],
    ['a file beside the versions', { rest: 'changed' }, { type: 'all' }],
    [
      'files of one version',
      { versions: { '1': 'a', '2': 'changed' } },
      { type: 'versions', changed: new Set(['2']) },
    ],
    [
      'a new version',
      { versions: { '1': 'a', '2': 'b', '3': 'c' } },
      { type: 'versions', changed: new Set(['3']) },
    ],
    ['an override of the configuration', { origin: 'config-override' }, { type: 'all' }],
    ['given files', { origin: 'file-override' }, { type: 'all' }],
  ])('tells what to load when it differs in %s', (_what, difference, change) => {
    expect(compareRevisions(revision(), revision(difference), 'changeable')).toEqual(change);
  });

  it('keeps a given configuration until a file changes', () => {
    const override = revision({ origin: 'config-override', config: 'backend: "python"' });
    expect(compareRevisions(override, revision(), 'changeable')).toEqual({
      type: 'keeps-override',
    });
    expect(compareRevisions(override, revision({ rest: 'changed' }), 'changeable')).toEqual({
      type: 'all',
    });
    expect(compareRevisions(override, override, 'changeable')).toEqual({ type: 'all' });
  });

  it('loads everything the first time, and given files every time', () => {
    expect(compareRevisions(undefined, revision(), 'changeable')).toEqual({ type: 'all' });
    const files = revision({ origin: 'file-override' });
    expect(compareRevisions(files, files, 'changeable')).toEqual({ type: 'all' });
  });

  it.each<[string, Difference, unknown]>([
    [
      'loads all again for another number of instances',
      { config: `${base} instance_group { count: 3 }` },
      { type: 'all' },
    ],
    [
      'keeps versions loaded for another version policy',
      { config: `${base} version_policy { all {} }` },
      { type: 'in-place' },
    ],
  ])('%s where instances are fixed', (_what, difference, change) => {
    expect(compareRevisions(revision(), revision(difference), 'fixed')).toEqual(change);
  });
});
