import { describe, expect, it } from 'vitest';
import { RaggedBatch } from '../../src/execution/ragged-batch.js';
import type { Tensor } from '../../src/inference/tensor.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import { modelConfig, modelInput, modelOutput } from '../support/model-configs.js';
import { int32Tensor } from '../support/pending-requests.js';

function raggedOf(fields: Partial<ModelConfig>): RaggedBatch {
  const batch = RaggedBatch.of(
    modelConfig({
      max_batch_size: 8,
      input: [
        modelInput('X', 'TYPE_INT32', [-1], { allow_ragged_batch: true }),
        modelInput('P', 'TYPE_INT32', [1]),
      ],
      output: [modelOutput('Y', 'TYPE_INT32', [-1]), modelOutput('Q', 'TYPE_INT32', [1])],
      ...fields,
    }),
  );
  if (batch === undefined) throw new Error('not ragged');
  return batch;
}

const requests = [
  [int32Tensor('X', [1, 2], [1, 2]), int32Tensor('P', [1, 1], [10])],
  [int32Tensor('P', [2, 1], [20, 21]), int32Tensor('X', [2, 1], [3, 4])],
  [int32Tensor('X', [1, 4], [5, 6, 7, 8]), int32Tensor('P', [1, 1], [30])],
];

const plain = ({ name, datatype, shape, bytes }: Tensor) => ({
  name,
  datatype,
  shape,
  values: [
    ...(datatype === 'FP32'
      ? new Float32Array(bytes.slice().buffer)
      : new Int32Array(bytes.slice().buffer)),
  ],
});

describe('RaggedBatch', () => {
  it.each<readonly [string, Partial<ModelConfig>]>([
    ['has nothing ragged', { input: [modelInput('X', 'TYPE_INT32', [-1])] }],
    ['does not batch', { max_batch_size: 0 }],
  ])('is not needed for a model that %s', (_, fields) => {
    const input = [modelInput('X', 'TYPE_INT32', [-1], { allow_ragged_batch: true })];
    expect(RaggedBatch.of(modelConfig({ max_batch_size: 8, input, ...fields }))).toBeUndefined();
  });

  it('lays ragged inputs end to end and joins the others by rows', () => {
    expect(raggedOf({}).merge(requests).map(plain)).toEqual([
      { name: 'X', datatype: 'INT32', shape: [8], values: [1, 2, 3, 4, 5, 6, 7, 8] },
      { name: 'P', datatype: 'INT32', shape: [4, 1], values: [10, 20, 21, 30] },
    ]);
  });

  it('flattens the ragged input of a single request too', () => {
    expect(raggedOf({}).merge(requests.slice(2)).map(plain)[0]?.shape).toEqual([4]);
  });

  it.each<readonly [string, readonly number[], readonly number[]]>([
    ['BATCH_ELEMENT_COUNT', [3], [2, 2, 4]],
    ['BATCH_ACCUMULATED_ELEMENT_COUNT', [3], [2, 4, 8]],
    ['BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO', [4], [0, 2, 4, 8]],
    ['BATCH_MAX_ELEMENT_COUNT_AS_SHAPE', [4], [0, 0, 0, 0]],
    ['BATCH_ITEM_SHAPE', [4, 1], [2, 1, 1, 4]],
    ['BATCH_ITEM_SHAPE_FLATTEN', [4], [2, 1, 1, 4]],
  ])('makes %s', (kind, shape, values) => {
    for (const type of ['INT32', 'FP32']) {
      const merged = raggedOf({
        batch_input: [{ kind, target_name: ['B'], data_type: `TYPE_${type}`, source_input: ['X'] }],
      }).merge(requests);
      expect(merged.slice(2).map(plain)).toEqual([{ name: 'B', datatype: type, shape, values }]);
    }
  });

  it('gives every target of a batch input', () => {
    const merged = raggedOf({
      batch_input: [
        {
          kind: 'BATCH_ELEMENT_COUNT',
          target_name: ['B', 'C'],
          data_type: 'TYPE_INT32',
          source_input: ['X'],
        },
      ],
    }).merge(requests);
    expect(merged.map(({ name }) => name)).toEqual(['X', 'P', 'B', 'C']);
  });

  const scatters = {
    batch_output: [
      { kind: 'BATCH_SCATTER_WITH_INPUT_SHAPE', target_name: ['Y'], source_input: ['X'] },
    ],
  };

  it('gives scattered outputs the shapes of their source and cuts the others by rows', () => {
    const outputs = [
      int32Tensor('Y', [8], [1, 2, 3, 4, 5, 6, 7, 8]),
      int32Tensor('Q', [4, 1], [10, 20, 21, 30]),
    ];
    const split = raggedOf(scatters).split(outputs, requests, "model 'm'");
    expect(split.map((own) => own.map(plain))).toEqual([
      [
        { name: 'Y', datatype: 'INT32', shape: [1, 2], values: [1, 2] },
        { name: 'Q', datatype: 'INT32', shape: [1, 1], values: [10] },
      ],
      [
        { name: 'Y', datatype: 'INT32', shape: [2, 1], values: [3, 4] },
        { name: 'Q', datatype: 'INT32', shape: [2, 1], values: [20, 21] },
      ],
      [
        { name: 'Y', datatype: 'INT32', shape: [1, 4], values: [5, 6, 7, 8] },
        { name: 'Q', datatype: 'INT32', shape: [1, 1], values: [30] },
      ],
    ]);
  });

  it('refuses an output whose elements are not those of its source', () => {
    expect(() =>
      raggedOf(scatters).split([int32Tensor('Y', [7], [1, 2, 3, 4, 5, 6, 7])], requests, 'label'),
    ).toThrow("label: output 'Y' of INT32 [7] can't be scattered over the 8 elements of input 'X'");
  });

  it('refuses an output that is cut by rows and has not as many', () => {
    expect(() =>
      raggedOf({}).split([int32Tensor('Q', [3, 1], [1, 2, 3])], requests, 'label'),
    ).toThrow('label');
  });
});
