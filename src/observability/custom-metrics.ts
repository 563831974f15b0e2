import { invalidArg } from '../errors.js';
import { formatComposite, type Labels, type MetricFamily } from './exposition.js';

/** What a model asks for; the shape of `MetricUpdate` in the execution messages. */
export type CustomMetricUpdate =
  | {
      readonly type: 'family';
      readonly name: string;
      readonly help: string;
      readonly kind: 'counter' | 'gauge' | 'histogram';
    }
  | {
      readonly type: 'series';
      readonly family: string;
      readonly labels: Labels;
      /** Upper bounds of a histogram's buckets, ascending; empty for other kinds. */
      readonly buckets: readonly number[];
    }
  | {
      readonly type: 'value';
      readonly family: string;
      readonly labels: Labels;
      readonly action: 'increment' | 'set' | 'observe';
      readonly value: number;
    };

interface CustomFamily {
  readonly name: string;
  readonly help: string;
  readonly kind: 'counter' | 'gauge' | 'histogram';
  /** Key of the labels → series. */
  readonly series: Map<string, CustomSeries>;
}

interface CustomSeries {
  readonly labels: Labels;
  readonly owners: Set<string>;
  readonly buckets: readonly number[];
  /** Observations by bucket, not cumulative; the last element counts those above all bounds. */
  readonly counts: number[];
  value: number;
  count: number;
}

/** Series of all custom families together: models cannot fill the server's memory with labels. */
const seriesMax = 10_000;
const nameForm = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const labelForm = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/**
 * Metrics that models define for themselves. They belong to their owner (a model version) and
 * vanish with it; instances of one owner, and owners of one family, share series of equal labels.
 */
export class CustomMetrics {
  readonly #families = new Map<string, CustomFamily>();
  #seriesCount = 0;

  /** Throws INVALID_ARG where the update makes no sense; nothing has changed then. */
  update(owner: string, update: CustomMetricUpdate): void {
    switch (update.type) {
      case 'family':
        this.#define(update.name, update.help, update.kind);
        return;
      case 'series':
        this.#addSeries(owner, this.#family(update.family), update.labels, update.buckets);
        return;
      case 'value': {
        const family = this.#family(update.family);
        const series =
          family.series.get(toKey(update.labels)) ??
          this.#addSeries(owner, family, update.labels, []);
        apply(family, series, update.action, update.value);
      }
    }
  }

  /** Forgets the series of `owner` that nobody else has. */
  removeOwner(owner: string): void {
    for (const family of this.#families.values()) {
      for (const [key, series] of family.series) {
        if (!series.owners.delete(owner) || series.owners.size > 0) continue;
        family.series.delete(key);
        this.#seriesCount -= 1;
      }
      if (family.series.size === 0) this.#families.delete(family.name);
    }
  }

  /** Counters and gauges; histograms are in {@link formatHistograms}. */
  families(): readonly MetricFamily[] {
    const families: MetricFamily[] = [];
    for (const { name, help, kind, series } of this.#families.values()) {
      if (kind !== 'histogram') families.push({ name, help, kind, samples: () => series.values() });
    }
    return families;
  }

  formatHistograms(): string {
    return [...this.#families.values()]
      .filter(({ kind }) => kind === 'histogram')
      .map(({ name, help, series }) =>
        formatComposite(
          name,
          help.replaceAll('\n', ' '),
          'histogram',
          [...series.values()].map(toComposite),
        ),
      )
      .join('');
  }

  #define(name: string, help: string, kind: CustomFamily['kind']): void {
    if (!nameForm.test(name) || name.startsWith('nv_') || name.startsWith('nereid_')) {
      throw invalidArg(`invalid metric family name '${name}'`);
    }
    const existing = this.#families.get(name);
    if (existing === undefined) {
      this.#families.set(name, { name, help, kind, series: new Map() });
    } else if (existing.kind !== kind) {
      throw invalidArg(`metric family '${name}' exists as a ${existing.kind}`);
    }
  }

  #family(name: string): CustomFamily {
    const family = this.#families.get(name);
    if (family === undefined) throw invalidArg(`unknown metric family '${name}'`);
    return family;
  }

  #addSeries(
    owner: string,
    family: CustomFamily,
    labels: Labels,
    buckets: readonly number[],
  ): CustomSeries {
    const key = toKey(labels);
    const existing = family.series.get(key);
    if (existing !== undefined) {
      existing.owners.add(owner);
      return existing;
    }
    for (const name of Object.keys(labels)) {
      if (!labelForm.test(name)) throw invalidArg(`invalid metric label name '${name}'`);
    }
    if (this.#seriesCount >= seriesMax) {
      throw invalidArg(`metric family '${family.name}': there are ${seriesMax} series already`);
    }
    const series: CustomSeries = {
      labels,
      owners: new Set([owner]),
      buckets,
      counts: new Array<number>(buckets.length + 1).fill(0),
      value: 0,
      count: 0,
    };
    family.series.set(key, series);
    this.#seriesCount += 1;
    return series;
  }
}

/** `value` is a counter's or gauge's value, or the sum of a histogram's observations. */
function apply(
  family: CustomFamily,
  series: CustomSeries,
  action: 'increment' | 'set' | 'observe',
  value: number,
): void {
  if (!Number.isFinite(value)) {
    throw invalidArg(`metric family '${family.name}': value ${value} is not a finite number`);
  }
  const isAllowed =
    family.kind === 'histogram'
      ? action === 'observe'
      : family.kind === 'counter'
        ? action === 'increment' && value >= 0
        : action !== 'observe';
  if (!isAllowed) {
    throw invalidArg(
      `metric family '${family.name}' is a ${family.kind}: cannot ${action} ${value}`,
    );
  }
  if (action === 'observe') {
    const found = series.buckets.findIndex((bound) => value <= bound);
    const index = found < 0 ? series.buckets.length : found;
    series.counts[index] = (series.counts[index] ?? 0) + 1;
    series.count += 1;
  }
  series.value = action === 'set' ? value : series.value + value;
}

function toComposite({ labels, buckets, counts, value, count }: CustomSeries) {
  let cumulative = 0;
  const points = buckets.map((bound, index): readonly [string, number] => {
    cumulative += counts[index] ?? 0;
    return [String(bound), cumulative];
  });
  const last: readonly [string, number] = ['+Inf', count];
  return { labels, points: [...points, last], sum: value, count };
}

function toKey(labels: Labels): string {
  return JSON.stringify(Object.entries(labels).sort(([left], [right]) => (left < right ? -1 : 1)));
}
