import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { checkAnswers, createLoad } from '../answer-check.js';
import { startNereid } from '../child-server.js';
import { compareRounds, measureInRounds } from '../interleaved.js';
import { runPerfAnalyzer } from '../load/perf-analyzer-load.js';
import {
  type Contestant,
  checkContestant,
  createContest,
  startContestants,
  stopContestants,
} from '../peers/contest.js';
import { formatSpread, type GoalGroup, type GoalResult, type GoalSettings } from './goal.js';

/** How far ahead of other servers ours is, in the same run on the same cores. */
export const peerGroups: readonly GoalGroup[] = [
  {
    name: 'add_sub-peers',
    hasPeers: true,
    measure: (settings) =>
      compareWithPeers(settings, 'add_sub', 64, {
        'Triton, v2 binary': 6,
        'FastAPI, plain JSON': 15,
        'FastAPI, typed, plain JSON': 15,
        'MLServer, v2 JSON': 20,
      }),
  },
  {
    name: 'one-caller-peers',
    hasPeers: true,
    measure: (settings) => compareWithPeers(settings, 'add_sub', 1, { 'Triton, v2 binary': 1.3 }),
  },
  {
    name: 'image-json-peers',
    hasPeers: true,
    async measure(settings) {
      const results: GoalResult[] = [];
      for (const contest of ['image-json', 'image-json-long']) {
        results.push(
          ...(await compareWithPeers(settings, contest, 8, { 'FastAPI, plain JSON': 2 })),
        );
      }
      return results;
    },
  },
  { name: 'grpc-peers', hasPeers: true, measure: measureGrpc },
  { name: 'start-peers', hasPeers: true, measure: measureStarts },
];

/** Our first form against each named contestant. */
async function compareWithPeers(
  settings: GoalSettings,
  contestName: string,
  concurrency: number,
  limits: Readonly<Record<string, number>>,
): Promise<readonly GoalResult[]> {
  return withContestants(settings, contestName, Object.keys(limits), async (contestants) => {
    const rate = async ({ name, server, scenario }: Contestant): Promise<number> => {
      const load = createLoad(server.url, scenario);
      const report = await settings.client.run(load, concurrency, settings.seconds);
      if (report.errors > 0) throw new Error(`${name}: ${report.errors} errors`);
      return report.requestsPerSec;
    };
    for (const contestant of contestants) await rate(contestant);
    const rates = await measureInRounds(
      settings.rounds,
      contestants.map((contestant) => () => rate(contestant)),
    );
    for (const contestant of contestants) await checkContestant(contestant);
    const [ours = [], ...others] = rates;
    const callers = concurrency === 1 ? 'one caller' : `${concurrency} callers`;
    return contestants.slice(1).map(({ name }, index) => {
      const comparison = compareRounds(ours, others[index] ?? []);
      return {
        goal: {
          work: `${contestName}, ${callers}, over ${name}`,
          bound: 'at least',
          limit: limits[name] ?? Number.NaN,
          unit: 'x',
        },
        value: comparison.ratio,
        detail: `${formatSpread(comparison.ours)} of ${formatSpread(comparison.other)} requests/s`,
      };
    });
  });
}

/** Starts ours and the named peers alone; idle servers would take part of the cores. */
async function withContestants<T>(
  settings: GoalSettings,
  contestName: string,
  names: readonly string[],
  use: (contestants: readonly Contestant[]) => Promise<T>,
): Promise<T> {
  const scratch = join(settings.scratch, contestName);
  await mkdir(scratch);
  const contest = await createContest(contestName, settings.root, scratch);
  const peers = contest.peers.filter(({ name, wire }) => names.includes(`${name}, ${wire.name}`));
  const ourWires = contest.ourWires.slice(0, 1);
  const contestants = await startContestants(
    { ...contest, ourWires, peers },
    settings.root,
    scratch,
  );
  try {
    return await use(contestants);
  } finally {
    await stopContestants(contestants);
  }
}

const grpcCallers = 64;

async function measureGrpc(settings: GoalSettings): Promise<readonly GoalResult[]> {
  return withContestants(settings, 'add_sub', ['Triton, v2 binary'], async (contestants) => {
    const rates = await measureInRounds(
      settings.rounds,
      contestants.map(({ server }) => () => {
        if (server.grpcAddress === undefined) throw new Error('a peer without gRPC');
        return runPerfAnalyzer({
          root: settings.root,
          protocol: 'grpc',
          address: server.grpcAddress,
          model: 'add_sub',
          concurrency: grpcCallers,
          seconds: settings.seconds,
        });
      }),
    );
    const { ours, other, ratio } = compareRounds(rates[0] ?? [], rates[1] ?? []);
    return [
      {
        goal: {
          work: `add_sub by gRPC, ${grpcCallers} callers of perf_analyzer, over Triton`,
          bound: 'at least',
          limit: 2,
          unit: 'x',
        },
        value: ratio,
        detail: `${formatSpread(ours)} of ${formatSpread(other)} requests/s`,
      },
    ];
  });
}

/** From the start of the process to the first right answer: ours with all shipped models. */
async function measureStarts(settings: GoalSettings): Promise<readonly GoalResult[]> {
  const contest = await createContest('add_sub', settings.root, settings.scratch);
  let starts = 0;
  const timePeer = (peer: (typeof contest.peers)[number]) => async (): Promise<number> => {
    starts += 1;
    const directory = join(settings.scratch, `start-${starts}`);
    await mkdir(directory);
    const { model, modelFile, inputs, outputs } = contest.scenario;
    const models = [{ model, modelFile, inputs, outputs, maxBatchSize: 64, threads: 1 }];
    return timeStart(
      () => peer.start({ root: settings.root, directory, models }),
      (url) => checkAnswers(url, { ...contest.scenario, wire: peer.wire }, 1, 1),
    );
  };
  const [ours = [], ...others] = await measureInRounds(settings.rounds, [
    () =>
      timeStart(
        () => startNereid({ repositories: contest.repositories, hasGrpc: true, extraOptions: [] }),
        (url) => checkAnswers(url, contest.scenario, 1, 1),
      ),
    ...contest.peers.map(timePeer),
  ]);
  return contest.peers.map(({ name }, index) => {
    const comparison = compareRounds(others[index] ?? [], ours);
    return {
      goal: {
        work: `start to first answer of ${name}, over ours`,
        bound: 'at least',
        limit: 1,
        unit: 'x',
      },
      value: comparison.ratio,
      detail: `${formatSpread(comparison.ours)} of ${formatSpread(comparison.other)} s`,
    };
  });
}

interface StartedServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** Seconds. */
async function timeStart(
  start: () => Promise<StartedServer>,
  ask: (url: string) => Promise<void>,
): Promise<number> {
  const startMs = performance.now();
  const server = await start();
  try {
    await ask(server.url);
    return (performance.now() - startMs) / 1000;
  } finally {
    await server.stop();
  }
}
