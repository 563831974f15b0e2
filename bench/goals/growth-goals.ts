import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checkAnswers, createLoad } from '../answer-check.js';
import { type NereidServer, startNereid } from '../child-server.js';
import { summarize } from '../interleaved.js';
import { threadClock } from '../load/arrival-clock.js';
import { runOpenLoop } from '../load/open-loop.js';
import { readUsage } from '../process-usage.js';
import { createAddSub } from '../scenarios.js';
import { formatSpread, type GoalGroup, type GoalResult, type GoalSettings } from './goal.js';

/** What it costs to have more models, where no more requests come. */
export const growthGroups: readonly GoalGroup[] = [
  { name: 'many-models', hasPeers: false, measure: measureGrowth },
];

/** 300 models take a gigabyte or more. */
const modelCounts = [1, 10, 100, 300];
const quickModelCounts = [1, 10];
const requestsPerSec = 2000;
const connections = 32;

async function measureGrowth(settings: GoalSettings): Promise<readonly GoalResult[]> {
  const counts = settings.isQuick ? quickModelCounts : modelCounts;
  const servers: NereidServer[] = [];
  try {
    for (const count of counts) {
      const repository = await writeCopies(settings, count);
      servers.push(
        await startNereid({ repositories: [repository], hasGrpc: false, extraOptions: [] }),
      );
    }
    const costs = servers.map((): number[] => []);
    for (let round = 0; round < settings.rounds; round++) {
      for (const [index, server] of servers.entries()) {
        costs[index]?.push(await measureCost(settings, server, counts[index] ?? 0));
      }
    }
    // In each round: the dearest over the cheapest of the four.
    const growths = Array.from({ length: settings.rounds }, (_, round) => {
      const inRound = costs.map((values) => values[round] ?? Number.NaN);
      return (Math.max(...inRound) / Math.min(...inRound) - 1) * 100;
    });
    const shown = costs.map(
      (values, index) => `${counts[index]}: ${formatSpread(summarize(values))}`,
    );
    return [
      {
        goal: {
          work: `processor time a request, ${requestsPerSec} requests/s over ${counts.join(', ')} models, dearest over cheapest`,
          bound: 'at most',
          limit: 15,
          unit: '%',
        },
        value: summarize(growths),
        detail: `µs by models: ${shown.join(', ')}`,
      },
    ];
  } finally {
    for (const server of servers) await server.stop();
  }
}

/** Microseconds of processor time a request, with all models asked in turn. */
async function measureCost(
  settings: GoalSettings,
  server: NereidServer,
  count: number,
): Promise<number> {
  const scenarios = Array.from({ length: count }, (_, index) =>
    createAddSub(settings.root, `add_sub_${index}`),
  );
  // Each model's first requests make what later ones use.
  for (const scenario of scenarios) await checkAnswers(server.url, scenario, 2, 2);
  const before = readUsage(server.pid).cpuSecs;
  const report = await runOpenLoop(
    {
      requests: scenarios.map((scenario) => createLoad(server.url, scenario)),
      requestsPerSec,
      connections,
      seconds: settings.seconds,
    },
    threadClock,
  );
  if (report.errors > 0) throw new Error(`${count} models: ${report.errors} errors`);
  const cpuSecs = readUsage(server.pid).cpuSecs - before;
  return (cpuSecs / (requestsPerSec * settings.seconds)) * 1e6;
}

async function writeCopies(settings: GoalSettings, count: number): Promise<string> {
  const repository = join(settings.scratch, `models-${count}`);
  const shipped = join(settings.root, 'model_repository/add_sub');
  await mkdir(repository);
  const config = await readFile(join(shipped, 'config.pbtxt'), 'utf8');
  for (let index = 0; index < count; index++) {
    const model = join(repository, `add_sub_${index}`);
    await cp(shipped, model, { recursive: true });
    await writeFile(join(model, 'config.pbtxt'), config);
  }
  return repository;
}
