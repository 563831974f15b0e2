import { execFileSync } from 'node:child_process';
import { availableParallelism, cpus } from 'node:os';

/** Where and what was measured, to be kept beside the numbers. */
export interface Machine {
  readonly date: string;
  /** Of the measured source; undefined outside a git checkout. */
  readonly commit: string | undefined;
  readonly node: string;
  readonly processor: string;
  readonly cores: number;
}

/** `root` is the project's folder. */
export function describeMachine(root: string): Machine {
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: readCommit(root),
    node: process.versions.node,
    processor: cpus()[0]?.model ?? 'unknown processor',
    cores: availableParallelism(),
  };
}

function readCommit(root: string): string | undefined {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'ignore'],
      encoding: 'utf8',
    }).trim();
  } catch {
    // An unpacked archive has no history.
    return undefined;
  }
}
