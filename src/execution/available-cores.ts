import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/** Reads a file of the system; undefined where it can't be read. */
export type ReadSystemFile = (path: string) => string | undefined;

/**
 * Cores that this process may use: the CPU affinity mask, cut down to the quota of the control
 * groups (version 1 or 2) it is in. A container with 2 CPUs on a host of 64 has 2; so has one with
 * a quota of 1.5, because a third of a core is better shared than left idle.
 */
export function availableCores(
  readFile: ReadSystemFile = readSystemFile,
  visible: number = availableParallelism(),
): number {
  const quota = Math.min(groupV2Quota(readFile), groupV1Quota(readFile));
  return Math.max(1, Math.min(visible, Math.ceil(quota)));
}

/** Threads that one operator of an instance gets by default: the cores, divided fairly. */
export function intraOpThreads(cores: number, instances: number): number {
  return Math.max(1, Math.floor(cores / Math.max(1, instances)));
}

/** `cpu.max` is `QUOTA PERIOD` in microseconds, or `max PERIOD`; every ancestor's limit counts. */
function groupV2Quota(readFile: ReadSystemFile): number {
  let quota = Number.POSITIVE_INFINITY;
  for (const folder of groupFolders(readFile, '')) {
    const [limit, period] = (readFile(`/sys/fs/cgroup${folder}/cpu.max`) ?? '').trim().split(' ');
    quota = Math.min(quota, ratio(limit, period));
  }
  return quota;
}

/** The same as two files, where a quota of -1 is none. */
function groupV1Quota(readFile: ReadSystemFile): number {
  let quota = Number.POSITIVE_INFINITY;
  for (const folder of groupFolders(readFile, 'cpu')) {
    for (const mount of ['/sys/fs/cgroup/cpu', '/sys/fs/cgroup/cpu,cpuacct']) {
      const limit = readFile(`${mount}${folder}/cpu.cfs_quota_us`)?.trim();
      const period = readFile(`${mount}${folder}/cpu.cfs_period_us`)?.trim();
      quota = Math.min(quota, ratio(limit, period));
    }
  }
  return quota;
}

/**
 * The process's group and its ancestors, the root ('') last. `/proc/self/cgroup` has lines of
 * `ID:CONTROLLERS:PATH`; version 2 has no controllers in it. Inside a container's own namespace the
 * path is `/`.
 */
function groupFolders(readFile: ReadSystemFile, controller: string): readonly string[] {
  let path = '';
  for (const line of (readFile('/proc/self/cgroup') ?? '').split('\n')) {
    const [, controllers, folder] = line.split(':');
    if (folder !== undefined && controllers?.split(',').includes(controller)) path = folder;
  }
  const parts = path.split('/').filter((part) => part !== '' && part !== '..');
  const folders: string[] = [];
  for (let depth = parts.length; depth >= 0; depth -= 1) {
    folders.push(
      parts
        .slice(0, depth)
        .map((part) => `/${part}`)
        .join(''),
    );
  }
  return folders;
}

function ratio(limit: string | undefined, period: string | undefined): number {
  const quota = Number(limit) / Number(period);
  return Number.isFinite(quota) && quota > 0 ? quota : Number.POSITIVE_INFINITY;
}

function readSystemFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // Absent on other systems and in other group versions.
    return undefined;
  }
}
