import { fromConfigDataType } from './inference/datatype.js';
import { modelKey } from './inference/model-key.js';
import type { RepositoryIndexEntry } from './inference/model-metadata.js';
import { elementCount } from './inference/shape.js';
import type { ModelConfig } from './model-config/model-config.js';

/** What the start-up table says of a model: a row of the index, or why it has none. */
export interface StartupRow {
  readonly model: string;
  readonly version: string;
  readonly status: string;
}

/** Longest request that is still pleasant to paste. */
const exampleElementsMax = 64;

/**
 * Rows of the index, then models that have none; one that could not be read shows its problem, which
 * `problems` has under its key.
 */
export function startupRows(
  index: readonly RepositoryIndexEntry[],
  problems: ReadonlyMap<string, string>,
): readonly StartupRow[] {
  const listed = index.map((row) => ({ ...row, key: keyOf(row) }));
  const keys = new Set(listed.map(({ key }) => key));
  const unlisted = [...problems.keys()].filter((key) => !keys.has(key));
  const rows: readonly ListedRow[] = [...listed, ...unlisted.map((key) => ({ key }))];
  return rows.map(({ key, version, state, reason }) => {
    const why = reason ?? (state === 'READY' ? undefined : problems.get(key));
    const status = state ?? (why === undefined ? 'not loaded' : 'UNAVAILABLE');
    return {
      model: key,
      version: version ?? '-',
      status: why === undefined ? status : `${status}: ${why.trim().replaceAll(/\s*\n\s*/g, ' ')}`,
    };
  });
}

type ListedRow = Partial<RepositoryIndexEntry> & { readonly key: string };

function keyOf({ namespace = '', name }: RepositoryIndexEntry): string {
  return modelKey({ namespace, name });
}

/** The table as the reference server draws it. */
export function formatStartupTable(rows: readonly StartupRow[]): string {
  const cells = [
    ['Model', 'Version', 'Status'],
    ...rows.map(({ model, version, status }) => [model, version, status]),
  ];
  const widths = [0, 1, 2].map((column) =>
    Math.max(...cells.map((row) => row[column]?.length ?? 0)),
  );
  const rule = `+${widths.map((width) => '-'.repeat(width + 2)).join('+')}+`;
  const lines = cells.map(
    (row) => `|${row.map((cell, column) => ` ${cell.padEnd(widths[column] ?? 0)} `).join('|')}|`,
  );
  return [rule, lines[0], rule, ...lines.slice(1), rule].join('\n');
}

/** What to look for where repositories hold no model, which is most often a wrong folder. */
export function describeEmptiness(locations: readonly string[]): string {
  const names = locations.map((location) => `'${location}'`).join(' and ');
  return `no models in ${names}: a model is a folder with a folder for each version, such as NAME/1/model.onnx`;
}

/**
 * A `curl` command that works on one of the models as it is; undefined where no model has inputs
 * that are small enough and can be written in JSON.
 */
export function exampleCurl(models: readonly ModelConfig[], address: string): string | undefined {
  const candidates = models
    .filter(canBeAskedInJson)
    .map((config) => ({ config, elements: inputElements(config) }))
    .filter(({ elements }) => elements <= exampleElementsMax)
    .sort((a, b) => a.elements - b.elements || a.config.name.localeCompare(b.config.name));
  const config = candidates[0]?.config;
  if (config === undefined) return undefined;
  const inputs = config.input.map((input) => {
    const shape = exampleShape(config, input.dims);
    const datatype = fromConfigDataType(input.data_type);
    const sample = datatype === 'BYTES' ? 'text' : datatype === 'BOOL' ? true : 1;
    const data = new Array(elementCount(shape)).fill(sample);
    return { name: input.name, datatype, shape, data };
  });
  const url = `http://${address}/v2/models/${encodeURIComponent(config.name)}/infer`;
  return `curl -s ${url} -d '${JSON.stringify({ inputs })}'`;
}

function canBeAskedInJson(config: ModelConfig): boolean {
  const isJson = (dataType: string) => dataType !== 'TYPE_FP16' && dataType !== 'TYPE_BF16';
  return (
    config.input.length > 0 &&
    config.sequence_batching === undefined &&
    config.model_transaction_policy?.decoupled !== true &&
    /^[\w.-]+$/.test(config.name) &&
    [...config.input, ...config.output].every((tensor) => isJson(tensor.data_type))
  );
}

function inputElements(config: ModelConfig): number {
  return config.input.reduce(
    (sum, input) => sum + elementCount(exampleShape(config, input.dims)),
    0,
  );
}

function exampleShape(config: ModelConfig, dims: readonly number[]): readonly number[] {
  const shape = dims.map((dim) => (dim === -1 ? 1 : dim));
  return config.max_batch_size > 0 ? [1, ...shape] : shape;
}
