import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { checkAnswers, createLoad } from '../answer-check.js';
import { type ChildServer, startEcho, startNereid } from '../child-server.js';
import {
  createEfficientNetScenario,
  imageDims,
  modelFileIn,
  writeImageRepository,
} from '../image-models.js';
import { compareInRounds } from '../interleaved.js';
import { measureOnnxLoop } from '../limits.js';
import { writeMlpRepository } from '../mlp-model.js';
import { createOnnxScenario } from '../onnx-scenario.js';
import type { Scenario } from '../scenario.js';
import { createAddSub, createMlp } from '../scenarios.js';
import { v2Binary } from '../wire-form.js';
import { formatSpread, type GoalGroup, type GoalResult, type GoalSettings } from './goal.js';

/** How near the server comes to what nothing in Node.js can pass. */
export const limitGroups: readonly GoalGroup[] = [
  {
    name: 'add_sub-echo',
    hasPeers: false,
    measure: (settings) =>
      withServer([join(settings.root, 'model_repository')], async (server) => [
        await compareWithEcho(settings, server, createAddSub(settings.root), 64, 0.7),
      ]),
  },
  { name: 'identity-echo', hasPeers: false, measure: measureIdentity },
  {
    name: 'mlp-onnx',
    hasPeers: false,
    async measure(settings) {
      const scenario = await createMlp(await writeMlpRepository(settings.scratch));
      return withServer([settings.scratch], async (server) => [
        await compareWithOnnx(settings, server, scenario, {
          concurrency: 64,
          batchSizes: [16, 32, 64],
          threads: 1,
          limit: 0.9,
        }),
      ]);
    },
  },
  { name: 'efficientnet-onnx', hasPeers: false, measure: measureEfficientNet },
];

const checkClients = 8;
const checkRequests = 4;

async function withServer<T>(
  repositories: readonly string[],
  use: (server: ChildServer) => Promise<T>,
): Promise<T> {
  const server = await startNereid({ repositories, hasGrpc: false, extraOptions: [] });
  try {
    return await use(server);
  } finally {
    await server.stop();
  }
}

async function measureIdentity(settings: GoalSettings): Promise<readonly GoalResult[]> {
  await writeImageRepository(settings.scratch);
  return withServer([settings.scratch], async (server) => {
    const results: GoalResult[] = [];
    for (const model of ['identity_js', 'identity_onnx']) {
      const scenario = await createOnnxScenario({
        name: `${model}, 602 kB`,
        model,
        modelFile: modelFileIn(settings.scratch, 'identity_onnx'),
        input: 'images',
        dims: imageDims,
        wire: v2Binary,
      });
      results.push(await compareWithEcho(settings, server, scenario, 8, 0.6));
    }
    return results;
  });
}

async function measureEfficientNet(settings: GoalSettings): Promise<readonly GoalResult[]> {
  const threads = availableParallelism();
  const scenario = await createEfficientNetScenario(settings.root, settings.scratch, threads);
  return withServer([join(settings.scratch, 'repository')], async (server) => [
    await compareWithOnnx(settings, server, scenario, {
      concurrency: 8,
      batchSizes: [1, 2, 4, 8],
      threads,
      limit: 0.95,
    }),
  ]);
}

async function compareWithEcho(
  settings: GoalSettings,
  server: ChildServer,
  scenario: Scenario,
  concurrency: number,
  limit: number,
): Promise<GoalResult> {
  const { client, rounds, seconds } = settings;
  await checkAnswers(server.url, scenario, checkClients, checkRequests);
  const echo = await startEcho();
  try {
    const load = createLoad(server.url, scenario);
    const rate = async (url: string): Promise<number> => {
      const report = await client.run({ ...load, url }, concurrency, seconds);
      if (report.errors > 0) throw new Error(`${scenario.name}: ${report.errors} errors of ${url}`);
      return report.requestsPerSec;
    };
    await rate(load.url);
    const { ours, other, ratio } = await compareInRounds(
      rounds,
      () => rate(load.url),
      () => rate(echo.url),
    );
    await checkAnswers(server.url, scenario, checkClients, checkRequests);
    return {
      goal: {
        work: `${scenario.name}, ${concurrency} callers, over the echo of the same bytes`,
        bound: 'at least',
        limit,
        unit: 'x',
      },
      value: ratio,
      detail: `${formatSpread(ours)} of ${formatSpread(other)} requests/s`,
    };
  } finally {
    await echo.stop();
  }
}

interface OnnxComparison {
  readonly concurrency: number;
  readonly batchSizes: readonly number[];
  readonly threads: number;
  readonly limit: number;
}

/** The batch size at which onnxruntime alone is best is found first, then kept. */
async function compareWithOnnx(
  settings: GoalSettings,
  server: ChildServer,
  scenario: Scenario,
  { concurrency, batchSizes, threads, limit }: OnnxComparison,
): Promise<GoalResult> {
  const { client, rounds, seconds } = settings;
  await checkAnswers(server.url, scenario, checkClients, checkRequests);
  const loops = await measureOnnxLoop(scenario, batchSizes, threads, seconds / 2);
  const best = loops.reduce((left, right) => (right.rowsPerSec > left.rowsPerSec ? right : left));
  const load = createLoad(server.url, scenario);
  const rate = async (): Promise<number> => {
    const report = await client.run(load, concurrency, seconds);
    if (report.errors > 0) throw new Error(`${scenario.name}: ${report.errors} errors`);
    return report.requestsPerSec;
  };
  await rate();
  const { ours, other, ratio } = await compareInRounds(rounds, rate, async () => {
    const [loop] = await measureOnnxLoop(scenario, [best.batchSize], threads, seconds);
    return loop?.rowsPerSec ?? Number.NaN;
  });
  await checkAnswers(server.url, scenario, checkClients, checkRequests);
  return {
    goal: {
      work: `${scenario.name}, ${concurrency} callers, over onnxruntime alone (${threads} threads, batch ${best.batchSize})`,
      bound: 'at least',
      limit,
      unit: 'x',
    },
    value: ratio,
    detail: `${formatSpread(ours)} of ${formatSpread(other)} rows/s`,
  };
}
