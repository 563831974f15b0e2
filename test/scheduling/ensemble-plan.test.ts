import { describe, expect, it } from 'vitest';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import {
  type EnsembleMember,
  neededSteps,
  planEnsemble,
} from '../../src/scheduling/ensemble-plan.js';
import { modelConfig, modelInput, modelOutput } from '../support/model-configs.js';

/** `'X:INT32[4] Y:INT32[4]?'`: name, datatype, dims, `?` where optional. */
function inputs(text: string) {
  return text.split(' ').map((part) => {
    const { name, type, dims } = tensorPart(part);
    return modelInput(name, type, dims, { optional: part.endsWith('?') });
  });
}

function outputs(text: string) {
  return text.split(' ').map((part) => {
    const { name, type, dims } = tensorPart(part);
    return modelOutput(name, type, dims);
  });
}

function tensorPart(text: string) {
  const [, name = '', type = '', dims = ''] = /^(\w+):(\w+)\[([-\d,]*)\]\??$/.exec(text) ?? [];
  return { name, type: `TYPE_${type}`, dims: dims === '' ? [] : dims.split(',').map(Number) };
}

function member(text: string, fields: Partial<ModelConfig> = {}, isDecoupled = false) {
  const [left = '', right = ''] = text.split(' -> ');
  const config = modelConfig({ input: inputs(left), output: outputs(right), ...fields });
  return { config, isDecoupled } satisfies EnsembleMember;
}

/** `'m X=a Y=b -> Z=c'`: model, input map, output map. */
function step(text: string) {
  const [left = '', right = ''] = text.split(' -> ');
  const [modelName = '', ...inputParts] = left.split(' ');
  const toMap = (parts: readonly string[]) =>
    Object.fromEntries(parts.map((part) => part.split('=') as [string, string]));
  return {
    model_name: modelName,
    model_version: -1,
    model_namespace: '',
    input_map: toMap(inputParts),
    output_map: toMap(right.split(' ')),
  };
}

function ensemble(text: string, steps: readonly string[], fields: Partial<ModelConfig> = {}) {
  const [left = '', right = ''] = text.split(' -> ');
  return modelConfig({
    name: 'e',
    platform: 'ensemble',
    backend: '',
    input: inputs(left),
    output: outputs(right),
    ensemble_scheduling: { step: steps.map(step) },
    ...fields,
  });
}

const models: Readonly<Record<string, EnsembleMember>> = {
  add: member('X:INT32[4] Y:INT32[4] -> Z:INT32[4]', { name: 'add' }),
  neg: member('X:INT32[4] -> Z:INT32[4]', { name: 'neg' }),
  wild: member('X:INT32[-1] -> Z:INT32[-1]', { name: 'wild' }),
  float: member('X:FP32[4] -> Z:FP32[4]', { name: 'float' }),
  batched: member('X:INT32[4] -> Z:INT32[4]', { name: 'batched', max_batch_size: 4 }),
  unbatched: member('X:INT32[-1,4] -> Z:INT32[-1,4]', { name: 'unbatched' }),
  choosy: member('X:INT32[4] O:INT32[4]? -> Z:INT32[4]', { name: 'choosy' }),
  stream: member('X:INT32[4] -> Z:INT32[4] W:INT32[4]', { name: 'stream' }, true),
};

const plan = (config: ModelConfig) => planEnsemble(config, (name) => models[name]);

