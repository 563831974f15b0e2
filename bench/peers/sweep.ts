import { createLoad } from '../answer-check.js';
import { measureInRounds, type Spread, summarize } from '../interleaved.js';
import { threadClock } from '../load/arrival-clock.js';
import type { LoadClient, LoadReport } from '../load/load-report.js';
import { runOpenLoop } from '../load/open-loop.js';
import { medianReport } from '../report.js';
import type { Contestant } from './contest.js';

/** One server under one load: medians over the rounds. */
export interface SweepPoint {
  readonly contest: string;
  readonly server: string;
  /** Callers that each wait for their answer, or requests a second that come anyway. */
  readonly load: { readonly kind: 'closed' | 'open'; readonly value: number };
  readonly client: string;
  readonly report: LoadReport;
  readonly requestsPerSec: Spread;
  readonly p99Ms: Spread;
}

export interface SweepSettings {
  readonly contest: string;
  readonly rounds: number;
  readonly seconds: number;
  readonly client: LoadClient;
}

/** All servers at each concurrency, in turns. */
export async function sweepClosed(
  contestants: readonly Contestant[],
  concurrencies: readonly number[],
  settings: SweepSettings,
): Promise<readonly SweepPoint[]> {
  const { client, seconds } = settings;
  const points: SweepPoint[] = [];
  for (const concurrency of concurrencies) {
    const load = { kind: 'closed', value: concurrency } as const;
    points.push(
      ...(await measurePoints(contestants, { ...settings, load, client: client.name }, (one) =>
        client.run(createLoad(one.server.url, one.scenario), concurrency, seconds),
      )),
    );
  }
  return points;
}

const openConnections = 64;

/** All servers at each constant arrival rate; latency counts from when a request was due. */
export async function sweepOpen(
  contestants: readonly Contestant[],
  rates: readonly number[],
  settings: SweepSettings,
): Promise<readonly SweepPoint[]> {
  const points: SweepPoint[] = [];
  for (const requestsPerSec of rates) {
    const load = { kind: 'open', value: requestsPerSec } as const;
    points.push(
      ...(await measurePoints(contestants, { ...settings, load, client: 'open loop' }, (one) =>
        runOpenLoop(
          {
            requests: [createLoad(one.server.url, one.scenario)],
            requestsPerSec,
            connections: openConnections,
            seconds: settings.seconds,
          },
          threadClock,
        ),
      )),
    );
  }
  return points;
}

async function measurePoints(
  contestants: readonly Contestant[],
  {
    contest,
    rounds,
    load,
    client,
  }: Pick<SweepPoint, 'contest' | 'load' | 'client'> & {
    readonly rounds: number;
  },
  run: (contestant: Contestant) => Promise<LoadReport>,
): Promise<readonly SweepPoint[]> {
  const reports = contestants.map((): LoadReport[] => []);
  await measureInRounds(
    rounds,
    contestants.map((contestant, index) => async () => {
      const report = await run(contestant);
      reports[index]?.push(report);
      return report.requestsPerSec;
    }),
  );
  return contestants.map(({ name }, index) => {
    const own = reports[index] ?? [];
    return {
      contest,
      server: name,
      load,
      client,
      report: medianReport(own),
      requestsPerSec: summarize(own.map(({ requestsPerSec }) => requestsPerSec)),
      p99Ms: summarize(own.map(({ p99Ms }) => p99Ms)),
    };
  });
}
