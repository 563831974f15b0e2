import type { MetricUpdate } from '../../execution/messages.js';

/** The update in a `metric` frame, which is JSON; undefined for anything else. */
export function readMetricUpdate(payload: Buffer): MetricUpdate | undefined {
  const document: unknown = JSON.parse(payload.toString('utf8'));
  if (typeof document !== 'object' || document === null) return undefined;
  const fields = new Map<string, unknown>(Object.entries(document));
  const type = fields.get('type');
  const family = String(fields.get('family'));
  const labels = readLabels(fields.get('labels'));
  if (type === 'family') {
    const kind = fields.get('kind');
    if (kind !== 'counter' && kind !== 'gauge' && kind !== 'histogram') return undefined;
    return { type, name: String(fields.get('name')), help: String(fields.get('help')), kind };
  }
  if (type === 'series') {
    const buckets = fields.get('buckets');
    return { type, family, labels, buckets: Array.isArray(buckets) ? buckets.map(Number) : [] };
  }
  const action = fields.get('action');
  if (type !== 'value') return undefined;
  if (action !== 'increment' && action !== 'set' && action !== 'observe') return undefined;
  return { type, family, labels, action, value: Number(fields.get('value')) };
}

function readLabels(value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null) return {};
  return Object.fromEntries(Object.entries(value).map(([name, text]) => [name, String(text)]));
}
