import { describe, expect, it } from 'vitest';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import { dependentEnsembles, loadOrder } from '../../src/server/ensemble-dependencies.js';

/** Only what the functions read: the names of the steps. */
function configs(steps: Readonly<Record<string, readonly string[]>>): Map<string, ModelConfig> {
  return new Map(
    Object.entries(steps).map(([name, models]) => [
      name,
      {
        ensemble_scheduling: {
          step: models.map((model_name) => ({ model_name, model_namespace: '' })),
        },
      } as unknown as ModelConfig,
    ]),
  );
}

describe('loadOrder', () => {
  it('loads steps before their ensembles, and the rest side by side', () => {
    const order = loadOrder(configs({ outer: ['inner', 'a'], inner: ['a', 'b'], a: [], b: [] }));
    expect(order).toEqual({ groups: [['a', 'b'], ['inner'], ['outer']], circular: [] });
  });

  it('is not held up by a step that is not there', () => {
    expect(loadOrder(configs({ e: ['missing'] })).groups).toEqual([['e']]);
  });

  it('leaves over ensembles in a circle', () => {
    expect(loadOrder(configs({ a: ['b'], b: ['a'], c: [] }))).toEqual({
      groups: [['c']],
      circular: ['a', 'b'],
    });
  });
});

describe('dependentEnsembles', () => {
  it('finds ensembles through ensembles, each once', () => {
    const all = configs({ outer: ['inner', 'a'], inner: ['a'], other: ['b'], a: [], b: [] });
    expect(dependentEnsembles('a', all)).toEqual(['outer', 'inner']);
    expect(dependentEnsembles('b', all)).toEqual(['other']);
    expect(dependentEnsembles('outer', all)).toEqual([]);
  });
});
