import { describe, expect, it } from 'vitest';
import { availableCores, intraOpThreads } from '../../src/execution/available-cores.js';

const files = (content: Readonly<Record<string, string>>) => (path: string) => content[path];

describe('cores that the process may use', () => {
  const cases: readonly [string, Readonly<Record<string, string>>, number][] = [
    ['without any quota are those it sees', {}, 8],
    [
      'are the quota of a version 2 group',
      { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '200000 100000\n' },
      2,
    ],
    [
      'round a quota up to a whole core',
      { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '150000 100000' },
      2,
    ],
    [
      'are at least one',
      { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '10000 100000' },
      1,
    ],
    [
      'are not limited by "max"',
      { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': 'max 100000' },
      8,
    ],
    [
      'are the smallest quota of the group and its ancestors',
      {
        '/proc/self/cgroup': '0::/a/b\n',
        '/sys/fs/cgroup/a/b/cpu.max': '600000 100000',
        '/sys/fs/cgroup/a/cpu.max': '300000 100000',
      },
      3,
    ],
    [
      'are the quota of a version 1 group',
      {
        '/proc/self/cgroup': '4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n',
        '/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us': '400000\n',
        '/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us': '100000\n',
      },
      4,
    ],
    [
      'are the quota of a version 1 group seen from inside its container',
      {
        '/proc/self/cgroup': '4:cpu,cpuacct:/docker/x\n',
        '/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us': '100000',
        '/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us': '50000',
      },
      2,
    ],
    [
      'are not limited by a version 1 quota of -1',
      {
        '/proc/self/cgroup': '4:cpu:/\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1',
        '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000',
      },
      8,
    ],
    [
      'are never more than it sees',
      { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '6400000 100000' },
      8,
    ],
    [
      'ignore files that make no sense',
      { '/proc/self/cgroup': 'what', '/sys/fs/cgroup/cpu.max': 'ever' },
      8,
    ],
  ];
  it.each(cases)('%s', (_, content, cores) => {
    expect(availableCores(files(content), 8)).toBe(cores);
  });
});

it.each([
  [8, 1, 8],
  [8, 3, 2],
  [2, 4, 1],
  [2, 0, 2],
])('%i cores give each of %i instances %i threads', (cores, instances, threads) => {
  expect(intraOpThreads(cores, instances)).toBe(threads);
});
