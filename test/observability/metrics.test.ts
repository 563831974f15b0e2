import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CustomMetrics } from '../../src/observability/custom-metrics.js';
import { Metrics } from '../../src/observability/metrics.js';
import type { MeteredModel } from '../../src/observability/model-metric-families.js';
import { ProcessorUse, readProcessFamilies } from '../../src/observability/process-metrics.js';
import { ModelStatisticsRecorder } from '../../src/observability/statistics-recorder.js';
import { FakeClock } from '../support/fake-clock.js';

const options = {
  isCounterLatencies: true,
  isSummaryLatencies: false,
  summaryQuantiles: [
    [0.5, 0.05],
    [0.9, 0.01],
  ],
} as const;

const timing = {
  requestStartNs: 1e6,
  queueStartNs: 1e6,
  computeStartNs: 1e6 + 10_999,
  computeInputEndNs: 1e6 + 20_000,
  computeOutputStartNs: 1e6 + 30_000,
  computeEndNs: 1e6 + 40_000,
  requestEndNs: 1e6 + 50_000,
};

function createModel(overrides: Partial<MeteredModel> = {}): MeteredModel {
  return {
    labels: { model: 'add_sub', version: '1' },
    recorder: new ModelStatisticsRecorder('add_sub', '1', new FakeClock(), { isSummarized: true }),
    firstResponses: undefined,
    pendingRequests: 0,
    loadSecs: 0.25,
    isCached: false,
    ...overrides,
  };
}

async function render(
  models: readonly MeteredModel[],
  overrides: Partial<ConstructorParameters<typeof Metrics>[1]> = {},
): Promise<readonly string[]> {
  const metrics = new Metrics(() => models, { ...options, ...overrides });
  return (await metrics.render()).split('\n');
}

/** `# HELP` and `# TYPE` lines of the recorded reference server, by the family that they head. */
function readRecordedHeads(): ReadonlyMap<string, readonly string[]> {
  const file = new URL('../conformance/golden/metrics.txt', import.meta.url).pathname;
  const heads = new Map<string, string[]>();
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const name = /^# (?:HELP|TYPE) (\S+)/.exec(line)?.[1];
    if (name === undefined) continue;
    const lines = heads.get(name) ?? [];
    if (!lines.includes(line)) lines.push(line);
    heads.set(name, lines);
  }
  return heads;
}

