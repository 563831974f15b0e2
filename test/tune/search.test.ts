import { describe, expect, it } from 'vitest';
import { createRandom } from '../../src/bench-client/random.js';
import { parseModelConfigJson } from '../../src/model-config/read-model-config.js';
import {
  applyToCompleted,
  type Candidate,
  candidateKey,
  candidateOf,
} from '../../src/tune/candidate.js';
import { findConcurrency } from '../../src/tune/load-level.js';
import { rankTrials, searchCandidates, type Trial } from '../../src/tune/search.js';
import { isSensible, searchSpace } from '../../src/tune/search-space.js';

const none = Number.POSITIVE_INFINITY;

function modelConfig(changed: Record<string, unknown> = {}) {
  return parseModelConfigJson(
    JSON.stringify({
      name: 'm',
      backend: 'onnxruntime',
      max_batch_size: 4,
      dynamic_batching: { preferred_batch_size: [4] },
      instance_group: [{ name: 'm_0', kind: 'KIND_CPU', count: 1 }],
      ...changed,
    }),
  );
}

const limits = {
  cores: 4,
  instancesMax: undefined,
  batchSizeMax: undefined,
  requestRows: 1,
  rowsInFlight: 64,
};

interface FakeModel {
  readonly throughput: (candidate: Candidate) => number;
  readonly latencyMs?: (candidate: Candidate) => number;
  readonly failure?: (candidate: Candidate) => string;
}

/** A search over a model whose speed is a function of the candidate, with `noise` of up to a share. */
async function search(
  { throughput, latencyMs = () => 1, failure = () => '' }: FakeModel,
  { latencyTargetMs = none, noise = 0, trialsMax = 1000 } = {},
) {
  const config = modelConfig();
  const defaults = candidateOf(config);
  const random = createRandom(7);
  const measured: Candidate[] = [];
  const result = await searchCandidates({
    defaults,
    space: searchSpace(config, limits),
    latencyTargetMs,
    isSensible: (candidate) => isSensible(candidate, defaults, limits.cores),
    measure: async (candidate) => {
      measured.push(candidate);
      return {
        candidate,
        throughput: throughput(candidate) * (1 + noise * (random.next() - 0.5)),
        latencyMs: latencyMs(candidate),
        failure: failure(candidate),
      };
    },
    hasTimeLeft: () => measured.length < trialsMax,
  });
  return { ...result, defaults, measured };
}

describe('searchCandidates', () => {
  it('finds instances and threads that only help together, and a larger batch', async () => {
    const { best } = await search({
      throughput: ({ instances, threads, maxBatchSize }) =>
        (instances === 2 && threads === 2 ? 200 : 100) * Math.min(32, maxBatchSize),
    });
    expect(best.candidate).toMatchObject({ instances: 2, threads: 2, maxBatchSize: 32 });
  });

  it('finds a size to wait for, which needs a delay', async () => {
    const { best } = await search({
      throughput: ({ maxBatchSize, queueDelayUs, preferredBatchSize }) => {
        if (maxBatchSize < 64) return maxBatchSize / 2;
        if (queueDelayUs > 0 && preferredBatchSize === 32) return 150;
        return queueDelayUs > 0 ? 50 : 100;
      },
    });
    expect(best.candidate.preferredBatchSize).toBe(32);
    expect(best.candidate.queueDelayUs).toBeGreaterThan(0);
  });

  it('stays with the defaults where nothing matters, also in some noise', async () => {
    const { best, defaults } = await search({ throughput: () => 100 }, { noise: 0.02 });
    expect(best.candidate).toEqual(defaults);
  });

  it('takes back settings that gain nothing', async () => {
    const { best } = await search({
      throughput: ({ threads, maxBatchSize }) => 100 * threads * (maxBatchSize > 4 ? 0.5 : 1),
    });
    expect(best.candidate).toMatchObject({ threads: 4, maxBatchSize: 4, queueDelayUs: 0 });
  });

  it('prefers what meets the target to what answers more', async () => {
    const { best } = await search(
      {
        throughput: ({ maxBatchSize }) => maxBatchSize,
        latencyMs: ({ maxBatchSize }) => maxBatchSize,
      },
      { latencyTargetMs: 16 },
    );
    expect(best.candidate.maxBatchSize).toBe(16);
  });

  it('goes towards the target while nothing meets it', async () => {
    const { best } = await search(
      { throughput: () => 100, latencyMs: ({ threads }) => 100 / Math.max(1, threads) },
      { latencyTargetMs: 1 },
    );
    expect(best.candidate.threads).toBe(4);
  });

  it('never chooses what fails', async () => {
    const { best } = await search({
      throughput: ({ instances }) => instances,
      failure: ({ instances }) => (instances > 2 ? 'out of memory' : ''),
    });
    expect(best.candidate.instances).toBe(2);
  });

  it('measures nothing twice, and nothing when the time is over, but always the defaults', async () => {
    const { measured } = await search({ throughput: ({ maxBatchSize }) => maxBatchSize });
    expect(new Set(measured.map(candidateKey)).size).toBe(measured.length);
    const few = await search({ throughput: () => 1 }, { trialsMax: 3 });
    expect(few.measured).toHaveLength(3);
    const over = await search({ throughput: () => 1 }, { trialsMax: 0 });
    expect(over.measured).toEqual([over.defaults]);
  });
});

