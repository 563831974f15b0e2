import { describe, expect, it } from 'vitest';
import { CustomMetrics } from '../../src/observability/custom-metrics.js';

function createMetrics(kind: 'counter' | 'gauge' | 'histogram'): CustomMetrics {
  const metrics = new CustomMetrics();
  metrics.update('m:1', { type: 'family', name: 'f', help: 'h', kind });
  return metrics;
}

function change(
  metrics: CustomMetrics,
  action: 'increment' | 'set' | 'observe',
  value: number,
  owner = 'm:1',
): void {
  metrics.update(owner, { type: 'value', family: 'f', labels: { a: 'b' }, action, value });
}

function readSamples(metrics: CustomMetrics) {
  return metrics
    .families()
    .flatMap((family) => [...family.samples()])
    .map(({ labels, value }) => ({ labels, value }));
}

describe('CustomMetrics', () => {
  it('adds up counters and sets gauges', () => {
    const counter = createMetrics('counter');
    change(counter, 'increment', 2);
    change(counter, 'increment', 0.5);
    expect(readSamples(counter)).toEqual([{ labels: { a: 'b' }, value: 2.5 }]);
    const gauge = createMetrics('gauge');
    change(gauge, 'set', 5);
    change(gauge, 'increment', -7);
    expect(readSamples(gauge)).toEqual([{ labels: { a: 'b' }, value: -2 }]);
  });

  it('counts observations in inclusive, cumulative buckets', () => {
    const histogram = createMetrics('histogram');
    histogram.update('m:1', { type: 'series', family: 'f', labels: { a: 'b' }, buckets: [1, 10] });
    for (const value of [1, 2, 10, 11]) change(histogram, 'observe', value);
    expect(histogram.families()).toEqual([]);
    expect(histogram.formatHistograms().split('\n')).toEqual([
      '# HELP f h',
      '# TYPE f histogram',
      'f_bucket{a="b",le="1"} 1',
      'f_bucket{a="b",le="10"} 3',
      'f_bucket{a="b",le="+Inf"} 4',
      'f_sum{a="b"} 24',
      'f_count{a="b"} 4',
      '',
    ]);
  });

  it('forgets a series with its last owner', () => {
    const metrics = createMetrics('counter');
    change(metrics, 'increment', 1, 'm:1');
    metrics.update('m:2', { type: 'series', family: 'f', labels: { a: 'b' }, buckets: [] });
    metrics.removeOwner('m:1');
    expect(readSamples(metrics)).toHaveLength(1);
    metrics.removeOwner('m:2');
    expect(readSamples(metrics)).toHaveLength(0);
  });

  it.each([
    ['counter', 'increment', -1],
    ['counter', 'set', 1],
    ['gauge', 'observe', 1],
    ['histogram', 'increment', 1],
    ['gauge', 'set', Number.NaN],
  ] as const)('refuses what a %s cannot do: %s %d', (kind, action, value) => {
    const metrics = createMetrics(kind);
    expect(() => change(metrics, action, value)).toThrow(/metric family 'f'/);
  });

  it.each(['nv_mine', 'nereid_mine', '1a', 'a b', ''])('refuses the family name %j', (name) => {
    const family = { type: 'family', name, help: '', kind: 'gauge' } as const;
    expect(() => new CustomMetrics().update('m', family)).toThrow('invalid metric family name');
  });

  it('refuses one family of two kinds, unknown families and bad labels', () => {
    const metrics = createMetrics('gauge');
    const again = { type: 'family', name: 'f', help: '', kind: 'counter' } as const;
    expect(() => metrics.update('n', again)).toThrow("metric family 'f' exists as a gauge");
    const unknown = { type: 'series', family: 'g', labels: {}, buckets: [] } as const;
    expect(() => metrics.update('n', unknown)).toThrow("unknown metric family 'g'");
    const label = { type: 'series', family: 'f', labels: { 'a-b': '' }, buckets: [] } as const;
    expect(() => metrics.update('n', label)).toThrow("invalid metric label name 'a-b'");
  });

  it('bounds the number of series', () => {
    const metrics = createMetrics('gauge');
    const add = (index: number): void =>
      metrics.update('m', { type: 'series', family: 'f', labels: { i: `${index}` }, buckets: [] });
    for (let index = 0; index < 10_000; index++) add(index);
    expect(() => add(10_000)).toThrow('there are 10000 series already');
    metrics.removeOwner('m');
    createMetrics('gauge');
    metrics.update('m', { type: 'family', name: 'f', help: 'h', kind: 'gauge' });
    expect(() => add(0)).not.toThrow();
  });
});
