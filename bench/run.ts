import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { checkAnswers, createLoad, readCounts } from './answer-check.js';
import { type ChildServer, startEcho, startNereid } from './child-server.js';
import { measureOnnxLoop } from './limits.js';
import { chooseClient } from './load/choose-client.js';
import type { LoadClient, LoadReport } from './load/load-report.js';
import { describeMachine } from './machine.js';
import { writeMlpRepository } from './mlp-model.js';
import {
  type BenchResult,
  formatResult,
  type Measurement,
  median,
  medianReport,
} from './report.js';
import type { Scenario } from './scenario.js';
import { createScenarios } from './scenarios.js';

const usage = `Usage: npm run bench -- [options]
  --quick            short: checks every answer, measures for a second each
  --seconds=N        seconds of load for each line (5)
  --rounds=N         interleaved rounds; medians are shown (1)
  --client=NAME      wrk or autocannon (wrk where it is installed)
  --only=TEXT        only work whose name contains TEXT
  --json=FILE        write the result as JSON too
`;

/** dist/bench/run.js → the project's folder. */
const root = fileURLToPath(new URL('../../', import.meta.url));
const batchSizes = [1, 4, 16, 32, 64];

interface BenchSettings {
  readonly seconds: number;
  readonly rounds: number;
  readonly concurrencies: readonly number[];
  readonly client: LoadClient;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      seconds: { type: 'string' },
      rounds: { type: 'string', default: '1' },
      client: { type: 'string' },
      only: { type: 'string', default: '' },
      json: { type: 'string' },
    },
  });
  if (values.help) {
    process.stdout.write(usage);
    return;
  }
  const settings: BenchSettings = {
    seconds: Number(values.seconds ?? (values.quick ? 1 : 5)),
    rounds: Number(values.rounds),
    concurrencies: values.quick ? [16] : [1, 16, 64, 256],
    client: await chooseClient(values.client),
  };
  const directory = await mkdtemp(join(tmpdir(), 'nereid-bench-'));
  try {
    const scenarios = await createScenarios(root, await writeMlpRepository(directory));
    const chosen = scenarios.filter(({ name }) => name.includes(values.only));
    const result = await measureAll([join(root, 'model_repository'), directory], chosen, settings);
    process.stdout.write(`${formatResult(result)}`);
    if (values.json !== undefined) {
      await writeFile(values.json, `${JSON.stringify(result, undefined, 2)}\n`);
    }
    const errors = result.measurements.reduce((sum, { server }) => sum + server.errors, 0);
    if (errors > 0) process.exitCode = 1;
  } finally {
    await rm(directory, { recursive: true });
  }
}

async function measureAll(
  repositories: readonly string[],
  scenarios: readonly Scenario[],
  settings: BenchSettings,
): Promise<BenchResult> {
  const echo = await startEcho();
  const nereid = await startNereid({ repositories, hasGrpc: false, extraOptions: [] });
  try {
    for (const scenario of scenarios) await checkAnswers(nereid.url, scenario, 32, 20);
    const measurements: Measurement[] = [];
    for (const scenario of scenarios) {
      for (const concurrency of settings.concurrencies) {
        measurements.push(await measure(scenario, concurrency, nereid, echo, settings));
      }
    }
    // Answers under load are counted by status only, so they are looked at once more afterwards.
    for (const scenario of scenarios) await checkAnswers(nereid.url, scenario, 32, 20);
    return {
      client: settings.client.name,
      machine: describeMachine(root),
      secondsEach: settings.seconds,
      rounds: settings.rounds,
      serverStartMs: nereid.startMs,
      measurements,
      onnxLoops: await measureLoops(scenarios, settings.seconds),
    };
  } finally {
    await nereid.stop();
    await echo.stop();
  }
}

/** Server and echo take turns, so that both see the same machine. */
async function measure(
  scenario: Scenario,
  concurrency: number,
  nereid: ChildServer,
  echo: ChildServer,
  { client, rounds, seconds }: BenchSettings,
): Promise<Measurement> {
  const server: LoadReport[] = [];
  const echoes: LoadReport[] = [];
  const averageBatches: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const before = await readCounts(nereid.url, scenario);
    const request = createLoad(nereid.url, scenario);
    server.push(await client.run(request, concurrency, seconds));
    const after = await readCounts(nereid.url, scenario);
    averageBatches.push((after.rows - before.rows) / (after.executions - before.executions));
    echoes.push(await client.run({ ...request, url: echo.url }, concurrency, seconds));
  }
  const rates = server.map(({ requestsPerSec }) => requestsPerSec);
  return {
    scenario: scenario.name,
    concurrency,
    server: medianReport(server),
    averageBatch: median(averageBatches),
    echo: medianReport(echoes),
    serverSpread: [Math.min(...rates), Math.max(...rates)],
  };
}

async function measureLoops(
  scenarios: readonly Scenario[],
  seconds: number,
): Promise<BenchResult['onnxLoops']> {
  const loops: Record<string, BenchResult['onnxLoops'][string]> = {};
  for (const scenario of scenarios) {
    loops[scenario.name] = await measureOnnxLoop(scenario, batchSizes, 1, Math.min(seconds, 2));
  }
  return loops;
}

await main();