describe('rankTrials', () => {
  it('puts what meets the target first, and leaves out what failed', () => {
    const candidate = candidateOf(modelConfig());
    const trial = (throughput: number, latencyMs: number, failure = ''): Trial => ({
      candidate,
      throughput,
      latencyMs,
      failure,
    });
    const trials = [trial(9, 9), trial(1, 1), trial(2, 2), trial(99, 1, 'no'), trial(8, 8)];
    const ranked = rankTrials(trials, 5).map(({ throughput }) => throughput);
    expect(ranked).toEqual([2, 1, 8, 9]);
  });
});

describe('searchSpace', () => {
  it('tries placements up to the cores, batches up to what can be under way', () => {
    expect(searchSpace(modelConfig(), limits)).toEqual({
      instances: [1, 2, 4],
      threads: [0, 1, 2, 4],
      maxBatchSize: [1, 2, 4, 8, 16, 32, 64],
      queueDelayUs: [0, 100, 300, 1000, 3000],
      preferredBatchSize: [0, 16, 32, 64],
    });
  });

  it('keeps what the backend or the author decides', () => {
    const python = searchSpace(modelConfig({ backend: 'python' }), limits);
    expect([python.threads, python.maxBatchSize]).toEqual([[0], [1, 2, 4]]);
    const two = [{ count: 1 }, { count: 2 }];
    expect(searchSpace(modelConfig({ instance_group: two }), limits).instances).toEqual([3]);
    const single = searchSpace(
      modelConfig({ max_batch_size: 0, dynamic_batching: undefined }),
      limits,
    );
    expect([single.maxBatchSize, single.queueDelayUs]).toEqual([[0], [-1]]);
  });

  it('never makes the largest batch smaller than a request', () => {
    const { maxBatchSize } = searchSpace(modelConfig(), { ...limits, requestRows: 3 });
    expect(maxBatchSize).toEqual([4, 8, 16, 32, 64]);
  });

  it.each([
    [
      'an ensemble',
      { ensemble_scheduling: { step: [{ model_name: 'part' }] }, dynamic_batching: undefined },
      'part',
    ],
    ['sequences', { sequence_batching: {}, dynamic_batching: undefined }, 'sequences'],
    ['a decoupled model', { model_transaction_policy: { decoupled: true } }, 'decoupled'],
  ])('refuses %s', (_, changed, message) => {
    expect(() => searchSpace(modelConfig(changed), limits)).toThrow(message);
  });
});

describe('isSensible', () => {
  const defaults = candidateOf(modelConfig());
  it.each([
    ['two threads a core', { instances: 2, threads: 4 }, true],
    ['more', { instances: 4, threads: 4 }, false],
    ['a size to wait for, and time for it', { queueDelayUs: 100, preferredBatchSize: 2 }, true],
    ['no time for it', { preferredBatchSize: 2 }, false],
    ['a delay of batches that have one row', { maxBatchSize: 1, queueDelayUs: 100 }, false],
    ['a size beyond the largest batch', { queueDelayUs: 100, preferredBatchSize: 8 }, false],
    [
      'a size that is the largest batch anyway',
      { queueDelayUs: 100, preferredBatchSize: 4 },
      false,
    ],
  ])('judges %s', (_, changed, expected) => {
    expect(isSensible({ ...defaults, ...changed }, defaults, 4)).toBe(expected);
  });
});

describe('applyToCompleted', () => {
  it('lets the size that a server filled in follow the largest batch', () => {
    const config = modelConfig();
    const defaults = candidateOf(config);
    const applied = applyToCompleted(
      config,
      { ...defaults, maxBatchSize: 32, threads: 2 },
      defaults,
    );
    expect(applied.max_batch_size).toBe(32);
    expect(applied.dynamic_batching?.preferred_batch_size).toEqual([]);
    expect(applied.parameters['intra_op_thread_count']).toEqual({ string_value: '2' });
    expect(config).toEqual(modelConfig());
  });
});

describe('findConcurrency', () => {
  const levels = async (
    throughput: (concurrency: number) => number,
    latencyMs: (concurrency: number) => number,
    targetMs: number,
  ) =>
    findConcurrency(
      async (concurrency) => ({
        candidate: candidateOf(modelConfig()),
        throughput: throughput(concurrency),
        latencyMs: latencyMs(concurrency),
        failure: '',
      }),
      targetMs,
    );

  it.each([
    ['twice as many as saturate the model', (n: number) => Math.min(n, 8), none, 16],
    ['not more than are tried', (n: number) => n, none, 64],
    ['the most that stay within a target', (n: number) => Math.min(n, 2), 10, 8],
    ['one where not even one does', (n: number) => n, 0.5, 1],
  ])('gives %s', async (_, throughput, targetMs, expected) => {
    expect(await levels(throughput, (concurrency) => concurrency, targetMs)).toBe(expected);
  });
});
