import { endpointGroups } from './options-endpoints.js';
import { executionGroups } from './options-execution.js';
import type { Option, OptionGroup } from './options-row.js';
import { serverGroups } from './options-serving.js';

/** Every option, in the order in which `--help` and the README show them. */
export const optionGroups: readonly OptionGroup[] = [
  ...serverGroups,
  ...endpointGroups,
  ...executionGroups,
];

/** Option name → row. */
export const optionsByName: ReadonlyMap<string, Option<unknown>> = new Map(
  optionGroups.flatMap(({ options }) => Object.values(options).map((row) => [row.name, row])),
);

/** The environment variable that stands for an option: `http-port` → `NEREID_HTTP_PORT`. */
export function environmentName(optionName: string): string {
  return `${environmentPrefix}${optionName.toUpperCase().replaceAll('-', '_')}`;
}

/** Before the name of an option in its variable: `--http-port` is `NEREID_HTTP_PORT`. */
export const environmentPrefix = 'NEREID_';
