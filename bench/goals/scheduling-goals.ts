import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checkAnswers, createLoad } from '../answer-check.js';
import { type ChildServer, startNereid } from '../child-server.js';
import { type Comparison, compareInRounds } from '../interleaved.js';
import { writeMlpRepository } from '../mlp-model.js';
import { readUsage } from '../process-usage.js';
import { expectClose, type Scenario } from '../scenario.js';
import { createAddSub, createMlp } from '../scenarios.js';
import { formatSpread, type GoalGroup, type GoalResult, type GoalSettings } from './goal.js';

/** What batches, steps of ensembles and cached answers cost, compared in the same server. */
export const schedulingGroups: readonly GoalGroup[] = [
  { name: 'batching', hasPeers: false, measure: measureBatching },
  { name: 'ensemble-step', hasPeers: false, measure: measureEnsemble },
  { name: 'cache-hit', hasPeers: false, measure: measureCache },
];

const rateOf = ({ requestsPerSec }: Run): number => requestsPerSec;
const costOf = ({ cpuUs }: Run): number => cpuUs;

const concurrency = 64;
const chainSteps = 4;

async function measureBatching(settings: GoalSettings): Promise<readonly GoalResult[]> {
  const { scratch } = settings;
  const modelFile = await writeMlpRepository(scratch);
  const batched = await createMlp(modelFile);
  const config = await readFile(join(scratch, 'mlp', 'config.pbtxt'), 'utf8');
  // One row an execution: what a server without a batcher does.
  const alone = config
    .replace('max_batch_size: 64', 'max_batch_size: 1')
    .replace('dynamic_batching { }', '');
  await writeModelCopy(scratch, 'mlp_alone', alone, modelFile);
  return withServer(scratch, [], async (server) => {
    const { ours, other, ratio } = await compare(settings, server, rateOf, batched, {
      ...batched,
      model: 'mlp_alone',
    });
    return [
      {
        goal: {
          work: `MLP, ${concurrency} callers, with dynamic batching over without`,
          bound: 'at least',
          limit: 3,
          unit: 'x',
        },
        value: ratio,
        detail: `${formatSpread(ours)} of ${formatSpread(other)} requests/s`,
      },
    ];
  });
}

/**
 * What the ensemble itself costs is the difference between a request to add_sub and one to an
 * ensemble of that one step; what a further step costs, its execution included, comes from a chain.
 */
async function measureEnsemble(settings: GoalSettings): Promise<readonly GoalResult[]> {
  const plain = await writeAddSub(settings, 'add_sub', '');
  const lone = await writeChain(settings.scratch, plain, 1);
  const chain = await writeChain(settings.scratch, plain, chainSteps);
  return withServer(settings.scratch, [], async (server) => {
    const results: GoalResult[] = [];
    for (const [ensemble, steps, work] of [
      [lone, 1, 'what an ensemble adds to its step, over the request to the step alone'],
      [chain, chainSteps, 'what each of 4 steps adds, executions included, over one request'],
    ] as const) {
      const { ours, other, ratio } = await compare(settings, server, costOf, ensemble, plain);
      const added = (costs: number): number => (costs - 1) / steps;
      results.push({
        goal: {
          work: `add_sub, ${concurrency} callers, ${work}`,
          bound: 'at most',
          limit: 0.25,
          unit: 'x',
        },
        value: { median: added(ratio.median), min: added(ratio.min), max: added(ratio.max) },
        detail: `${formatSpread(ours)} of ${formatSpread(other)} µs of processor time`,
      });
    }
    return results;
  });
}

async function measureCache(settings: GoalSettings): Promise<readonly GoalResult[]> {
  const plain = await writeAddSub(settings, 'add_sub', '');
  const cached = await writeAddSub(settings, 'add_sub_cached', 'response_cache { enable: true }\n');
  const options = ['--cache-config=local,size=16777216'];
  return withServer(settings.scratch, options, async (server) => {
    const { ours, other, ratio } = await compare(settings, server, costOf, cached, plain);
    return [
      {
        goal: {
          work: `add_sub, ${concurrency} callers, an answer from the cache over a computed one`,
          bound: 'at most',
          limit: 0.6,
          unit: 'x',
        },
        value: ratio,
        detail: `${formatSpread(ours)} of ${formatSpread(other)} µs of processor time`,
      },
    ];
  });
}

