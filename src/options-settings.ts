import { OptionValueError, parseBoolean, parseInteger } from './options-row.js';
import {
  type RestrictedCategory,
  type Restriction,
  restrictedCategories,
} from './protocol/restricted-access.js';

/** `owner,name=value`: one setting of a backend, cache, trace mode or metric family. */
export interface OwnedSetting {
  /** '' for a setting that belongs to nobody in particular. */
  readonly owner: string;
  readonly name: string;
  readonly value: string;
}

/** Parses `[owner,]name=value`; the value may hold commas and equal signs. */
export function parseOwnedSetting(text: string): OwnedSetting {
  const equals = text.indexOf('=');
  if (equals < 0) {
    throw new OptionValueError(`expected [<owner>,]<setting>=<value>, got: ${text}`);
  }
  const left = text.slice(0, equals);
  const comma = left.indexOf(',');
  const name = left.slice(comma + 1);
  if (name === '') throw new OptionValueError(`expected a setting before '=', got: ${text}`);
  return {
    owner: comma < 0 ? '' : left.slice(0, comma),
    name,
    value: text.slice(equals + 1),
  };
}

/** Callers of `category` must send `header` with exactly `value`. */
export interface AccessRestriction extends Restriction {
  readonly category: RestrictedCategory;
}

/** Parses `api1,api2:key=value`. `noun` is what a message calls them: `api` or `protocol`. */
export function parseAccessRestrictions(text: string, noun: string): readonly AccessRestriction[] {
  const colon = text.indexOf(':');
  const equals = text.indexOf('=', colon + 1);
  const header = text.slice(colon + 1, equals);
  if (colon <= 0 || equals < 0 || header === '') {
    throw new OptionValueError(`expected <${noun}s>:<key>=<value>, got: ${text.slice(0, colon)}`);
  }
  const value = text.slice(equals + 1);
  return text
    .slice(0, colon)
    .split(',')
    .map((name) => {
      const category = restrictedCategories.find((candidate) => candidate === name);
      if (category === undefined) {
        throw new OptionValueError(
          `unknown restricted ${noun} '${name}', allowed: ${restrictedCategories.join(', ')}`,
        );
      }
      return { category, header, value };
    });
}

/** Joins repeated restrictions; a category may be closed only once. */
export function joinAccessRestrictions(
  groups: readonly (readonly AccessRestriction[])[],
  noun: string,
): ReadonlyMap<RestrictedCategory, AccessRestriction> {
  const joined = new Map<RestrictedCategory, AccessRestriction>();
  for (const restriction of groups.flat()) {
    if (joined.has(restriction.category)) {
      throw new OptionValueError(
        `restricted ${noun} '${restriction.category}' can not be specified in multiple config groups`,
      );
    }
    joined.set(restriction.category, restriction);
  }
  return joined;
}

/** Resources that rate-limited instances share. `device` undefined is every device. */
export interface RateLimitResource {
  readonly name: string;
  readonly count: number;
  readonly device: number | undefined;
}

/** Parses `name:count[:device]`; names are compared without case. */
export function parseRateLimitResource(text: string): RateLimitResource {
  const [name = '', count, device, ...rest] = text.split(':');
  if (name === '' || count === undefined || rest.length > 0) {
    throw new OptionValueError(`expected <resource_name>:<count>[:<device>], got: ${text}`);
  }
  return {
    name: name.toLowerCase(),
    count: parseInteger(count, 0, 0x7fffffff),
    device: device === undefined ? undefined : parseInteger(device, 0, 0x7fffffff),
  };
}

/** What `/metrics` shows beside the plain counters. */
export interface MetricFamilyOptions {
  readonly isCounterLatencies: boolean;
  readonly isSummaryLatencies: boolean;
  readonly isHistogramLatencies: boolean;
  /** Quantile and allowed error. */
  readonly summaryQuantiles: readonly (readonly [quantile: number, error: number])[];
}

const defaultSummaryQuantiles = '0.5:0.05,0.9:0.01,0.95:0.001,0.99:0.001,0.999:0.001';

/** `--metrics-config`: which latencies are counters, summaries, histograms; or `OptionValueError`. */
export function readMetricFamilyOptions(settings: readonly OwnedSetting[]): MetricFamilyOptions {
  const values = new Map<string, string>([
    ['counter_latencies', 'true'],
    ['summary_latencies', 'false'],
    ['histogram_latencies', 'false'],
    ['summary_quantiles', defaultSummaryQuantiles],
  ]);
  for (const { name, value } of settings) {
    if (!values.has(name)) {
      throw new OptionValueError(
        `unknown metrics setting '${name}', allowed: ${[...values.keys()].join(', ')}`,
      );
    }
    values.set(name, value);
  }
  return {
    isCounterLatencies: parseBoolean(values.get('counter_latencies') ?? ''),
    isSummaryLatencies: parseBoolean(values.get('summary_latencies') ?? ''),
    isHistogramLatencies: parseBoolean(values.get('histogram_latencies') ?? ''),
    summaryQuantiles: (values.get('summary_quantiles') ?? '').split(',').map(parseQuantile),
  };
}

function parseQuantile(text: string): readonly [number, number] {
  const [quantile, error, ...rest] = text.split(':').map(Number);
  const isFraction = (value: number | undefined): value is number =>
    value !== undefined && value >= 0 && value <= 1;
  if (!isFraction(quantile) || !isFraction(error) || rest.length > 0) {
    throw new OptionValueError(`expected <quantile>:<error> between 0 and 1, got: ${text}`);
  }
  return [quantile, error];
}

/** Where the response cache keeps its entries; undefined keeps none. */
export type CacheOptions =
  | { readonly kind: 'local'; readonly sizeBytes: number }
  | {
      readonly kind: 'redis';
      readonly host: string;
      readonly port: number;
      readonly user: string;
      readonly password: string;
      readonly isTls: boolean;
    };

/** From `local,size=N`, or `redis,host=H` and `redis,port=P`: one setting an option. */
export function readCacheOptions(settings: readonly OwnedSetting[]): CacheOptions | undefined {
  const [first] = settings;
  if (first === undefined) return undefined;
  if (settings.some(({ owner }) => owner !== first.owner)) {
    throw new OptionValueError('only one cache implementation may be configured');
  }
  const values = new Map(settings.map(({ name, value }) => [name, value]));
  switch (first.owner) {
    case 'local':
      refuseUnknown(values, ['size'], 'local cache');
      return {
        kind: 'local',
        sizeBytes: parseInteger(values.get('size') ?? '', 1, Number.MAX_SAFE_INTEGER),
      };
    case 'redis':
      refuseUnknown(values, ['host', 'port', 'user', 'password', 'tls_enabled'], 'redis cache');
      return {
        kind: 'redis',
        host: values.get('host') ?? 'localhost',
        port: parseInteger(values.get('port') ?? '6379', 1, 65535),
        user: values.get('user') ?? '',
        password: values.get('password') ?? '',
        isTls: parseBoolean(values.get('tls_enabled') ?? 'false'),
      };
    default:
      throw new OptionValueError(`unknown cache '${first.owner}', allowed: local, redis`);
  }
}

function refuseUnknown(
  values: ReadonlyMap<string, string>,
  allowed: readonly string[],
  noun: string,
): void {
  for (const name of values.keys()) {
    if (!allowed.includes(name)) {
      throw new OptionValueError(
        `unknown ${noun} setting '${name}', allowed: ${allowed.join(', ')}`,
      );
    }
  }
}
