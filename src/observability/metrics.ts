import type { Registry } from 'prom-client';
import type { MetricFamily } from './exposition.js';
import {
  formatModelDistributions,
  type MeteredModel,
  type ModelMetricOptions,
  readModelFamilies,
} from './model-metric-families.js';

type PromClient = typeof import('prom-client');

/** Content type of {@link Metrics.render}. */
export const metricsContentType = 'text/plain; charset=utf-8';

/**
 * What `/metrics` answers. Nothing here runs on the path of a request: families are read, and
 * prom-client's registry is filled, when somebody asks. A fresh registry each time lets series
 * vanish with their models and lets models bring labels of their own.
 */
export class Metrics {
  readonly #models: () => Iterable<MeteredModel>;
  readonly #options: ModelMetricOptions;
  readonly #sources: (() => Iterable<MetricFamily>)[] = [];
  readonly #texts: (() => string)[] = [];
  #rendering: Promise<string> | undefined;

  /** `models` lists the versions that are loaded now. */
  constructor(models: () => Iterable<MeteredModel>, options: ModelMetricOptions) {
    this.#models = models;
    this.#options = options;
  }

  /** Adds families that are read at each scrape. */
  addFamilies(source: () => Iterable<MetricFamily>): void {
    this.#sources.push(source);
  }

  /** Adds ready-made Prometheus text: whole families, each line ended. */
  addText(source: () => string): void {
    this.#texts.push(source);
  }

  /** Prometheus text. Scrapes that overlap share one reading. */
  render(): Promise<string> {
    this.#rendering ??= this.#render().finally(() => {
      this.#rendering = undefined;
    });
    return this.#rendering;
  }

  async #render(): Promise<string> {
    // Its 90 files take 40 ms and 3 MB: only servers that somebody scrapes pay for them.
    const client = await import('prom-client');
    const models = [...this.#models()];
    const registry = new client.Registry();
    for (const family of readModelFamilies(models, this.#options)) {
      register(client, registry, family);
    }
    for (const source of this.#sources) {
      for (const family of source()) register(client, registry, family);
    }
    const text = await registry.metrics();
    const rest = this.#texts.map((source) => source()).join('');
    return `${text}${formatModelDistributions(models, this.#options)}${rest}`;
  }
}

/** A family without series is left out: Prometheus reads nothing from a bare heading. */
function register({ Counter, Gauge }: PromClient, registry: Registry, family: MetricFamily): void {
  const samples = [...family.samples()];
  if (samples.length === 0) return;
  const labelNames = [...new Set(samples.flatMap(({ labels }) => Object.keys(labels)))];
  const configuration = { name: family.name, help: family.help, labelNames, registers: [registry] };
  const metric = family.kind === 'counter' ? new Counter(configuration) : new Gauge(configuration);
  for (const { labels, value } of samples) metric.inc(labels, value);
}
