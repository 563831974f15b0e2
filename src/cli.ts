import { suggestion } from './errors.js';
import type { ServerOptions } from './options.js';
import { GivenOptions, type GivenTexts } from './options-given.js';
import { formatHelp } from './options-help.js';
import { readServerOptions } from './options-reading.js';
import { environmentName, environmentPrefix, optionsByName } from './options-table.js';

/** What the user asks the process to do. */
export type CommandLine =
  | { readonly type: 'serve'; readonly options: ServerOptions }
  | { readonly type: 'help'; readonly text: string }
  | { readonly type: 'version' }
  /** `text` lists every problem; print it to standard error and end with exit code 1. */
  | { readonly type: 'invalid'; readonly text: string };

const programName = 'nereid';
const listSeparator = ';';

/**
 * Reads the command line (without the program) and the environment. The command line wins over
 * the environment, and `--http-port` in either over the platform's `PORT`.
 */
export function readCommandLine(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): CommandLine {
  if (argv.includes('--help') || argv.includes('-h')) {
    return { type: 'help', text: formatHelp(programName) };
  }
  if (argv.includes('--version')) return { type: 'version' };
  const fromArguments = readArguments(argv);
  const fromEnvironment = readEnvironment(env);
  const given = new GivenOptions(new Map([...fromEnvironment.given, ...fromArguments.given]));
  const options = readServerOptions(given, env['PORT']);
  const problems = [...fromArguments.problems, ...given.problems];
  if (problems.length > 0) {
    // The reference server prints every option before a fault; here the fault is all there is to see.
    const usage = `Usage: ${programName} [options]; --help lists them.\n`;
    return { type: 'invalid', text: `${usage}${problems.join('\n')}\n` };
  }
  const warnings = [...options.warnings, ...fromEnvironment.warnings];
  return { type: 'serve', options: Object.freeze({ ...options, warnings }) };
}

interface ArgumentTexts {
  readonly given: ReadonlyMap<string, GivenTexts>;
  readonly problems: readonly string[];
}

/** `--name=value` and `--name value`; a switch takes a value only behind `=`. */
function readArguments(argv: readonly string[]): ArgumentTexts {
  const given = new Map<string, { texts: string[]; source: string }>();
  const problems: string[] = [];
  for (let index = 0; index < argv.length; index++) {
    const argument = argv[index] ?? '';
    const equals = argument.indexOf('=');
    const flag = equals < 0 ? argument : argument.slice(0, equals);
    const option = flag.startsWith('--') ? optionsByName.get(flag.slice(2)) : undefined;
    if (option === undefined) {
      problems.push(
        argument.startsWith('-')
          ? `unrecognized option '${argument}'${suggestion(flag, optionFlags())}`
          : `unexpected argument '${argument}'`,
      );
      continue;
    }
    let text = equals < 0 ? undefined : argument.slice(equals + 1);
    if (text === undefined && option.form === '') text = 'true';
    if (text === undefined) {
      index += 1;
      text = argv[index];
    }
    if (text === undefined) {
      problems.push(`option '${flag}' requires an argument`);
      continue;
    }
    const known = given.get(option.name);
    if (known === undefined) given.set(option.name, { texts: [text], source: flag });
    else known.texts.push(text);
  }
  return { given, problems };
}

const optionFlags = (): readonly string[] => [...optionsByName.keys()].map((name) => `--${name}`);

interface EnvironmentTexts {
  readonly given: ReadonlyMap<string, GivenTexts>;
  readonly warnings: readonly string[];
}

function readEnvironment(env: Readonly<Record<string, string | undefined>>): EnvironmentTexts {
  const given = new Map<string, GivenTexts>();
  const names = new Set<string>();
  for (const option of optionsByName.values()) {
    const source = environmentName(option.name);
    names.add(source);
    const text = env[source];
    // An empty variable is how compose files and templates say "not set".
    if (text === undefined || text === '') continue;
    const texts = option.isRepeatable ? text.split(listSeparator) : [text];
    given.set(option.name, { texts, source });
  }
  const warnings = Object.keys(env)
    .filter((name) => isStrayVariable(name, names))
    .map(
      (name) =>
        `the environment variable ${name} is not an option of this server${suggestion(name, names)}`,
    );
  return { given, warnings };
}

/** Kubernetes sets NEREID_PORT… and NEREID_SERVICE_… beside a service called nereid. */
function isStrayVariable(name: string, known: ReadonlySet<string>): boolean {
  return (
    name.startsWith(environmentPrefix) &&
    !known.has(name) &&
    !/^NEREID_(PORT|SERVICE)(_|$)/.test(name)
  );
}
