import { join } from 'node:path';
import { createLoad } from '../answer-check.js';
import { type NereidServer, startNereid } from '../child-server.js';
import { writeImageRepository } from '../image-models.js';
import { compareInRounds, type Spread, summarize } from '../interleaved.js';
import { threadClock } from '../load/arrival-clock.js';
import type { LoadRequest } from '../load/load-report.js';
import { runOpenLoop } from '../load/open-loop.js';
import { createAddSub } from '../scenarios.js';
import { encodeJsonRequest } from '../v2-binary.js';
import { formatSpread, type GoalGroup, type GoalResult, type GoalSettings } from './goal.js';

/** What a heavy caller does to the light ones. */
export const interferenceGroups: readonly GoalGroup[] = [
  { name: 'large-json', hasPeers: false, measure: measureLargeJson },
];

/** 3 x 730 x 730 numbers of eight digits: 16 MB of text. */
const side = 730;
const digits = 7;
const requestsPerSec = 1000;
const connections = 32;

async function measureLargeJson(settings: GoalSettings): Promise<readonly GoalResult[]> {
  await writeImageRepository(settings.scratch);
  const repositories = [join(settings.root, 'model_repository'), settings.scratch];
  const server = await startNereid({ repositories, hasGrpc: false, extraOptions: [] });
  try {
    const light = createLoad(server.url, createAddSub(settings.root));
    const heavy = createHeavyRequest(server);
    const lagMs: number[] = [];
    await measureP99(settings, light);
    const { ours, other, ratio } = await compareInRounds(
      settings.rounds,
      async () => {
        await readLagMs(server);
        const [p99Ms, heavyReport] = await Promise.all([
          measureP99(settings, light),
          settings.client.run(heavy, 1, settings.seconds),
        ]);
        if (heavyReport.errors > 0 || heavyReport.requestsPerSec === 0) {
          throw new Error(`16 MB bodies: ${JSON.stringify(heavyReport)}`);
        }
        lagMs.push(await readLagMs(server));
        return p99Ms;
      },
      () => measureP99(settings, light),
    );
    const work = `while one caller sends JSON bodies of ${(heavy.body.length / 1e6).toFixed(0)} MB`;
    return [
      atMost(`event loop delay p99 ${work}`, 10, 'ms', summarize(lagMs), ''),
      atMost(
        `add_sub's p99 at ${requestsPerSec} requests/s ${work}, over without`,
        2,
        'x',
        ratio,
        `${formatSpread(ours)} of ${formatSpread(other)} ms`,
      ),
    ];
  } finally {
    await server.stop();
  }
}

function atMost(
  work: string,
  limit: number,
  unit: string,
  value: Spread,
  detail: string,
): GoalResult {
  return { goal: { work, bound: 'at most', limit, unit }, value, detail };
}

async function measureP99(settings: GoalSettings, request: LoadRequest): Promise<number> {
  const report = await runOpenLoop(
    {
      requests: [request],
      requestsPerSec,
      connections,
      seconds: settings.seconds,
    },
    threadClock,
  );
  if (report.errors > 0) throw new Error(`add_sub beside 16 MB bodies: ${report.errors} errors`);
  return report.p99Ms;
}

function createHeavyRequest(server: NereidServer): LoadRequest {
  const data = Float64Array.from({ length: 3 * side * side }, (_, index) =>
    Number((((index * 31) % 100_003) / 100_003).toFixed(digits)),
  );
  const request = encodeJsonRequest([{ name: 'images', shape: [1, 3, side, side], data }]);
  return { url: `${server.url}/v2/models/image_mean/infer`, ...request };
}

/** Since the last reading. */
async function readLagMs(server: NereidServer): Promise<number> {
  const text = await (await fetch(server.metricsUrl)).text();
  const value = /^nereid_event_loop_lag_seconds\{quantile="0.99"\} (\S+)$/m.exec(text)?.[1];
  if (value === undefined) throw new Error('the server has no event loop lag');
  return Number(value) * 1000;
}
