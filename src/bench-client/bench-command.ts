import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../clock.js';
import { invalidArg } from '../errors.js';
import { ArrivalSchedule } from './arrival-schedule.js';
import type { BenchOptions, LoadOptions } from './bench-options.js';
import {
  type BenchStep,
  failureCount,
  formatCsv,
  formatEnsemble,
  formatFailures,
  formatNumber,
  formatSteps,
  jsonStep,
} from './bench-report.js';
import { ClosedLoop } from './closed-loop.js';
import { type CommandOutput, runNoting } from './command-output.js';
import type { Load, LoadSettings } from './load.js';
import { measureLoad } from './measurement.js';
import { OpenLoop } from './open-loop.js';
import { prepareCall } from './prepared-call.js';
import { createRandom } from './random.js';
import { reserveFile, writeJsonFile } from './result-file.js';
import { readCounts } from './server-counts.js';
import { sweep } from './sweep.js';
import { ThreadPacer } from './thread-pacer.js';
import { parseTarget, V2Server } from './v2-server.js';

/**
 * `nereid bench`: measures a model of any server of the v2 protocol under load, prints a table and
 * writes the files that are asked for. Returns the exit code: 1 where a request failed, or where
 * nothing could be measured.
 */
export async function runBench(options: BenchOptions, output: CommandOutput): Promise<number> {
  return runNoting(output, async () => {
    for (const file of [options.csvFile, options.jsonFile]) reserveFile(file);
    const target = parseTarget(options.url, options.call.headers, {
      authorities: readAuthorities(options.authoritiesFile),
      verifiesPeer: options.verifiesPeer,
    });
    const server = new V2Server(target);
    try {
      const steps = await runSweep(options, server, output);
      report(options, steps, output);
      return steps.some(({ measurement }) => failureCount(measurement) > 0) ? 1 : 0;
    } finally {
      server.close();
    }
  });
}

async function runSweep(
  options: BenchOptions,
  server: V2Server,
  output: CommandOutput,
): Promise<readonly BenchStep[]> {
  const { call, load, measurement } = options;
  const { messages, steps } = await prepareCall(server, call);
  const settings = { target: server.target, messages, clock: systemClock };
  output.note(
    `${call.model.name} at ${options.url}: ${call.inputFormat} tensors, ` +
      `${messages[0]?.byteLength ?? 0} bytes and ${call.batchSize} row(s) a request\n`,
  );
  const sweepSettings = {
    range: load.range,
    isBinarySearch: options.isBinarySearch,
    latencyThresholdNs: options.latencyThresholdMs * 1e6,
  };
  return sweep(sweepSettings, async (level) => {
    output.note(`measuring ${load.kind} ${formatNumber(level)} ...\n`);
    return measureLoad(
      {
        load: openLoad(settings, load, level, call.seed),
        readCounts: () => readCounts(server, call.model, steps),
        wait: delay,
      },
      measurement,
    );
  });
}

function openLoad(settings: LoadSettings, load: LoadOptions, level: number, seed: number): Load {
  switch (load.kind) {
    case 'concurrency':
      return new ClosedLoop(settings, level);
    case 'request-rate': {
      const startsSchedule = (startNs: number): ArrivalSchedule =>
        new ArrivalSchedule(startNs, level, load.distribution, createRandom(seed));
      return new OpenLoop(settings, new ThreadPacer(), load.connectionsMax, startsSchedule);
    }
  }
}

function report(
  options: BenchOptions,
  steps: readonly BenchStep[],
  { print, note }: CommandOutput,
): void {
  const { kind } = options.load;
  print(formatSteps(kind, steps));
  print(formatEnsemble(steps));
  if (options.csvFile !== '') writeFileSync(options.csvFile, formatCsv(kind, steps));
  writeJsonFile(options.jsonFile, {
    model: options.call.model.name,
    url: options.url,
    level: kind,
    batch_size: options.call.batchSize,
    steps: steps.map(jsonStep),
  });
  note(formatFailures(steps));
}

function readAuthorities(file: string): string | undefined {
  if (file === '') return undefined;
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw invalidArg(`cannot read '${file}': ${error instanceof Error ? error.message : error}`);
  }
}
