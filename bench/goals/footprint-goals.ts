import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checkAnswers } from '../answer-check.js';
import { startNereid } from '../child-server.js';
import { type Spread, summarize } from '../interleaved.js';
import { readUsage } from '../process-usage.js';
import { createAddSub } from '../scenarios.js';
import type { GoalGroup, GoalResult, GoalSettings } from './goal.js';

const megabyte = 1e6;
const extraInstances = 8;

/** What the server takes before anybody uses it. */
export const footprintGroups: readonly GoalGroup[] = [
  { name: 'memory', hasPeers: false, measure: measureMemory },
  { name: 'start', hasPeers: false, measure: measureStart },
];

async function measureMemory(settings: GoalSettings): Promise<readonly GoalResult[]> {
  const oneInstance = await writeAddSub(settings, 1);
  const manyInstances = await writeAddSub(settings, 1 + extraInstances);
  const first: number[] = [];
  const extra: number[] = [];
  for (let round = 0; round < settings.rounds; round++) {
    const one = await measureRss(settings, oneInstance);
    const many = await measureRss(settings, manyInstances);
    first.push(one / megabyte);
    extra.push((many - one) / extraInstances / megabyte);
  }
  return [
    atMost('memory after start with add_sub, one answer given', 110, 'MB', summarize(first)),
    atMost('memory for another instance of add_sub', 12, 'MB', summarize(extra)),
  ];
}

async function measureStart(settings: GoalSettings): Promise<readonly GoalResult[]> {
  const seconds: number[] = [];
  for (let round = 0; round < settings.rounds; round++) {
    const startMs = performance.now();
    const server = await startNereid({
      repositories: [join(settings.root, 'model_repository')],
      hasGrpc: true,
      extraOptions: [],
    });
    await checkAnswers(server.url, createAddSub(settings.root), 1, 1);
    seconds.push((performance.now() - startMs) / 1000);
    await server.stop();
  }
  return [atMost('start to first answer, shipped models', 0.7, 's', summarize(seconds))];
}

function atMost(work: string, limit: number, unit: string, value: Spread): GoalResult {
  return { goal: { work, bound: 'at most', limit, unit }, value, detail: '' };
}

/** Everything is on that is on by default, gRPC too. */
async function measureRss(settings: GoalSettings, repository: string): Promise<number> {
  const server = await startNereid({ repositories: [repository], hasGrpc: true, extraOptions: [] });
  await checkAnswers(server.url, createAddSub(settings.root), 1, 1);
  const { rssBytes } = readUsage(server.pid);
  await server.stop();
  return rssBytes;
}

/** The shipped add_sub with another number of instances. */
async function writeAddSub(settings: GoalSettings, instances: number): Promise<string> {
  const repository = join(settings.scratch, `instances-${instances}`);
  const shipped = join(settings.root, 'model_repository/add_sub');
  await mkdir(repository);
  await cp(shipped, join(repository, 'add_sub'), { recursive: true });
  const config = await readFile(join(shipped, 'config.pbtxt'), 'utf8');
  const changed = config.replace(
    /instance_group \[.*\]/,
    `instance_group [ { kind: KIND_CPU count: ${instances} } ]`,
  );
  if (!changed.includes(`count: ${instances}`)) throw new Error('add_sub has no instance_group');
  await writeFile(join(repository, 'add_sub/config.pbtxt'), changed);
  return repository;
}
