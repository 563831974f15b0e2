import { describe, expect, it } from 'vitest';
import type { ModelConfig } from '../src/model-config/model-config.js';
import {
  describeEmptiness,
  exampleCurl,
  formatStartupTable,
  startupRows,
} from '../src/startup-report.js';

function model(name: string, dims: readonly number[], dataType: string, batch = 0): ModelConfig {
  const tensor = { name: 'X', data_type: dataType, dims };
  // Only what the report reads.
  return {
    name,
    max_batch_size: batch,
    input: [tensor],
    output: [tensor],
  } as unknown as ModelConfig;
}

describe('start-up report', () => {
  it('names the repositories that hold no model, and what a model would look like', () => {
    const text = describeEmptiness(['models', 's3://bucket/modles']);
    expect(text).toMatch(
      /^no models in 'models' and 's3:\/\/bucket\/modles': .*NAME\/1\/model\.onnx/,
    );
  });

  it('shows why a model is not ready, in one line each', () => {
    const rows = startupRows(
      [
        { name: 'a', version: '1', state: 'READY' },
        { name: 'b', version: '2', state: 'UNAVAILABLE', reason: 'Internal: bad\n\nAt:\n  x\n' },
        { name: 'c' },
        { name: 'd' },
      ],
      new Map([['c', 'line 3, column 1: unknown field']]),
    );
    expect(rows.map(({ version, status }) => [version, status])).toEqual([
      ['1', 'READY'],
      ['2', 'UNAVAILABLE: Internal: bad At: x'],
      ['-', 'UNAVAILABLE: line 3, column 1: unknown field'],
      ['-', 'not loaded'],
    ]);
    expect(formatStartupTable(rows.slice(0, 1))).toBe(
      [
        '+-------+---------+--------+',
        '| Model | Version | Status |',
        '+-------+---------+--------+',
        '| a     | 1       | READY  |',
        '+-------+---------+--------+',
      ].join('\n'),
    );
  });

  it('proposes a request to the smallest model that JSON can reach', () => {
    const models = [
      model('half', [1], 'TYPE_FP16'),
      model('wide', [16], 'TYPE_FP32', 8),
      model('words', [-1], 'TYPE_STRING', 8),
      model('huge', [3, 224, 224], 'TYPE_FP32'),
    ];
    expect(exampleCurl(models, '127.0.0.1:8000')).toBe(
      `curl -s http://127.0.0.1:8000/v2/models/words/infer -d '{"inputs":[{"name":"X","datatype":"BYTES","shape":[1,1],"data":["text"]}]}'`,
    );
    expect(exampleCurl([model('huge', [3, 224, 224], 'TYPE_FP32')], 'h')).toBeUndefined();
  });
});
