import type { InferenceRequest } from '../../src/inference/infer-request.js';
import type { Tensor } from '../../src/inference/tensor.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import { planEnsemble } from '../../src/scheduling/ensemble-plan.js';
import { EnsembleScheduler } from '../../src/scheduling/ensemble-scheduler.js';
import { FakeClock } from '../support/fake-clock.js';
import { FakeMembers } from '../support/fake-members.js';
import { modelConfig, modelInput, modelOutput } from '../support/model-configs.js';
import { int32Tensor, observedRequest } from '../support/pending-requests.js';

export type Steps = readonly (readonly [
  model: string,
  inputs: Readonly<Record<string, string>>,
  outputs: Readonly<Record<string, string>>,
])[];

export interface Setting {
  readonly steps: Steps;
  readonly inputs?: readonly string[];
  readonly outputs?: readonly string[];
  readonly optional?: readonly string[];
  readonly decoupled?: readonly string[];
  /** Members that batch; the ensemble batches where `batches` names 'e'. */
  readonly batches?: readonly string[];
  readonly inflightMax?: number;
}

/** Members have as inputs and outputs whatever the steps name, INT32 [2]. */
export function setUp(setting: Setting) {
  const batches = (name: string) => (setting.batches?.includes(name) ? 8 : 0);
  const isOptional = (name: string) => setting.optional?.includes(name) ?? false;
  const member = (name: string): ModelConfig => {
    const steps = setting.steps.filter(([model]) => model === name);
    const names = (side: 1 | 2) => [...new Set(steps.flatMap((step) => Object.keys(step[side])))];
    return modelConfig({
      name,
      max_batch_size: batches(name),
      input: names(1).map((input) =>
        modelInput(input, 'TYPE_INT32', [2], { optional: isOptional(input) }),
      ),
      output: names(2).map((output) => modelOutput(output, 'TYPE_INT32', [2])),
    });
  };
  const config = modelConfig({
    name: 'e',
    max_batch_size: batches('e'),
    input: (setting.inputs ?? ['a']).map((name) =>
      modelInput(name, 'TYPE_INT32', [2], { optional: isOptional(name) }),
    ),
    output: (setting.outputs ?? ['z']).map((name) => modelOutput(name, 'TYPE_INT32', [2])),
    ensemble_scheduling: {
      step: setting.steps.map(([model, inputs, outputs]) => ({
        model_name: model,
        model_version: -1,
        model_namespace: '',
        input_map: { ...inputs },
        output_map: { ...outputs },
      })),
      ...(setting.inflightMax === undefined ? {} : { max_inflight_requests: setting.inflightMax }),
    },
  });
  const plan = planEnsemble(config, (name) => ({
    config: member(name),
    isDecoupled: setting.decoupled?.includes(name) ?? false,
  }));
  const members = new FakeMembers();
  const clock = new FakeClock();
  const executed: string[] = [];
  const scheduler = new EnsembleScheduler(plan, '7', members.infer, clock, ({ request }) => {
    executed.push(request.id);
  });
  const send = (fields: Partial<InferenceRequest> = {}, rows = 1) => {
    const observed = observedRequest({ modelName: 'e', inputs: [tensor('a', 1)], ...fields }, rows);
    scheduler.enqueue(observed.pending);
    return observed;
  };
  return { members, scheduler, clock, send, executed };
}

export function tensor(name: string, value: number, shape: readonly number[] = [2]): Tensor {
  const elements = shape.reduce((product, dim) => product * dim, 1);
  return int32Tensor(name, shape, new Array<number>(elements).fill(value));
}

function firstValue({ bytes }: Tensor): number {
  return new Int32Array(bytes.buffer, bytes.byteOffset, 1)[0] ?? Number.NaN;
}

/** `{ name: first element }` of a list of tensors. */
export function valuesOf(tensors: readonly Tensor[] | undefined) {
  return Object.fromEntries((tensors ?? []).map((one) => [one.name, firstValue(one)]));
}

export const chain: Steps = [
  ['p', { X: 'a' }, { Y: 'b' }],
  ['q', { X: 'b' }, { Y: 'z' }],
];
export const diamond: Steps = [
  ['p', { X: 'a' }, { Y: 'b' }],
  ['q', { X: 'b' }, { Y: 'c' }],
  ['r', { X: 'b' }, { Y: 'd' }],
  ['s', { X: 'c', W: 'd' }, { Y: 'z' }],
];
