import { mkdir } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { checkAnswers } from '../answer-check.js';
import { startNereid } from '../child-server.js';
import {
  createEfficientNetScenario,
  imageDims,
  modelFileIn,
  writeImageRepository,
} from '../image-models.js';
import { writeMlpRepository } from '../mlp-model.js';
import { createOnnxScenario } from '../onnx-scenario.js';
import type { Scenario } from '../scenario.js';
import { createAddSub, createMlp } from '../scenarios.js';
import { v2Binary, v2Json, type WireForm, withDecimals } from '../wire-form.js';
import { fastApi, litServe, mlServer, typedFastApi } from './json-peers.js';
import type { Peer, PeerModel, PeerServer } from './peer.js';
import { triton } from './triton-peer.js';

/** A kind of work that several servers do, each in the wire form that it is quickest with. */
export interface Contest {
  readonly name: string;
  readonly scenario: Scenario;
  /** Of our server; two where both are worth seeing. */
  readonly ourWires: readonly WireForm[];
  /** Model repositories of our server. */
  readonly repositories: readonly string[];
  readonly peers: readonly Peer[];
  /** Makes a peer's form that of the contest. */
  readonly adaptWire: (wire: WireForm) => WireForm;
  readonly maxBatchSize: number;
  readonly threads: number;
  readonly concurrencies: readonly number[];
}

/** A started server that has answered rightly. */
export interface Contestant {
  readonly name: string;
  readonly server: PeerServer;
  /** The work in this server's form. */
  readonly scenario: Scenario;
}

const allPeers = [triton, fastApi, typedFastApi, litServe, mlServer];
const checkClients = 8;
const checkRequests = 4;

export const contestNames = ['add_sub', 'mlp', 'efficientnet', 'image-json', 'image-json-long'];

/** Writes what the contest needs into `scratch`, an empty folder. */
export async function createContest(name: string, root: string, scratch: string): Promise<Contest> {
  const small = {
    name,
    ourWires: [v2Binary, v2Json],
    repositories: [scratch],
    peers: allPeers,
    adaptWire: (wire: WireForm) => wire,
    maxBatchSize: 64,
    threads: 1,
    concurrencies: [1, 4, 16, 64, 256],
  };
  switch (name) {
    case 'add_sub':
      return {
        ...small,
        scenario: createAddSub(root),
        repositories: [join(root, 'model_repository')],
        maxBatchSize: 128,
      };
    case 'mlp':
      return { ...small, scenario: await createMlp(await writeMlpRepository(scratch)) };
    case 'efficientnet':
      return createEfficientNet(root, scratch, {
        ...small,
        ourWires: [v2Binary],
        peers: allPeers.filter((peer) => peer !== typedFastApi),
      });
    case 'image-json':
      return createImageJson(scratch, { ...small, adaptWire: (wire) => withDecimals(wire, 7) });
    case 'image-json-long':
      return createImageJson(scratch, small);
    default:
      throw new Error(`there is no contest '${name}', only ${contestNames.join(', ')}`);
  }
}

type ContestRest = Omit<Contest, 'scenario'>;

async function createEfficientNet(
  root: string,
  scratch: string,
  rest: ContestRest,
): Promise<Contest> {
  const threads = availableParallelism();
  const scenario = await createEfficientNetScenario(root, scratch, threads);
  const repositories = [join(scratch, 'repository')];
  return { ...rest, scenario, repositories, threads, maxBatchSize: 8, concurrencies: [1, 4, 16] };
}

/** The means of a picture's colours: nearly all of the work is reading the numbers. */
async function createImageJson(scratch: string, rest: ContestRest): Promise<Contest> {
  await writeImageRepository(scratch);
  const scenario = await createOnnxScenario({
    name: 'means of a picture, JSON',
    model: 'image_mean',
    modelFile: modelFileIn(scratch, 'image_mean'),
    input: 'images',
    dims: imageDims,
    wire: v2Json,
  });
  return {
    ...rest,
    scenario,
    ourWires: [v2Json],
    peers: [fastApi, litServe, mlServer],
    maxBatchSize: 8,
    concurrencies: [1, 4, 16],
  };
}

/** Starts our server and the peers, and compares the answers of all before anything is timed. */
export async function startContestants(
  contest: Contest,
  root: string,
  scratch: string,
): Promise<readonly Contestant[]> {
  const { scenario, ourWires, repositories, peers, adaptWire } = contest;
  const started: Contestant[] = [];
  try {
    const ours = await startNereid({ repositories, hasGrpc: true, extraOptions: [] });
    for (const wire of ourWires) {
      const name = `Nereid, ${wire.name}`;
      started.push({ name, server: ours, scenario: { ...scenario, wire: adaptWire(wire) } });
    }
    for (const peer of peers) {
      const directory = join(scratch, `peer-${peer.name}`);
      await mkdir(directory);
      const server = await peer.start({ root, directory, models: [describeModel(contest)] });
      const wire = adaptWire(peer.wire);
      started.push({ name: `${peer.name}, ${wire.name}`, server, scenario: { ...scenario, wire } });
    }
    for (const contestant of started) await checkContestant(contestant);
    return started;
  } catch (error) {
    await stopContestants(started);
    throw error;
  }
}

export function checkContestant({ server, scenario }: Contestant): Promise<void> {
  return checkAnswers(server.url, scenario, checkClients, checkRequests);
}

export async function stopContestants(contestants: readonly Contestant[]): Promise<void> {
  for (const server of new Set(contestants.map((contestant) => contestant.server))) {
    await server.stop();
  }
}

function describeModel({ scenario, maxBatchSize, threads }: Contest): PeerModel {
  const { model, modelFile, inputs, outputs } = scenario;
  return { model, modelFile, inputs, outputs, maxBatchSize, threads };
}
