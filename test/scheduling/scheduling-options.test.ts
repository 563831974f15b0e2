import { describe, expect, it } from 'vitest';
import type {
  ModelConfig,
  ModelDynamicBatching,
  ModelQueuePolicy,
} from '../../src/model-config/model-config.js';
import { batchKeyOf } from '../../src/scheduling/batch-key.js';
import {
  batchSizeOptions,
  dynamicBatchingOptions,
} from '../../src/scheduling/scheduling-options.js';
import { modelConfig, modelInput } from '../support/model-configs.js';
import { int32Tensor } from '../support/pending-requests.js';

function configWith(
  batching: Partial<ModelDynamicBatching>,
  fields: Partial<ModelConfig> = {},
): ModelConfig {
  return modelConfig({
    max_batch_size: 8,
    dynamic_batching: {
      preferred_batch_size: [],
      max_queue_delay_microseconds: 0,
      preserve_ordering: false,
      priority_levels: 0,
      default_priority_level: 0,
      priority_queue_policy: {},
      ...batching,
    },
    ...fields,
  });
}

const policy = (fields: Partial<ModelQueuePolicy>): ModelQueuePolicy => ({
  timeout_action: 'REJECT',
  default_timeout_microseconds: 0,
  allow_timeout_override: false,
  max_queue_size: 0,
  ...fields,
});

describe('batchSizeOptions', () => {
  it.each<readonly [string, number, readonly number[], readonly number[]]>([
    ['the maximum where none is preferred', 8, [], [8]],
    ['in ascending order', 8, [6, 2, 4], [2, 4, 6]],
    ['each once', 8, [4, 4], [4]],
    ['without what cannot be', 8, [0, 8, 9], [8]],
  ])('prefers %s', (_, max, given, expected) => {
    expect(batchSizeOptions(max, given, 5)).toEqual({
      batchSizeMax: max,
      preferredBatchSizes: expected,
      queueDelayNs: 5000,
    });
  });
});

describe('dynamicBatchingOptions', () => {
  it('has one level without limits by default, and is frozen', () => {
    const options = dynamicBatchingOptions(configWith({}));
    expect(options).toEqual({
      modelName: 'm',
      batch: { batchSizeMax: 8, preferredBatchSizes: [8], queueDelayNs: 0 },
      queue: {
        levels: [
          {
            timeoutAction: 'REJECT',
            defaultTimeoutUs: 0,
            allowsTimeoutOverride: false,
            queueSizeMax: 0,
          },
        ],
        defaultLevel: 0,
      },
      preservesOrdering: false,
      shapedInputs: [],
      optionalInputs: [],
      latencyTargetNs: 0,
    });
    expect(Object.isFrozen(options)).toBe(true);
  });

  it('batches one row for a model without a batch dimension, for the sake of its queue policy', () => {
    const options = dynamicBatchingOptions(configWith({}, { max_batch_size: 0 }));
    expect(options.batch.batchSizeMax).toBe(1);
  });

  it('replaces the default policy of a level as a whole', () => {
    const { queue } = dynamicBatchingOptions(
      configWith({
        priority_levels: 2,
        default_priority_level: 2,
        default_queue_policy: policy({ max_queue_size: 5, default_timeout_microseconds: 7 }),
        priority_queue_policy: {
          '1': policy({ timeout_action: 'DELAY', allow_timeout_override: true }),
        },
      }),
    );
    expect(queue.levels).toEqual([
      { timeoutAction: 'DELAY', defaultTimeoutUs: 0, allowsTimeoutOverride: true, queueSizeMax: 0 },
      {
        timeoutAction: 'REJECT',
        defaultTimeoutUs: 7,
        allowsTimeoutOverride: false,
        queueSizeMax: 5,
      },
    ]);
    expect(queue.defaultLevel).toBe(1);
  });

  it.each<readonly [string, number]>([
    ['25', 25e6],
    ['0.5', 0.5e6],
    ['0', 0],
    ['-1', 0],
    ['soon', 0],
    ['', 0],
    ['Infinity', 0],
  ])('reads latency_target_ms %s', (text, expected) => {
    const parameters = { latency_target_ms: { string_value: text } };
    expect(dynamicBatchingOptions(configWith({}, { parameters })).latencyTargetNs).toBe(expected);
  });

  it('compares inputs that are variable and not ragged, and the presence of optional ones', () => {
    const input = [
      modelInput('fixed', 'TYPE_INT32', [4]),
      modelInput('variable', 'TYPE_INT32', [-1, 4]),
      modelInput('ragged', 'TYPE_INT32', [-1], { allow_ragged_batch: true }),
      modelInput('reshaped', 'TYPE_INT32', [4], { reshape: { shape: [-1] } }),
      modelInput('optional', 'TYPE_INT32', [4], { optional: true }),
    ];
    const options = dynamicBatchingOptions(configWith({}, { input }));
    expect(options.shapedInputs).toEqual(['variable', 'reshaped']);
    expect(options.optionalInputs).toEqual(['optional']);
  });
});

describe('batchKeyOf', () => {
  const keyOf = batchKeyOf({ shapedInputs: ['A', 'B'], optionalInputs: ['C'] });
  const a = int32Tensor('A', [1, 2], [1, 2]);
  const b = int32Tensor('B', [1, 2], [1, 2]);
  const c = int32Tensor('C', [1, 2], [1, 2]);

  it('is the same for the same shapes, whatever rows, order and values', () => {
    expect(keyOf([a, b])).toBe(
      keyOf([int32Tensor('B', [2, 2], [9, 9, 9, 9]), int32Tensor('A', [2, 2], [0, 0, 0, 0])]),
    );
  });

  it.each([
    ['another shape', [a, int32Tensor('B', [1, 1], [1])]],
    ['another rank', [a, int32Tensor('B', [1, 2, 1], [1, 2])]],
    ['shapes exchanged', [int32Tensor('A', [1, 1], [1]), b]],
    ['an optional input', [a, b, c]],
    ['a missing input', [a]],
  ])('differs for %s', (_, inputs) => {
    expect(keyOf(inputs)).not.toBe(keyOf([a, b]));
  });

  it('does not run dimensions together', () => {
    const key = batchKeyOf({ shapedInputs: ['A', 'B'], optionalInputs: [] });
    const shaped = (name: string, shape: readonly number[]) => int32Tensor(name, shape, []);
    expect(key([shaped('A', [1, 1, 2]), shaped('B', [1, 3])])).not.toBe(
      key([shaped('A', [1, 1]), shaped('B', [1, 2, 3])]),
    );
    expect(key([shaped('A', [1, 12]), shaped('B', [1])])).not.toBe(
      key([shaped('A', [1, 1]), shaped('B', [1, 2])]),
    );
  });
});
