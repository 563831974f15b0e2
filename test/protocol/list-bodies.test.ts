import { describe, expect, it } from 'vitest';
import type { ModelStatistics } from '../../src/observability/statistics.js';
import { ListSerializer } from '../../src/protocol/list-serializer.js';
import {
  modelConfigBody,
  modelMetadataBody,
  RepositoryIndexWriter,
  serverMetadataBody,
} from '../../src/protocol/metadata-json.js';
import { StatisticsWriter } from '../../src/protocol/statistics-wire.js';
import { modelConfig } from '../support/model-configs.js';

function text(body: Uint8Array): string {
  return Buffer.from(body).toString();
}

describe('metadata', () => {
  it('of the server', () => {
    const metadata = { name: 'triton', version: '1', extensions: ['statistics'] };
    expect(text(serverMetadataBody(metadata))).toBe(
      '{"name":"triton","version":"1","extensions":["statistics"]}',
    );
  });

  it('of a model', () => {
    const metadata = {
      name: 'é"',
      versions: ['1', '3'],
      platform: 'onnxruntime_onnx',
      inputs: [{ name: 'IN', datatype: 'FP32', shape: [-1, 4] }],
      outputs: [{ name: 'OUT', datatype: 'BYTES', shape: [-1, 1] }],
    } as const;
    expect(text(modelMetadataBody(metadata))).toBe(
      '{"name":"é\\"","versions":["1","3"],"platform":"onnxruntime_onnx",' +
        '"inputs":[{"name":"IN","datatype":"FP32","shape":[-1,4]}],' +
        '"outputs":[{"name":"OUT","datatype":"BYTES","shape":[-1,1]}]}',
    );
  });

  it('is the configuration itself for a configuration', () => {
    const config = modelConfig({ name: 'x' });
    expect(JSON.parse(text(modelConfigBody(config)))).toEqual(config);
  });
});

describe('RepositoryIndexWriter', () => {
  it('prints what is known of each version', () => {
    const body = new RepositoryIndexWriter().body([
      { name: 'a', version: '1', state: 'READY' },
      { name: 'b' },
      { name: 'c', version: '2', state: 'UNAVAILABLE', reason: 'unloaded' },
    ]);
    expect(text(body)).toBe(
      '[{"name":"a","version":"1","state":"READY"},{"name":"b"},' +
        '{"name":"c","version":"2","state":"UNAVAILABLE","reason":"unloaded"}]',
    );
  });
});

const duration = (count: number): { count: number; ns: number } => ({
  count,
  ns: count * 1e15 + 1,
});

const statistics: ModelStatistics = {
  name: 'm',
  version: '1',
  lastInferenceMs: 1_796_069_466_723,
  inferenceCount: 3,
  executionCount: 1,
  inference: {
    success: duration(3),
    fail: duration(0),
    queue: duration(3),
    compute_input: duration(3),
    compute_infer: duration(3),
    compute_output: duration(3),
    cache_hit: duration(0),
    cache_miss: duration(0),
  },
  responses: new Map([
    [
      '0',
      {
        compute_infer: duration(1),
        compute_output: duration(1),
        success: duration(1),
        fail: duration(0),
        empty_response: duration(0),
        cancel: duration(0),
      },
    ],
  ]),
  batches: [
    {
      batchSize: 3,
      computeInput: duration(1),
      computeInfer: duration(1),
      computeOutput: duration(1),
    },
  ],
};

describe('StatisticsWriter', () => {
  it('prints counters exactly, in the order of the reference server', () => {
    const leaf = (count: number): string =>
      `{"count":${count},"ns":${count === 0 ? '' : `${count}00000000000000`}1}`;
    const body = text(new StatisticsWriter().body([statistics]));
    expect(body).toContain(
      '{"model_stats":[{"name":"m","version":"1","last_inference":1796069466723,',
    );
    expect(body).toContain(`"inference_stats":{"success":${leaf(3)},"fail":{"count":0,"ns":1},`);
    expect(body).toContain(`"response_stats":{"0":{"compute_infer":${leaf(1)},`);
    expect(body).toContain(`"batch_stats":[{"batch_size":3,"compute_input":${leaf(1)},`);
    expect(JSON.parse(body).model_stats[0].inference_count).toBe(3);
  });
});

describe('ListSerializer', () => {
  it('prints the same before and after it compiles', () => {
    const writer = new StatisticsWriter();
    const before = text(writer.body([statistics]));
    for (let times = 0; times < 11; times++) writer.body(Array(1000).fill(statistics));
    expect(text(writer.body([statistics]))).toBe(before);
    const index = new RepositoryIndexWriter();
    const rows = [{ name: 'é"\n', version: '1', state: 'READY' } as const, { name: 'b' }];
    const first = text(index.body(rows));
    index.body(Array(10_001).fill(rows[1]));
    expect(text(index.body(rows))).toBe(first);
  });

  it('compiles only after so many rows', () => {
    // The compiled form prints only what the schema names, which tells the two apart.
    const schema = {
      type: 'array',
      items: { type: 'object', properties: { a: { type: 'integer' } } },
    } as const;
    const serializer = new ListSerializer<readonly object[]>(schema, 3);
    const rows = [{ a: 1, b: 2 }];
    const printed = Array.from({ length: 6 }, () => serializer.serialize(rows, 1));
    expect(printed.map((line) => line.includes('b'))).toEqual([
      true,
      true,
      true,
      true,
      false,
      false,
    ]);
  });
});
