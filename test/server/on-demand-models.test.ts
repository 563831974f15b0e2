import { beforeEach, describe, expect, it } from 'vitest';
import { invalidArg, notFound } from '../../src/errors.js';
import type { InferenceHandle, ResponseHandler } from '../../src/inference/infer-response.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import type { ServedModel } from '../../src/server/inference-server.js';
import type { ModelRevision } from '../../src/server/model-revision.js';
import {
  type LoadControl,
  type LoadedModels,
  OnDemandModels,
  type RequestOrigin,
} from '../../src/server/on-demand-models.js';
import { FakeClock } from '../support/fake-clock.js';
import { modelConfig } from '../support/model-configs.js';
import { inferenceRequest } from '../support/pending-requests.js';

function revision(config: ModelConfig): ModelRevision {
  return {
    id: { namespace: '', name: config.name },
    listing: {
      name: config.name,
      configFingerprint: '',
      versions: new Map([['1', '']]),
      restFingerprint: '',
      warnings: [],
    },
    config,
    versions: ['1'],
    origin: 'repository',
    localize: () => Promise.reject(new Error('not needed')),
  };
}

const step = (name: string) => ({
  model_name: name,
  model_version: -1,
  input_map: {},
  output_map: {},
  model_namespace: '',
});

/** Models `a` to `d`, and `e`, an ensemble over `a` and `b`; loads end when the test says so. */
class FakeModels implements LoadControl, LoadedModels {
  readonly loads: string[] = [];
  readonly unloads: string[] = [];
  readonly #present = new Set<string>();
  readonly #ends = new Map<string, (error?: Error) => void>();
  readonly #revisions = new Map<string, ModelRevision>(
    [
      ...['a', 'b', 'c', 'd'].map((name) => modelConfig({ name })),
      modelConfig({ name: 'e', ensemble_scheduling: { step: [step('a'), step('b')] } }),
    ].map((config) => [config.name, revision(config)]),
  );

  async catalogue(): Promise<ReadonlyMap<string, ModelRevision>> {
    return this.#revisions;
  }

  servedRevision(name: string): ModelRevision | undefined {
    return this.#present.has(name) ? this.#revisions.get(name) : undefined;
  }

  load(name: string): Promise<void> {
    this.loads.push(name);
    return new Promise((resolve, reject) => {
      this.#ends.set(name, (error) => {
        if (error !== undefined) {
          reject(error);
          return;
        }
        this.#present.add(name);
        if (name === 'e') for (const member of ['a', 'b']) this.#present.add(member);
        resolve();
      });
    });
  }

  async unload(name: string): Promise<void> {
    this.unloads.push(name);
    this.#present.delete(name);
  }

  async endLoad(name: string, error?: Error): Promise<void> {
    this.#ends.get(name)?.(error);
    await settled();
  }

  served(name: string, version: string): ServedModel {
    if (!this.#present.has(name)) throw notFound('not there');
    const config = modelConfig({ name, max_batch_size: 8 });
    return { name, version, config, isDecoupled: false, labels: new Map([['Y', ['cat']]]) };
  }

  bytesOf(): number {
    return 10;
  }
}

