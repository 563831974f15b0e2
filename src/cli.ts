import type { BenchOptions } from './bench-client/bench-options.js';
import { suggestion } from './errors.js';
import type { ServerOptions } from './options.js';
import { readArguments } from './options-arguments.js';
import { benchCommand } from './options-bench.js';
import { type Command, formatCommandHelp } from './options-command.js';
import { GivenOptions, type GivenTexts } from './options-given.js';
import { formatHelp } from './options-help.js';
import { readServerOptions } from './options-reading.js';
import { environmentName, environmentPrefix, optionsByName } from './options-table.js';
import { tuneCommand } from './options-tune.js';
import type { TuneOptions } from './tune/tune-options.js';

/** What the user asks the process to do. */
export type CommandLine =
  | { readonly type: 'serve'; readonly options: ServerOptions }
  | { readonly type: 'bench'; readonly options: BenchOptions }
  | { readonly type: 'tune'; readonly options: TuneOptions }
  | { readonly type: 'help'; readonly text: string }
  | { readonly type: 'version' }
  /** `text` lists every problem; print it to standard error and end with exit code 1. */
  | { readonly type: 'invalid'; readonly text: string };

/** The server takes no short forms and nothing but options. */
const serverOptions = {
  byName: optionsByName,
  letters: new Map<string, string>(),
  operand: undefined,
};
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
  const [word, ...rest] = argv;
  if (word === 'bench')
    return readCommand(benchCommand, rest, (options) => ({ type: word, options }));
  if (word === 'tune')
    return readCommand(tuneCommand, rest, (options) => ({ type: word, options }));
  if (argv.includes('--help') || argv.includes('-h')) {
    return { type: 'help', text: formatHelp(programName) };
  }
  if (argv.includes('--version')) return { type: 'version' };
  const fromArguments = readArguments(argv, serverOptions);
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

function readCommand<T>(
  command: Command<T>,
  argv: readonly string[],
  toCommandLine: (options: T) => CommandLine,
): CommandLine {
  if (argv.includes('--help') || argv.includes('-h')) {
    return { type: 'help', text: formatCommandHelp(programName, command) };
  }
  const { given: texts, problems } = readArguments(argv, command);
  const given = new GivenOptions(texts);
  const options = command.read(given);
  const all = [...problems, ...given.problems];
  if (all.length === 0) return toCommandLine(options);
  const usage = `Usage: ${programName} ${command.usage}; --help lists the options.\n`;
  return { type: 'invalid', text: `${usage}${all.join('\n')}\n` };
}

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