describe('Metrics', () => {
  it('heads every family that the reference server has too with the same help and type', async () => {
    const models = [createModel(), createModel({ isCached: true })];
    const metrics = new Metrics(() => models, { ...options, isSummaryLatencies: true });
    metrics.addFamilies(() => new ProcessorUse(new FakeClock(), 2000).families());
    const lines = new Set((await metrics.render()).split('\n'));
    const recorded = readRecordedHeads();
    // Pinned memory belongs to GPUs; the totals of the cache are not per model.
    const absent =
      /^nv_pinned|^nv_cache_(num_(entries|evictions|hits|lookups|misses)|util|.*_duration)$/;
    for (const [name, heads] of recorded) {
      if (!absent.test(name)) for (const head of heads) expect(lines).toContain(head);
    }
    expect(recorded.size).toBeGreaterThan(20);
  });

  it('shows all series of a model from its load on', async () => {
    const lines = await render([createModel()]);
    const series = '{model="add_sub",version="1"}';
    for (const name of [
      'nv_inference_request_success',
      'nv_inference_count',
      'nv_inference_exec_count',
      'nv_inference_request_duration_us',
      'nv_inference_queue_duration_us',
      'nv_inference_compute_input_duration_us',
      'nv_inference_compute_infer_duration_us',
      'nv_inference_compute_output_duration_us',
      'nv_inference_pending_request_count',
      'nereid_requests_refused_total',
    ]) {
      expect(lines).toContain(`${name}${series} 0`);
    }
    for (const reason of ['REJECTED', 'CANCELED', 'BACKEND', 'OTHER']) {
      expect(lines).toContain(
        `nv_inference_request_failure{model="add_sub",version="1",reason="${reason}"} 0`,
      );
    }
    expect(lines).toContain(`nv_model_load_duration_secs${series} 0.25`);
  });

  it('counts requests, rows and executions, with durations in truncated microseconds', async () => {
    const model = createModel({ pendingRequests: 7 });
    model.recorder.requestEnded(timing, 'SUCCESS', 4);
    model.recorder.requestEnded(timing, 'REJECTED', 1);
    model.recorder.executed(4, [1, 2, 3, 4]);
    const lines = await render([model]);
    for (const line of [
      'nv_inference_request_success{model="add_sub",version="1"} 1',
      'nv_inference_request_failure{model="add_sub",version="1",reason="REJECTED"} 1',
      'nv_inference_count{model="add_sub",version="1"} 4',
      'nv_inference_exec_count{model="add_sub",version="1"} 1',
      'nv_inference_request_duration_us{model="add_sub",version="1"} 50',
      'nv_inference_queue_duration_us{model="add_sub",version="1"} 10',
      'nv_inference_pending_request_count{model="add_sub",version="1"} 7',
      'nereid_executions_total{model="add_sub",version="1",rows="4"} 1',
      'nereid_request_duration_seconds_bucket{model="add_sub",version="1",le="0.000032"} 0',
      'nereid_request_duration_seconds_bucket{model="add_sub",version="1",le="0.000064"} 1',
      'nereid_request_duration_seconds_bucket{model="add_sub",version="1",le="+Inf"} 1',
      'nereid_request_duration_seconds_count{model="add_sub",version="1"} 1',
    ]) {
      expect(lines).toContain(line);
    }
  });

  it('drops the series of a model that is gone', async () => {
    const models = [createModel(), createModel({ labels: { model: 'other', version: '2' } })];
    const metrics = new Metrics(() => models, options);
    expect(await metrics.render()).toContain('model="other"');
    models.pop();
    expect(await metrics.render()).not.toContain('model="other"');
  });

  it('lets models carry labels of their own', async () => {
    const lines = await render([
      createModel(),
      createModel({ labels: { model: 'tagged', version: '1', _team: 'a"b\\c' } }),
    ]);
    expect(lines).toContain('nv_inference_count{model="tagged",version="1",_team="a\\"b\\\\c"} 0');
    expect(lines).toContain('nv_inference_count{model="add_sub",version="1"} 0');
  });

  it('shows cache series only for models with a cache', async () => {
    const cached = createModel({ labels: { model: 'cached', version: '1' }, isCached: true });
    cached.recorder.cacheHit(5000);
    cached.recorder.cacheMiss(7000);
    const lines = await render([createModel(), cached]);
    expect(lines).toContain('nv_cache_num_hits_per_model{model="cached",version="1"} 1');
    expect(lines).toContain('nv_cache_miss_duration_per_model{model="cached",version="1"} 7');
    expect(lines.filter((line) => /^nv_cache.*add_sub/.test(line))).toEqual([]);
  });

  it('leaves durations out with counter_latencies=false', async () => {
    const lines = await render([createModel()], { isCounterLatencies: false });
    expect(lines.filter((line) => line.includes('_duration_us'))).toEqual([]);
    expect(lines).toContain('nv_inference_count{model="add_sub",version="1"} 0');
  });

  it('shows quantiles with summary_latencies=true', async () => {
    const model = createModel();
    model.recorder.requestEnded(timing, 'SUCCESS', 1);
    const lines = await render([model, createModel({ isCached: true })], {
      isSummaryLatencies: true,
    });
    for (const line of [
      'nv_inference_request_summary_us{model="add_sub",version="1",quantile="0.9"} 50',
      'nv_inference_request_summary_us_sum{model="add_sub",version="1"} 50',
      'nv_inference_request_summary_us_count{model="add_sub",version="1"} 1',
      'nv_cache_hit_summary_per_model{model="add_sub",version="1",quantile="0.5"} NaN',
    ]) {
      expect(lines).toContain(line);
    }
  });

  it('shares one reading among scrapes that overlap', async () => {
    let readings = 0;
    const metrics = new Metrics(() => [], options);
    metrics.addText(() => {
      readings += 1;
      return '';
    });
    await Promise.all([metrics.render(), metrics.render()]);
    expect(readings).toBe(1);
    await metrics.render();
    expect(readings).toBe(2);
  });

  it('shows the metrics that models define', async () => {
    const custom = new CustomMetrics();
    custom.update('a', { type: 'family', name: 'tokens', help: 'Tokens', kind: 'counter' });
    custom.update('a', {
      type: 'value',
      family: 'tokens',
      labels: { kind: 'out' },
      action: 'increment',
      value: 3,
    });
    const metrics = new Metrics(() => [], options);
    metrics.addFamilies(() => custom.families());
    metrics.addFamilies(() => readProcessFamilies());
    const text = await metrics.render();
    expect(text).toContain('# HELP tokens Tokens\n# TYPE tokens counter\ntokens{kind="out"} 3\n');
    expect(text).toMatch(/process_resident_memory_bytes \d{7,}/);
  });
});
