import { describe, expect, it } from 'vitest';
import type { SweepPoint } from '../../../bench/peers/sweep.js';
import { formatPoints, mergePoints, plotPoints } from '../../../bench/peers/sweep-report.js';

function point(server: string, kind: 'closed' | 'open', value: number, rate: number): SweepPoint {
  return {
    contest: 'c',
    server,
    load: { kind, value },
    client: 'wrk',
    report: { requestsPerSec: rate, p50Ms: 1, p95Ms: 2, p99Ms: 3, errors: 0 },
    requestsPerSec: { median: rate, min: rate - 1, max: rate + 1 },
    p99Ms: { median: 3, min: 2.5, max: 4 },
  };
}

describe('mergePoints', () => {
  it('replaces a server under the same load and keeps the rest, in order of load', () => {
    const older = [
      point('a', 'closed', 4, 10),
      point('a', 'closed', 1, 20),
      point('a', 'open', 4, 5),
    ];
    const merged = mergePoints(older, [point('a', 'closed', 4, 99), point('b', 'closed', 64, 7)]);
    expect(
      merged.map(({ server, load, report }) => [
        server,
        load.kind,
        load.value,
        report.requestsPerSec,
      ]),
    ).toEqual([
      ['a', 'closed', 1, 20],
      ['a', 'open', 4, 5],
      ['a', 'closed', 4, 99],
      ['b', 'closed', 64, 7],
    ]);
  });
});

describe('formatPoints', () => {
  it('shows the spread beside the median', () => {
    const [, , row] = formatPoints([point('a', 'closed', 4, 10)]).split('\n');
    expect(row?.split('|').map((cell) => cell.trim())).toEqual([
      '',
      'a',
      '4 callers',
      '10',
      '9-11',
      '1.00',
      '3.00',
      '2.50-4.00',
      '0',
      '',
    ]);
  });
});

describe('plotPoints', () => {
  it('draws only the loads of one kind, and nothing without them', () => {
    const points = [point('a', 'closed', 4, 10), point('b', 'closed', 4, 30)];
    const picture = plotPoints('t', 'closed', points) ?? '';
    expect(picture.match(/<polyline/g)).toHaveLength(2);
    expect(plotPoints('t', 'open', points)).toBeUndefined();
  });
});
