import { describe, expect, it } from 'vitest';
import { formatResult, median, medianReport } from '../../bench/report.js';

const load = { requestsPerSec: 100, p50Ms: 1, p95Ms: 2, p99Ms: 3, errors: 1 };

describe('median', () => {
  it.each([
    [[3], 3],
    [[3, 1, 2], 2],
    [[4, 1, 3, 2], 2.5],
  ])('of %j is %d', (values, expected) => {
    expect(median(values)).toBe(expected);
  });
});

describe('medianReport', () => {
  it('takes the median of each number and the sum of the errors', () => {
    const reports = [load, { ...load, requestsPerSec: 300 }, { ...load, requestsPerSec: 200 }];
    expect(medianReport(reports)).toEqual({ ...load, requestsPerSec: 200, errors: 3 });
  });
});

describe('formatResult', () => {
  it('shows a load next to its two limits', () => {
    const text = formatResult({
      machine: {
        date: '2026-01-02',
        commit: undefined,
        node: '20.0.0',
        processor: 'p',
        cores: 2,
      },
      client: 'wrk',
      secondsEach: 5,
      rounds: 1,
      serverStartMs: 123.4,
      measurements: [
        {
          scenario: 'add',
          concurrency: 64,
          server: load,
          averageBatch: 4.25,
          echo: { ...load, requestsPerSec: 200 },
          serverSpread: [90, 110],
        },
      ],
      onnxLoops: {
        add: [
          { batchSize: 1, rowsPerSec: 50 },
          { batchSize: 8, rowsPerSec: 125 },
        ],
      },
    });
    const row = text.split('\n').find((line) => line.startsWith('| add ')) ?? '';
    expect(row.split('|').map((cell) => cell.trim())).toEqual([
      '',
      'add',
      '64',
      '100',
      '90-110',
      '1.00',
      '2.00',
      '3.00',
      '4.3',
      '1',
      '200',
      '50 %',
      '80 %',
      '',
    ]);
    expect(text).toContain('server ready after 123 ms');
  });
});
