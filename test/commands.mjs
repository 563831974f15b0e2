// Runs commands in the repository's root and reads what they report.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));

/** Runs a command; `isQuiet` keeps its output to return it. */
export function run(command, args, { env = {}, isQuiet = false } = {}) {
  const result = spawnSync(command, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: isQuiet ? ['ignore', 'pipe', 'inherit'] : ['ignore', 'inherit', 'inherit'],
    encoding: 'utf8',
    maxBuffer: 1 << 30,
  });
  return { code: result.status ?? 1, output: result.stdout ?? '' };
}

export const works = (command, args, options) =>
  run(command, args, { ...options, isQuiet: true }).code === 0;

/** A step that either works or does not: one check. */
export function check(command, args, options) {
  const { code } = run(command, args, options);
  return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1 };
}

/** Echoes a command's output and reads its closing line `N passed, N failed`. */
export function counted(command, args, options) {
  const { code, output } = run(command, args, { ...options, isQuiet: true });
  process.stdout.write(output);
  const totals = [...output.matchAll(/(\d+) passed, (\d+) failed/g)].at(-1);
  if (totals === undefined) return { passed: 0, failed: 1 };
  const failed = Number(totals[2]);
  return { passed: Number(totals[1]), failed: failed === 0 && code !== 0 ? 1 : failed };
}

export function add(a, b) {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: (a.skipped ?? 0) + (b.skipped ?? 0),
  };
}
