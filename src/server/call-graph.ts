import { internal } from '../errors.js';
import type { CallingInstance, ModelCall } from '../inference/model-call.js';

/** The instances that a request to the model can run on; undefined where there is no such model. */
export type FindInstances = (
  modelName: string,
  modelVersion: string,
) => readonly CallingInstance[] | undefined;

/**
 * Who waits for whom among instances whose models call models. An instance is held while it runs a
 * batch; a held one that waits for a call is stuck for ever where
 *
 * - the call is answered by an instance that is stuck, or
 * - nothing answers it yet, and every instance that could is stuck.
 *
 * Only the call that comes last can close such a ring, so that each is judged as it begins.
 */
export class CallGraph {
  readonly #findInstances: FindInstances;
  /** Calls under way, by their caller. */
  readonly #calls = new Map<CallingInstance, Set<ModelCall>>();

  constructor(findInstances: FindInstances) {
    this.#findInstances = findInstances;
  }

  /** INTERNAL where the call could never run; else it counts until {@link end}. */
  begin(call: ModelCall): void {
    const calls = this.#calls.get(call.caller) ?? new Set();
    this.#calls.set(call.caller, calls.add(call));
    if (!this.#isStuck(call)) return;
    this.end(call);
    throw internal(
      `model '${call.modelName}' can never run a call of instance '${call.caller.name}': each of its ` +
        'instances waits, itself or through other calls, for the end of this one. Raise the count ' +
        'of its instance_group.',
    );
  }

  end(call: ModelCall): void {
    const calls = this.#calls.get(call.caller);
    calls?.delete(call);
    if (calls?.size === 0) this.#calls.delete(call.caller);
  }

  #isStuck(call: ModelCall): boolean {
    const callees = this.#findInstances(call.modelName, call.modelVersion) ?? [];
    // Nearly always: a callee that waits for nothing will take the call.
    if (callees.some((callee) => !this.#isWaiting(callee))) return false;
    const stuck = new Set([...this.#calls.keys()].filter((caller) => this.#isWaiting(caller)));
    for (let sizeBefore = -1; sizeBefore !== stuck.size; ) {
      sizeBefore = stuck.size;
      for (const instance of stuck) {
        const calls = [...(this.#calls.get(instance) ?? [])];
        if (!calls.some((waiting) => this.#neverEnds(waiting, stuck))) stuck.delete(instance);
      }
    }
    return stuck.has(call.caller);
  }

  #isWaiting(instance: CallingInstance): boolean {
    return instance.isExecuting && this.#calls.has(instance);
  }

  #neverEnds(call: ModelCall, stuck: ReadonlySet<CallingInstance>): boolean {
    for (const instance of stuck) if (instance.answering.includes(call)) return true;
    const callees = this.#findInstances(call.modelName, call.modelVersion) ?? [];
    // An ensemble has no instances: it is stuck where one of its steps is answered by one.
    if (callees.length === 0) return false;
    return callees.every((callee) => stuck.has(callee));
  }
}
