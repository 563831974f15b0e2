import { checkAnswers, createLoad, readCounts } from '../answer-check.js';
import { startNereid } from '../child-server.js';
import { measureInRounds, summarize } from '../interleaved.js';
import { threadClock } from '../load/arrival-clock.js';
import { runOpenLoop } from '../load/open-loop.js';
import { writeMlpCopy, writeMlpRepository } from '../mlp-model.js';
import type { Scenario } from '../scenario.js';
import { createMlp } from '../scenarios.js';
import { formatSpread, type GoalGroup, type GoalResult, type GoalSettings } from './goal.js';

/**
 * A delay that the server chooses for a target of latency, against fixed ones, over a load like a
 * day's. A fixed delay is right at one hour: a long one misses the target when it is busy, a short
 * one runs more executions than needed when it is not.
 */
export const adaptiveGroups: readonly GoalGroup[] = [
  { name: 'adaptive-delay', hasPeers: false, measure: measureAdaptive },
];

const targetMs = 40;
/** Requests/s from night to noon and back; what arrives at noon needs batches to keep up. */
const day: readonly number[] = [50, 200, 800, 1600, 800, 200];
const fixedDelaysMs: readonly number[] = [0, 5, 10, 20, 30];
const connections = 256;

interface DayReport {
  readonly worstP95Ms: number;
  readonly executions: number;
  readonly errors: number;
}

async function measureAdaptive(settings: GoalSettings): Promise<readonly GoalResult[]> {
  const { scratch, isQuick, rounds } = settings;
  const modelFile = await writeMlpRepository(scratch);
  const scenario = await createMlp(modelFile);
  const delays = isQuick ? [5] : fixedDelaysMs;
  const adaptive = { ...scenario, model: 'mlp_adaptive' };
  const target = `parameters { key: "latency_target_ms" value { string_value: "${targetMs}" } }`;
  await writeMlpCopy(scratch, adaptive.model, '', target);
  const fixed: Scenario[] = [];
  for (const delayMs of delays) {
    const model = `mlp_${delayMs}ms`;
    await writeMlpCopy(scratch, model, `max_queue_delay_microseconds: ${delayMs * 1000}`, '');
    fixed.push({ ...scenario, model });
  }
  const server = await startNereid({ repositories: [scratch], hasGrpc: false, extraOptions: [] });
  try {
    const models = [adaptive, ...fixed];
    for (const model of models) await checkAnswers(server.url, model, 8, 4);
    const reports = models.map((): DayReport[] => []);
    await measureInRounds(
      rounds,
      models.map((model, index) => async () => {
        const report = await liveOneDay(server.url, model, settings);
        if (report.errors > 0) throw new Error(`${model.model}: ${report.errors} errors`);
        reports[index]?.push(report);
        return report.worstP95Ms;
      }),
    );
    for (const model of models) await checkAnswers(server.url, model, 8, 4);
    return summarizeDays(reports, delays);
  } finally {
    await server.stop();
  }
}

async function liveOneDay(
  serverUrl: string,
  scenario: Scenario,
  { seconds }: GoalSettings,
): Promise<DayReport> {
  const requests = [createLoad(serverUrl, scenario)];
  const before = await readCounts(serverUrl, scenario);
  let worstP95Ms = 0;
  let errors = 0;
  for (const requestsPerSec of day) {
    const load = { requests, requestsPerSec, connections, seconds };
    const report = await runOpenLoop(load, threadClock);
    worstP95Ms = Math.max(worstP95Ms, report.p95Ms);
    errors += report.errors;
  }
  const after = await readCounts(serverUrl, scenario);
  return { worstP95Ms, errors, executions: after.executions - before.executions };
}

/** The first of `reports` is the adaptive one's, the others belong to `delaysMs`. */
function summarizeDays(
  [adaptive = [], ...fixed]: readonly (readonly DayReport[])[],
  delaysMs: readonly number[],
): readonly GoalResult[] {
  const p95OverTarget = (days: readonly DayReport[]) =>
    summarize(days.map(({ worstP95Ms }) => worstP95Ms / targetMs));
  const executions = (days: readonly DayReport[]) => summarize(days.map((one) => one.executions));
  const lines = fixed.map((days, index) => ({
    delayMs: delaysMs[index] ?? 0,
    p95: p95OverTarget(days),
    executions: executions(days),
  }));
  const kept = lines.filter(({ p95 }) => p95.median <= 1);
  const best = kept.reduce<(typeof lines)[number] | undefined>(
    (left, right) =>
      left === undefined || right.executions.median < left.executions.median ? right : left,
    undefined,
  );
  const ours = executions(adaptive);
  const described = lines
    .map((line) => `${line.delayMs} ms: ${line.p95.median.toFixed(2)}, ${line.executions.median}`)
    .join('; ');
  const spread = best === undefined ? 0 : best.executions.median;
  const relative = (value: number): number => (spread === 0 ? 0 : value / spread);
  return [
    {
      goal: {
        work: `MLP over a day of ${day.join(', ')} requests/s, p95 of the worst hour over the target of ${targetMs} ms`,
        bound: 'at most',
        limit: 1,
        unit: 'x',
      },
      value: p95OverTarget(adaptive),
      detail: `fixed delays (p95 over target, executions): ${described}`,
    },
    {
      goal: {
        work: 'executions of that day over those of the best fixed delay that meets the target',
        bound: 'at most',
        limit: 1,
        unit: 'x',
      },
      value: {
        median: relative(ours.median),
        min: relative(ours.min),
        max: relative(ours.max),
      },
      detail: `${formatSpread(ours)} executions, ${
        best === undefined
          ? 'no fixed delay meets the target'
          : `${formatSpread(best.executions)} at ${best.delayMs} ms`
      }`,
    },
  ];
}
