import { describe, expect, it } from 'vitest';
import { InferenceServerError } from '../../src/errors.js';
import { type ModelRecord, ModelRegistry } from '../../src/server/model-registry.js';

/** A record of which a load has failed. */
async function tried(registry: ModelRegistry, namespace: string): Promise<ModelRecord> {
  const record = registry.ensureRecord({ namespace, name: 'm' });
  const load = new Map([['1', () => Promise.reject(new Error('broken'))]]);
  await record.entry.update({ keep: new Set(), load });
  return record;
}

function refusal(registry: ModelRegistry, name: string): readonly unknown[] {
  try {
    registry.resolve(name, '1');
  } catch (error) {
    if (error instanceof InferenceServerError) return [error.code, error.message];
    throw error;
  }
  return ['none'];
}

const ambiguous = [
  'INVALID_ARG',
  "There are 2 identifiers of model 'm' in global map, model namespace must be provided to resolve ambiguity.",
];
const notReady = ['UNAVAILABLE', "Request for unknown model: 'm' version 1 is not at ready state"];
const unknown = ['NOT_FOUND', "Request for unknown model: 'm' is not found"];

describe('ModelRegistry with namespaces', () => {
  it('finds a name that one repository has', async () => {
    const registry = new ModelRegistry();
    const record = await tried(registry, '/a');
    expect(registry.lookUp('m')).toBe(record);
    expect(refusal(registry, 'm')).toEqual(notReady);
  });

  it('refuses a name that two repositories have, but not its keys', async () => {
    const registry = new ModelRegistry();
    await tried(registry, '/a');
    const other = await tried(registry, '/b');
    expect(refusal(registry, 'm')).toEqual(ambiguous);
    expect(refusal(registry, '/b::m')).toEqual(notReady);
    expect(registry.lookUp('/b::m')).toBe(other);
  });

  it('does not count a model that could not be read or is gone', async () => {
    const registry = new ModelRegistry();
    registry.ensureRecord({ namespace: '/b', name: 'm' }).problem = 'no such field';
    expect(refusal(registry, 'm')).toEqual(unknown);
    const record = await tried(registry, '/a');
    expect(registry.lookUp('m')).toBe(record);
    const other = await tried(registry, '/c');
    await other.entry.unload();
    expect(registry.lookUp('m')).toBe(record);
  });

  it('counts a model that a load call has made of files alone', async () => {
    const registry = new ModelRegistry();
    await tried(registry, '/a');
    await tried(registry, '');
    expect(refusal(registry, 'm')).toEqual(ambiguous);
    expect(registry.recordsNamed('m').map(({ key }) => key)).toEqual(['m', '/a::m']);
  });
});