/** What one run of a load took. */
interface Run {
  readonly requestsPerSec: number;
  /** Processor time of the server for one request, all its threads. */
  readonly cpuUs: number;
}

/**
 * Two models of one server in turns, their answers checked before and after. Costs are compared by
 * processor time: the rate of a cheap request is the load client's.
 */
async function compare(
  { client, rounds, seconds }: GoalSettings,
  server: ChildServer,
  of: (run: Run) => number,
  ours: Scenario,
  other: Scenario,
): Promise<Comparison> {
  const rate = async (scenario: Scenario): Promise<number> => {
    const beforeSecs = readUsage(server.pid).cpuSecs;
    const report = await client.run(createLoad(server.url, scenario), concurrency, seconds);
    const usedSecs = readUsage(server.pid).cpuSecs - beforeSecs;
    if (report.errors > 0) throw new Error(`${scenario.name}: ${report.errors} errors`);
    const { requestsPerSec } = report;
    return of({ requestsPerSec, cpuUs: (usedSecs * 1e6) / (requestsPerSec * seconds) });
  };
  const checkBoth = async (): Promise<void> => {
    for (const scenario of [ours, other]) await checkAnswers(server.url, scenario, 8, 4);
  };
  await checkBoth();
  await rate(ours);
  await rate(other);
  const comparison = await compareInRounds(
    rounds,
    () => rate(ours),
    () => rate(other),
  );
  await checkBoth();
  return comparison;
}

async function withServer<T>(
  repository: string,
  extraOptions: readonly string[],
  use: (server: ChildServer) => Promise<T>,
): Promise<T> {
  const server = await startNereid({ repositories: [repository], hasGrpc: false, extraOptions });
  try {
    return await use(server);
  } finally {
    await server.stop();
  }
}

/** A copy of the shipped add_sub with `extra` in its configuration. */
async function writeAddSub(
  { root, scratch }: GoalSettings,
  name: string,
  extra: string,
): Promise<Scenario> {
  const config = await readFile(join(root, 'model_repository/add_sub/config.pbtxt'), 'utf8');
  const scenario = createAddSub(root, name);
  await writeModelCopy(scratch, name, `${config}${extra}`, scenario.modelFile);
  return { ...scenario, name };
}

async function writeModelCopy(
  repository: string,
  name: string,
  config: string,
  modelFile: string,
): Promise<void> {
  await mkdir(join(repository, name, '1'), { recursive: true });
  await writeFile(join(repository, name, 'config.pbtxt'), config);
  await copyFile(modelFile, join(repository, name, '1', 'model.onnx'));
}

/** add_sub steps one behind the other: two of them double both inputs. */
async function writeChain(repository: string, plain: Scenario, steps: number): Promise<Scenario> {
  const model = `chain_${steps}`;
  const tensor = (step: number, side: number): string => {
    if (step === 0) return `INPUT${side}`;
    return step === steps ? `OUTPUT${side}` : `step${step}_${side}`;
  };
  const sides = [0, 1];
  const describe = (kind: string): string =>
    sides
      .map(
        (side) => `${kind.toLowerCase()} { name: "${kind}${side}" data_type: TYPE_FP32 dims: 16 }`,
      )
      .join('\n');
  const map = (field: string, key: string, step: number): string =>
    sides
      .map((side) => `${field} { key: "${key}${side}" value: "${tensor(step, side)}" }`)
      .join(' ');
  const stepTexts = Array.from(
    { length: steps },
    (_, step) =>
      `step { model_name: "add_sub" model_version: -1 ${map('input_map', 'INPUT', step)} ` +
      `${map('output_map', 'OUTPUT', step + 1)} }`,
  );
  const config = `platform: "ensemble"
max_batch_size: 128
${describe('INPUT')}
${describe('OUTPUT')}
ensemble_scheduling { ${stepTexts.join('\n')} }
`;
  await mkdir(join(repository, model, '1'), { recursive: true });
  await writeFile(join(repository, model, 'config.pbtxt'), config);
  if (steps % 2 === 1) return { ...plain, name: model, model };
  const factor = 2 ** (steps / 2);
  return {
    ...plain,
    name: model,
    model,
    check(seed, outputs) {
      for (const { name, data } of plain.createInputs(seed)) {
        const expected = Float32Array.from(data, (value) => value * factor);
        expectClose(name.replace('INPUT', 'OUTPUT'), outputs, expected);
      }
    },
  };
}