describe('planEnsemble', () => {
  it('turns names into indices and knows who reads and who writes each tensor', () => {
    const planned = plan(
      ensemble('a:INT32[4] b:INT32[4] -> d:INT32[4] e:INT32[4]', [
        'add X=a Y=b -> Z=c',
        'neg X=c -> Z=d',
        'add X=c Y=a -> Z=e',
      ]),
    );
    expect(planned.tensorNames).toEqual(['a', 'b', 'd', 'e', 'c']);
    expect(planned.inputs).toEqual(
      new Map([
        ['a', 0],
        ['b', 1],
      ]),
    );
    expect(planned.readers).toEqual([[0, 2], [0], [], [], [1, 2]]);
    expect(planned.writers).toEqual([-1, -1, 1, 2, 0]);
    expect(planned.steps.map((planned_) => planned_.feedsOnlyOutputs)).toEqual([false, true, true]);
    expect(planned.isDecoupled).toBe(false);
  });

  it('asks for the default version where a step says -1, and for another by its number', () => {
    const config = ensemble('a:INT32[4] -> b:INT32[4]', ['neg X=a -> Z=b']);
    expect(plan(config).steps[0]?.modelVersion).toBe('');
    const [only] = config.ensemble_scheduling?.step ?? [];
    if (only !== undefined) only.model_version = 3;
    expect(plan(config).steps[0]?.modelVersion).toBe('3');
  });

  it('lists outputs last first, as the reference server answers', () => {
    const planned = plan(
      ensemble('a:INT32[4] -> b:INT32[4] c:INT32[4]', ['neg X=a -> Z=b', 'neg X=a -> Z=c']),
    );
    expect(planned.outputs.map((output) => output.name)).toEqual(['c', 'b']);
  });

  it('is decoupled where a member is, whatever the configuration says', () => {
    const planned = plan(
      ensemble('a:INT32[4] -> b:INT32[4]', ['stream X=a -> Z=b'], {
        model_transaction_policy: { decoupled: false },
      }),
    );
    expect(planned.isDecoupled).toBe(true);
  });

  it.each<readonly [string, ModelConfig]>([
    ['variable dims', ensemble('a:INT32[7] -> b:INT32[-1]', ['wild X=a -> Z=b'])],
    [
      'a model without batching in a batching ensemble, by the full shape',
      ensemble('a:INT32[4] -> b:INT32[4]', ['unbatched X=a -> Z=b'], { max_batch_size: 4 }),
    ],
    [
      'a member with a larger batch size',
      ensemble('a:INT32[4] -> b:INT32[4]', ['batched X=a -> Z=b'], { max_batch_size: 3 }),
    ],
    [
      'a member with the same batch size',
      ensemble('a:INT32[4] -> b:INT32[4]', ['batched X=a -> Z=b'], { max_batch_size: 4 }),
    ],
    [
      'an optional input that nothing feeds',
      ensemble('a:INT32[4] -> b:INT32[4]', ['choosy X=a -> Z=b']),
    ],
    [
      'an optional input that only an optional input reads',
      ensemble('a:INT32[4] o:INT32[4]? -> b:INT32[4]', ['choosy X=a O=o -> Z=b']),
    ],
    [
      'two tensors of the same stream in one step',
      ensemble('a:INT32[4] -> d:INT32[4]', ['stream X=a -> Z=b W=c', 'add X=b Y=c -> Z=d']),
    ],
  ])('accepts %s', (_, config) => {
    expect(plan(config).name).toBe('e');
  });

  it.each<readonly [string, ModelConfig, string]>([
    [
      'a step whose model is not there',
      ensemble('a:INT32[4] -> b:INT32[4]', ['gone X=a -> Z=c', 'lost X=c -> Z=b']),
      'ensemble e contains models that are not available or ambiguous: gone, lost',
    ],
    [
      'an input that the model does not have',
      ensemble('a:INT32[4] -> b:INT32[4]', ['neg Q=a -> Z=b']),
      'in ensemble e, ensemble tensor a is mapping to non-existing input Q in model neg',
    ],
    [
      'an input that nothing feeds',
      ensemble('a:INT32[4] -> b:INT32[4]', ['add X=a -> Z=b']),
      'in ensemble e, input Y in model add is not mapped to any ensemble tensors',
    ],
    [
      'an output that the model does not have',
      ensemble('a:INT32[4] -> b:INT32[4]', ['neg X=a -> Q=b']),
      'in ensemble e, ensemble tensor b is mapped from non-existing output Q in model neg',
    ],
    [
      'datatypes that differ between ensemble and model',
      ensemble('a:INT32[4] -> b:FP32[4]', ['float X=a -> Z=b']),
      'in ensemble e, ensemble tensor a: inconsistent data type: TYPE_INT32 is inferred from model e while TYPE_FP32 is inferred from model float',
    ],
    [
      'datatypes that differ between two models',
      ensemble('a:INT32[4] -> c:FP32[4]', ['neg X=a -> Z=b', 'float X=b -> Z=c']),
      'in ensemble e, ensemble tensor b: inconsistent data type: TYPE_INT32 is inferred from model neg while TYPE_FP32 is inferred from model float',
    ],
    [
      'dims that differ',
      ensemble('a:INT32[5] -> b:INT32[4]', ['neg X=a -> Z=b']),
      'in ensemble e, ensemble tensor a: inconsistent shape: [5] is inferred from model e while [4] is inferred from model neg',
    ],
    [
      'dims that differ, shown with the batch dimension',
      ensemble('a:INT32[5] -> b:INT32[4]', ['batched X=a -> Z=b'], { max_batch_size: 4 }),
      'in ensemble e, ensemble tensor a: inconsistent shape: [-1,5] is inferred from model e while [-1,4] is inferred from model batched',
    ],
    [
      'ranks that differ',
      ensemble('a:INT32[4,1] -> b:INT32[4]', ['neg X=a -> Z=b']),
      'in ensemble e, ensemble tensor a: inconsistent shape: [4,1] is inferred from model e while [4] is inferred from model neg',
    ],
    [
      'a member with a smaller batch size',
      ensemble('a:INT32[4] -> b:INT32[4]', ['batched X=a -> Z=b'], { max_batch_size: 5 }),
      'ensemble e allows maximum batch size 5, but it contains model batched which only allows maximum batch size to be 4',
    ],
    [
      'an optional input that a step cannot do without',
      ensemble('a:INT32[4]? -> b:INT32[4]', ['neg X=a -> Z=b']),
      'in ensemble e, ensemble tensor a is optional, but input X in model neg is not',
    ],
    [
      'a step that joins a stream and an input of the ensemble',
      ensemble('a:INT32[4] -> d:INT32[4]', ['stream X=a -> Z=b', 'add X=a Y=b -> Z=d']),
      "in ensemble e, step of model 'add' receives inputs originated from different decoupled models",
    ],
    [
      'a step that joins two streams',
      ensemble('a:INT32[4] -> d:INT32[4]', [
        'stream X=a -> Z=b',
        'stream X=a -> Z=c',
        'add X=b Y=c -> Z=d',
      ]),
      "in ensemble e, step of model 'add' receives inputs originated from different decoupled models",
    ],
    [
      'an answer that joins a stream and a single tensor',
      ensemble('a:INT32[4] -> b:INT32[4] c:INT32[4]', ['stream X=a -> Z=b', 'neg X=a -> Z=c']),
      "in ensemble e, step of model 'e' receives inputs originated from different decoupled models",
    ],
  ])('refuses %s', (_, config, message) => {
    expect(() => plan(config)).toThrow(expect.objectContaining({ code: 'INVALID_ARG', message }));
  });
});

describe('neededSteps', () => {
  const planned = plan(
    ensemble('a:INT32[4] -> c:INT32[4] d:INT32[4] f:INT32[4]', [
      'neg X=a -> Z=b',
      'neg X=b -> Z=c',
      'neg X=b -> Z=d',
      'neg X=a -> Z=e',
      'neg X=e -> Z=f',
    ]),
  );

  it.each<readonly [string, readonly string[], readonly number[]]>([
    ['all where nothing is asked for', [], [0, 1, 2, 3, 4]],
    ['those before one output', ['c'], [0, 1]],
    ['another branch alone', ['f'], [3, 4]],
    ['shared steps once', ['c', 'd'], [0, 1, 2]],
  ])('are %s', (_, requested, expected) => {
    const needed = neededSteps(planned, requested);
    expect(needed.flatMap((isNeeded, index) => (isNeeded ? [index] : []))).toEqual(expected);
  });
});
