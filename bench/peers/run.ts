import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chooseClient } from '../load/choose-client.js';
import { describeMachine, type Machine } from '../machine.js';
import {
  checkContestant,
  contestNames,
  createContest,
  startContestants,
  stopContestants,
} from './contest.js';
import { type SweepPoint, sweepClosed, sweepOpen } from './sweep.js';
import { formatPoints, mergePoints, plotPoints } from './sweep-report.js';

const usage = `Usage: npm run bench:peers -- [options] [contest ...]
Our server beside others, which bench/peers/setup.sh installs: in turns, in one run.
  --concurrency=N,N  callers that each wait for their answer
  --rate=N,N         requests a second that come whatever the server does, instead
  --rounds=N         interleaved rounds (5)
  --seconds=N        seconds of load for each number (2)
  --client=NAME      wrk or autocannon (wrk where it is installed)
  --results=DIR      add to DIR/CONTEST.json, and draw its curves beside it
Contests: ${contestNames.join(' ')}
`;

/** dist/bench/peers/run.js → the project's folder. */
const root = fileURLToPath(new URL('../../../', import.meta.url));

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      help: { type: 'boolean', default: false },
      concurrency: { type: 'string' },
      rate: { type: 'string' },
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '2' },
      client: { type: 'string' },
      results: { type: 'string' },
    },
  });
  const unknown = positionals.filter((name) => !contestNames.includes(name));
  if (values.help || unknown.length > 0) {
    process.stdout.write(usage);
    process.exitCode = values.help ? 0 : 2;
    return;
  }
  for (const name of positionals.length > 0 ? positionals : contestNames) {
    const points = await runContest(name, {
      concurrencies: parseNumbers(values.concurrency),
      rates: parseNumbers(values.rate),
      rounds: Number(values.rounds),
      seconds: Number(values.seconds),
      client: values.client,
    });
    process.stdout.write(`\n## ${name}, client ${points[0]?.client}\n\n${formatPoints(points)}\n`);
    if (values.results !== undefined) await keepResults(values.results, name, points);
  }
}

interface RunOptions {
  readonly concurrencies: readonly number[] | undefined;
  readonly rates: readonly number[] | undefined;
  readonly rounds: number;
  readonly seconds: number;
  readonly client: string | undefined;
}

async function runContest(name: string, options: RunOptions): Promise<readonly SweepPoint[]> {
  const scratch = await mkdtemp(join(tmpdir(), 'nereid-peers-'));
  try {
    const contest = await createContest(name, root, scratch);
    const contestants = await startContestants(contest, root, scratch);
    try {
      const client = await chooseClient(options.client);
      const settings = { contest: name, client, rounds: options.rounds, seconds: options.seconds };
      const points =
        options.rates === undefined
          ? await sweepClosed(contestants, options.concurrencies ?? contest.concurrencies, settings)
          : await sweepOpen(contestants, options.rates, settings);
      // Load is counted by status only, so answers are looked at once more.
      for (const contestant of contestants) await checkContestant(contestant);
      return points;
    } finally {
      await stopContestants(contestants);
    }
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** What DIR/CONTEST.json holds. */
interface KeptResults {
  /** Of the latest run. */
  readonly machine: Machine;
  readonly points: readonly SweepPoint[];
}

async function keepResults(
  directory: string,
  name: string,
  newer: readonly SweepPoint[],
): Promise<void> {
  await mkdir(directory, { recursive: true });
  const file = join(directory, `${name}.json`);
  // Written by an earlier run of this program.
  const older = existsSync(file)
    ? (JSON.parse(await readFile(file, 'utf8')) as KeptResults).points
    : [];
  const kept: KeptResults = { machine: describeMachine(root), points: mergePoints(older, newer) };
  await writeFile(file, `${JSON.stringify(kept, undefined, 1)}\n`);
  for (const kind of ['closed', 'open'] as const) {
    const picture = plotPoints(`${name}, ${kind} loop`, kind, kept.points);
    if (picture !== undefined) await writeFile(join(directory, `${name}-${kind}.svg`), picture);
  }
}

function parseNumbers(text: string | undefined): readonly number[] | undefined {
  return text?.split(',').map(Number);
}

await main();
