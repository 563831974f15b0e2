import { modelKey } from '../inference/model-key.js';
import type { EnsembleStep, ModelConfig } from '../model-config/model-config.js';

/** Keys of the models that an ensemble's steps run, each once; empty for any other model. */
export function stepModels(config: ModelConfig): readonly string[] {
  return [...stepsByModel(config).keys()];
}

/** Key → a step that runs that model. */
export function stepsByModel(config: ModelConfig): ReadonlyMap<string, EnsembleStep> {
  const steps = config.ensemble_scheduling?.step ?? [];
  return new Map(
    steps.map((step) => [
      modelKey({ namespace: step.model_namespace, name: step.model_name }),
      step,
    ]),
  );
}

/**
 * Ensembles that reach `name` through their steps, directly or through other ensembles, nearest
 * first.
 */
export function dependentEnsembles(
  name: string,
  configs: ReadonlyMap<string, ModelConfig>,
): readonly string[] {
  const dependents: string[] = [];
  const pending = [name];
  for (let step = pending.shift(); step !== undefined; step = pending.shift()) {
    for (const [ensemble, config] of configs) {
      if (dependents.includes(ensemble) || !stepModels(config).includes(step)) continue;
      dependents.push(ensemble);
      pending.push(ensemble);
    }
  }
  return dependents;
}

/**
 * Groups of names that may load in parallel, each group after the ones that its ensembles' steps
 * are in. Names outside `configs` do not hold anything up. Ensembles in a circle are left over.
 */
export function loadOrder(configs: ReadonlyMap<string, ModelConfig>): {
  readonly groups: readonly (readonly string[])[];
  readonly circular: readonly string[];
} {
  const waiting = new Map(configs);
  const groups: string[][] = [];
  while (waiting.size > 0) {
    const group = [...waiting.keys()].filter((name) => {
      const config = waiting.get(name);
      return config !== undefined && !stepModels(config).some((step) => waiting.has(step));
    });
    if (group.length === 0) return { groups, circular: [...waiting.keys()] };
    for (const name of group) waiting.delete(name);
    groups.push(group);
  }
  return { groups, circular: [] };
}
