import { join } from 'node:path';
import { checkAnswers, createLoad } from '../answer-check.js';
import { startNereid } from '../child-server.js';
import { imageDims, modelFileIn, writeImageRepository } from '../image-models.js';
import { compareInRounds } from '../interleaved.js';
import { createOnnxScenario } from '../onnx-scenario.js';
import { environmentFolder } from '../peers/peer.js';
import { startTriton, writePythonModel } from '../peers/triton-peer.js';
import type { Scenario } from '../scenario.js';
import { createAddSub } from '../scenarios.js';
import { v2Binary } from '../wire-form.js';
import { formatSpread, type GoalGroup, type GoalResult, type GoalSettings } from './goal.js';

/** The same model.py in our server and in the reference server, with the same Python and numpy. */
export const pythonGroups: readonly GoalGroup[] = [
  { name: 'python-peers', hasPeers: true, measure: measurePython },
];

interface PythonWork {
  readonly scenario: Scenario;
  readonly source: string;
  /** 0: a model without batches, whose inputs have no batch dimension of their own. */
  readonly maxBatchSize: number;
  readonly concurrency: number;
  readonly limit: number;
}

async function measurePython(settings: GoalSettings): Promise<readonly GoalResult[]> {
  const repository = join(settings.scratch, 'python');
  const works = await createWorks(settings);
  for (const { scenario, source, maxBatchSize } of works) {
    const { model, modelFile, inputs, outputs } = scenario;
    await writePythonModel(
      repository,
      { model, modelFile, inputs, outputs, maxBatchSize, threads: 1 },
      join(settings.root, 'bench/peers', source),
    );
  }
  const python = join(environmentFolder(settings.root, 'triton'), 'bin/python');
  const ours = await startNereid({
    repositories: [repository],
    hasGrpc: false,
    extraOptions: [`--backend-config=python,interpreter=${python}`],
  });
  try {
    const triton = await startTriton(settings.root, repository);
    try {
      const results: GoalResult[] = [];
      for (const work of works) {
        results.push(await compareWork(settings, work, ours.url, triton.url));
      }
      return results;
    } finally {
      await triton.stop();
    }
  } finally {
    await ours.stop();
  }
}

async function createWorks(settings: GoalSettings): Promise<readonly PythonWork[]> {
  await writeImageRepository(settings.scratch);
  const image = await createOnnxScenario({
    name: 'identity in Python, 602 kB',
    model: 'identity',
    modelFile: modelFileIn(settings.scratch, 'identity_onnx'),
    input: 'images',
    dims: imageDims,
    wire: v2Binary,
  });
  const addSub = { source: 'python_add_sub.py', concurrency: 64, limit: 2 };
  const batched = { ...createAddSub(settings.root, 'batch_add'), name: 'batch_add in Python' };
  return [
    { ...addSub, scenario: withoutBatch(createAddSub(settings.root)), maxBatchSize: 0 },
    { ...addSub, scenario: batched, maxBatchSize: 64 },
    { scenario: image, source: 'python_identity.py', maxBatchSize: 8, concurrency: 8, limit: 1 },
  ];
}

/** The same numbers to a model whose tensors are [16] alone. */
function withoutBatch(scenario: Scenario): Scenario {
  return {
    ...scenario,
    name: 'add_sub in Python, no batches',
    createInputs: (seed) =>
      scenario.createInputs(seed).map(({ name, shape, data }) => ({
        name,
        shape: shape.slice(1),
        data,
      })),
  };
}

async function compareWork(
  { client, rounds, seconds }: GoalSettings,
  { scenario, concurrency, limit }: PythonWork,
  ourUrl: string,
  tritonUrl: string,
): Promise<GoalResult> {
  const urls = [ourUrl, tritonUrl];
  for (const url of urls) await checkAnswers(url, scenario, 8, 4);
  const rate = async (url: string): Promise<number> => {
    const report = await client.run(createLoad(url, scenario), concurrency, seconds);
    if (report.errors > 0) throw new Error(`${scenario.name}: ${report.errors} errors of ${url}`);
    return report.requestsPerSec;
  };
  for (const url of urls) await rate(url);
  const comparison = await compareInRounds(
    rounds,
    () => rate(ourUrl),
    () => rate(tritonUrl),
  );
  for (const url of urls) await checkAnswers(url, scenario, 8, 4);
  return {
    goal: {
      work: `${scenario.name}, ${concurrency} callers, over Triton with the same model.py`,
      bound: 'at least',
      limit,
      unit: 'x',
    },
    value: comparison.ratio,
    detail: `${formatSpread(comparison.ours)} of ${formatSpread(comparison.other)} requests/s`,
  };
}
