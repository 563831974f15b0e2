import { describe, expect, it } from 'vitest';
import type { ModelRevision } from '../../src/server/model-revision.js';
import { StepNamespaces } from '../../src/server/step-namespaces.js';
import { modelConfig } from '../support/model-configs.js';

function ensemble(namespace: string, steps: readonly string[]): ModelRevision {
  const step = steps.map((model_name) => ({
    model_name,
    model_version: -1,
    input_map: {},
    output_map: {},
    model_namespace: 'written by hand',
  }));
  return {
    id: { namespace, name: 'e' },
    listing: {
      name: 'e',
      configFingerprint: '',
      versions: new Map(),
      restFingerprint: '',
      warnings: [],
    },
    config: modelConfig({ name: 'e', ensemble_scheduling: { step } }),
    versions: [],
    origin: 'repository',
    localize: () => Promise.reject(new Error('not needed')),
  };
}

const places: Readonly<Record<string, readonly string[]>> = {
  everywhere: ['/a', '/b'],
  elsewhere: ['/b'],
  twice: ['/b', '/c'],
  flat: [''],
};
const namespacesOf = (name: string) => places[name] ?? [];

function namespacesIn({ config }: ModelRevision): readonly string[] {
  return (config.ensemble_scheduling?.step ?? []).map((step) => step.model_namespace);
}

describe('StepNamespaces', () => {
  it.each([
    ['the own repository before others', '/a', 'everywhere', '/a'],
    ['the only other repository', '/a', 'elsewhere', '/b'],
    ['none of several others', '/a', 'twice', ''],
    ['none where there is no such model', '/a', 'missing', ''],
    ['nothing without namespacing', '', 'flat', ''],
  ])('chooses %s', (_, own, step, expected) => {
    const resolved = new StepNamespaces().resolve(ensemble(own, [step]), namespacesOf);
    expect(namespacesIn(resolved)).toEqual([expected]);
  });

  it('gives the same object for the same answer, and another when a model has moved', () => {
    const steps = new StepNamespaces();
    const revision = ensemble('/a', ['everywhere', 'elsewhere']);
    const first = steps.resolve(revision, namespacesOf);
    expect(steps.resolve(revision, namespacesOf)).toBe(first);
    const moved = steps.resolve(revision, () => ['/c']);
    expect(namespacesIn(moved)).toEqual(['/c', '/c']);
    expect(namespacesIn(first)).toEqual(['/a', '/b']);
  });

  it('leaves a model without steps as it is', () => {
    const revision = { ...ensemble('/a', []), config: modelConfig({ name: 'm' }) };
    expect(new StepNamespaces().resolve(revision, namespacesOf)).toBe(revision);
  });
});
