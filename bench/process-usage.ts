import { readdirSync, readFileSync } from 'node:fs';

/** Of Linux, whose `sysconf(_SC_CLK_TCK)` has been 100 everywhere for decades. */
const ticksPerSec = 100;

/** Memory and processor time of a process and all its descendants, from /proc. */
export interface ProcessUsage {
  readonly rssBytes: number;
  readonly cpuSecs: number;
}

export function readUsage(pid: number): ProcessUsage {
  return findFamily(pid)
    .map(readOne)
    .reduce((sum, one) => ({
      rssBytes: sum.rssBytes + one.rssBytes,
      cpuSecs: sum.cpuSecs + one.cpuSecs,
    }));
}

function findFamily(pid: number): readonly number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean),
  );
  return [pid, ...children.flatMap((child) => findFamily(Number(child)))];
}

function readOne(pid: number): ProcessUsage {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  // Behind the name, which may hold spaces: state is field 3, utime and stime are 14 and 15.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return {
    rssBytes: Number(kilobytes) * 1024,
    cpuSecs: (Number(fields[11]) + Number(fields[12])) / ticksPerSec,
  };
}
