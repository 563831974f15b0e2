import { describe, expect, it } from 'vitest';
import type { CallingInstance, ModelCall } from '../../src/inference/model-call.js';
import { CallGraph } from '../../src/server/call-graph.js';

class FakeInstance implements CallingInstance {
  readonly name: string;
  isExecuting = false;
  answering: readonly ModelCall[] = [];

  constructor(name: string) {
    this.name = name;
  }

  run(...answering: readonly ModelCall[]): void {
    this.isExecuting = true;
    this.answering = answering;
  }
}

/** Models by name, each with so many instances: `a` has a0, a1, ... */
function graphOf(counts: Readonly<Record<string, number>>) {
  const instances = new Map<string, FakeInstance>();
  const models = new Map<string, readonly FakeInstance[]>();
  for (const [name, count] of Object.entries(counts)) {
    const members = Array.from({ length: count }, (_, index) => new FakeInstance(name + index));
    models.set(name, members);
    for (const member of members) instances.set(member.name, member);
  }
  const graph = new CallGraph((name) => models.get(name));
  const instance = (name: string): FakeInstance => {
    const found = instances.get(name);
    if (found === undefined) throw new Error(`no instance ${name}`);
    return found;
  };
  const begin = (caller: string, modelName: string): ModelCall => {
    const call = { caller: instance(caller), modelName, modelVersion: '' };
    graph.begin(call);
    return call;
  };
  return { graph, instance, begin };
}

/**
 * Steps, one a word: `a0` starts on a client's request; `a0>b` calls b from a0; `a0>b=b1` the same,
 * and b1 runs it. The last step is the one that is judged.
 */
const cases: readonly (readonly [what: string, steps: string, isRefused: boolean])[] = [
  ['a call of an idle model', 'a0 a0>b', false],
  ['a call of itself with one instance', 'a0 a0>a', true],
  ['a call of itself with an idle instance', 'b0 b0>b', false],
  ['a second call of itself that waits for the first', 'b0 b0>b=b1 b0>b', false],
  ['calls of itself from all instances', 'b0 b1 b0>b b1>b', true],
  ['a call of itself from the instance that answers a call of itself', 'b0 b0>b=b1 b1>b', true],
  ['a call back', 'a0 a0>c=c0 c0>a', true],
  ['a call back where the answering model has another instance', 'a0 a0>b=b0 b0>a', true],
  ['a call of a model that calls for somebody else', 'b0 a0 a0>b=b1 b0>a', false],
  ['a call back to an idle instance', 'b0 b0>c=c0 c0>b', false],
  ['a call back where the other instance works for a client', 'b0 b1 b0>c=c0 c0>b', false],
  ['a ring of three', 'a0 a0>b=b0 b0>c=c0 c0>a', true],
  ['a ring of three with a queued call', 'a0 c0 a0>c c0>a', true],
  ['a call of a busy model that calls an idle one', 'a0 c0 c0>b=b0 a0>c', false],
  ['a call of a model that is not there', 'a0 a0>x', false],
  ['many calls at once of a free model', 'a0 a0>b=b0 a0>b=b1 a0>b a0>b', false],
];

describe('CallGraph', () => {
  it.each(cases)('judges %s: %s, refused: %s', (_what, steps, isRefused) => {
    const { begin, instance } = graphOf({ a: 1, b: 2, c: 1 });
    const words = steps.split(' ');
    const step = (word: string) => {
      const [, caller = '', callee, answering] = /^(\w+)(?:>(\w+))?(?:=(\w+))?$/.exec(word) ?? [];
      if (callee === undefined) {
        instance(caller).run();
        return;
      }
      const call = begin(caller, callee);
      if (answering !== undefined) instance(answering).run(call);
    };
    for (const word of words.slice(0, -1)) step(word);
    const last = () => step(words.at(-1) ?? '');
    if (isRefused) expect(last).toThrow('can never run');
    else expect(last).not.toThrow();
  });

  it('forgets a call that has ended, and one that was refused', () => {
    const { graph, begin, instance } = graphOf({ a: 1, c: 1 });
    instance('a0').run();
    const call = begin('a0', 'c');
    instance('c0').run(call);
    expect(() => begin('c0', 'a')).toThrow(
      "model 'a' can never run a call of instance 'c0': each of its instances waits",
    );
    graph.end(call);
    expect(() => begin('c0', 'a')).not.toThrow();
  });

  it('lets an instance call that holds nothing, such as one that still streams', () => {
    const { begin } = graphOf({ a: 1 });
    expect(() => begin('a0', 'a')).not.toThrow();
  });

  it('follows a call through an ensemble by the step that is answered', () => {
    const { begin, instance } = graphOf({ a: 1, ensemble: 0, step: 1 });
    instance('a0').run();
    const call = begin('a0', 'ensemble');
    instance('step0').run(call);
    expect(() => begin('step0', 'a')).toThrow('can never run');
  });
});