/** Lets every promise that can settle do so. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

const silent = { error() {}, warning() {}, info() {}, verbose() {}, isVerbose: () => false };

describe('OnDemandModels', () => {
  let models: FakeModels;
  let clock: FakeClock;
  let demand: OnDemandModels;
  /** Requests that run, by model. */
  let running: Map<string, ResponseHandler[]>;
  let events: string[];

  const open = async (limits: { modelsMax?: number; bytesMax?: number }) => {
    models = new FakeModels();
    clock = new FakeClock();
    running = new Map();
    events = [];
    const all = { modelsMax: 0, bytesMax: 0, ...limits };
    demand = new OnDemandModels(models, models, all, clock, silent);
    await demand.open();
  };
  beforeEach(() => open({}));

  const send = async (
    modelName: string,
    { timeoutUs = 0, origin = 'client' as RequestOrigin } = {},
  ): Promise<InferenceHandle> => {
    const client: ResponseHandler = {
      respond() {},
      complete: () => events.push(`${modelName} done`),
      fail: (error) => events.push(`${modelName} ${error.code}: ${error.message}`),
    };
    const handle = demand.infer(
      inferenceRequest({ modelName, timeoutUs }),
      client,
      origin,
      (request, handler) => {
        const { modelName: name } = request;
        events.push(`${name} runs`);
        running.set(name, [...(running.get(name) ?? []), handler]);
        return { cancel: () => events.push(`${name} cancelled`), pause() {}, resume() {} };
      },
    );
    await settled();
    return handle;
  };
  const finish = async (modelName: string): Promise<void> => {
    running.get(modelName)?.shift()?.complete();
    await settled();
  };
  const load = async (modelName: string): Promise<void> => {
    await send(modelName);
    await models.endLoad(modelName);
    await finish(modelName);
  };

  it('loads a model once for all requests that come meanwhile', async () => {
    await send('a');
    await send('a');
    expect([models.loads, events]).toEqual([['a'], []]);
    await models.endLoad('a');
    await send('a');
    expect([models.loads, events]).toEqual([['a'], ['a runs', 'a runs', 'a runs']]);
  });

  it('lets a slow load hold nobody else up', async () => {
    await send('a');
    await load('b');
    expect(events).toEqual(['b runs', 'b done']);
  });

  it('unloads the least recently used idle model beyond the limit of models', async () => {
    await open({ modelsMax: 2 });
    for (const name of ['a', 'b']) await load(name);
    await send('a');
    await finish('a');
    await load('c');
    expect(models.unloads).toEqual(['b']);
    await load('b');
    expect(models.unloads).toEqual(['b', 'a']);
  });

  it('unloads beyond the budget once the size of a new model is known', async () => {
    await open({ bytesMax: 25 });
    for (const name of ['a', 'b', 'c']) await load(name);
    expect(models.unloads).toEqual(['a']);
    await send('a');
    expect(models.unloads).toEqual(['a', 'b']);
  });

  it('waits for models at work', async () => {
    await open({ modelsMax: 1 });
    await load('a');
    await send('a');
    await send('b');
    expect([models.loads, models.unloads]).toEqual([['a'], []]);
    await finish('a');
    expect([models.loads, models.unloads]).toEqual([['a', 'b'], ['a']]);
  });

  it('does not let a model at work wait for the room that it holds itself', async () => {
    await open({ modelsMax: 1 });
    await load('a');
    await send('a');
    await send('b');
    await send('b', { origin: 'model' });
    expect(models.loads).toEqual(['a', 'b']);
    await models.endLoad('b');
    expect(events.filter((event) => event === 'b runs')).toHaveLength(2);
  });

  it('keeps what an ensemble at work needs, and drops the ensemble with its models', async () => {
    await open({ modelsMax: 3 });
    await send('e');
    await models.endLoad('e');
    await send('c');
    expect(models.unloads).toEqual([]);
    await finish('e');
    expect(models.unloads).toHaveLength(1);
    expect(demand.dormant('e', '')).toBeDefined();
  });

  it('fails a request whose timeout passes during the load, and goes on with the load', async () => {
    await send('a', { timeoutUs: 1000 });
    clock.advance(999_999);
    expect(events).toEqual([]);
    clock.advance(1);
    expect(events).toEqual(["a UNAVAILABLE: Request timeout expired while model 'a' was loading"]);
    await models.endLoad('a');
    await send('a');
    expect([models.loads, events.length]).toEqual([['a'], 2]);
  });

  it('drops a request whose client gives up during the load, and cancels one that runs', async () => {
    (await send('a')).cancel();
    const handle = await send('a');
    await models.endLoad('a');
    handle.cancel();
    expect(events).toEqual([
      'a CANCELLED: request was cancelled while its model was loading',
      'a runs',
      'a cancelled',
    ]);
  });

  it('tells what is wrong with a model, and tries it again only after a while', async () => {
    await send('a');
    await models.endLoad('a', invalidArg('no such file'));
    await send('a');
    const refusal = "a UNAVAILABLE: model 'a' could not be loaded: no such file";
    expect([models.loads, events]).toEqual([['a'], [refusal, refusal]]);
    clock.advance(5e9);
    await send('a');
    expect(models.loads).toEqual(['a', 'a']);
  });

  it('leaves unknown models to those who know that they are unknown', async () => {
    await send('x');
    expect([models.loads, events]).toEqual([[], ['x runs']]);
    expect([demand.dormant('x', ''), demand.whenServed('x')]).toEqual([undefined, undefined]);
  });

  it('describes a model by its files until it is loaded, then as it is', async () => {
    const model = demand.dormant('a', '');
    expect([model?.version, model?.config.max_batch_size, model?.labels.size]).toEqual(['1', 0, 0]);
    expect(() => demand.dormant('a', '2')).toThrow("'a' version 2 is not found");
    await load('a');
    expect([model?.config.max_batch_size, model?.labels.size]).toEqual([8, 1]);
    expect(demand.dormant('a', '')).toBeUndefined();
  });

  it('loads a model again after an unload call', async () => {
    await load('a');
    demand.left('a');
    await send('a');
    expect(models.loads).toEqual(['a', 'a']);
  });
});
