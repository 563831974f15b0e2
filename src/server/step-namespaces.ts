import type { EnsembleStep } from '../model-config/model-config.js';
import type { ModelRevision } from './model-revision.js';

/** Namespaces in which there is a model of that name; '' is the only one without namespacing. */
export type NamespacesOf = (modelName: string) => readonly string[];

/**
 * Fills in which repository each step of an ensemble takes its model from, in `model_namespace`:
 * the ensemble's own where it has one of that name, else the only other one that has. Where several
 * others have, the step stays without one, and the ensemble will not find it. What a configuration
 * says there itself does not count, as on the reference server.
 */
export class StepNamespaces {
  /** An unchanged revision whose steps are where they were must stay the same object. */
  readonly #resolved = new WeakMap<ModelRevision, ModelRevision>();

  resolve(revision: ModelRevision, namespacesOf: NamespacesOf): ModelRevision {
    const ensembling = revision.config.ensemble_scheduling;
    if (ensembling === undefined) return revision;
    const namespaces = ensembling.step.map((step) =>
      chooseNamespace(revision.id.namespace, namespacesOf(step.model_name)),
    );
    const last = this.#resolved.get(revision) ?? revision;
    if (hasNamespaces(last.config.ensemble_scheduling?.step ?? [], namespaces)) return last;
    const step = ensembling.step.map((unresolved, index) => ({
      ...unresolved,
      model_namespace: namespaces[index] ?? '',
    }));
    const config = { ...revision.config, ensemble_scheduling: { ...ensembling, step } };
    const resolved = { ...revision, config };
    this.#resolved.set(revision, resolved);
    return resolved;
  }
}

function chooseNamespace(own: string, candidates: readonly string[]): string {
  if (candidates.includes(own)) return own;
  return candidates.length === 1 ? (candidates[0] ?? '') : '';
}

function hasNamespaces(steps: readonly EnsembleStep[], namespaces: readonly string[]): boolean {
  return steps.every((step, index) => step.model_namespace === namespaces[index]);
}
