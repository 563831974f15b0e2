import { describe, expect, it } from 'vitest';
import type { Candidate } from '../../src/tune/candidate.js';
import {
  type Confirmed,
  chooseFinalists,
  chooseWinner,
  compareWithDefaults,
  confirmCandidates,
} from '../../src/tune/confirmation.js';
import type { Trial } from '../../src/tune/search.js';

const candidate = (instances: number): Candidate => ({
  instances,
  threads: 1,
  maxBatchSize: 8,
  queueDelayUs: 0,
  preferredBatchSize: 0,
});

const trial = (instances: number, throughput: number, latencyMs = 1): Trial => ({
  candidate: candidate(instances),
  throughput,
  latencyMs,
  failure: '',
});

const confirmed = (instances: number, rates: readonly number[], latencyMs = 1): Confirmed => ({
  candidate: candidate(instances),
  rounds: rates.map((rate) => trial(instances, rate, latencyMs)),
});

const none = Number.POSITIVE_INFINITY;

/** Which candidate replaces the first one; undefined where none does. */
function winner(all: readonly Confirmed[], latencyTargetMs = none): number | undefined {
  const [defaults] = all;
  if (defaults === undefined) throw new Error('no defaults');
  const [own, ...others] = all.map((one) => compareWithDefaults(one, defaults, latencyTargetMs));
  return own && chooseWinner(others, own)?.candidate.instances;
}

describe('chooseWinner', () => {
  const defaults = confirmed(1, [100, 102, 98, 101, 99]);

  it('takes a gain beyond the error', () => {
    expect(winner([defaults, confirmed(2, [110, 112, 108, 111, 109])])).toBe(2);
  });

  it('takes the higher of two gains', () => {
    const little = confirmed(2, [110, 112, 108, 111, 109]);
    expect(winner([defaults, little, confirmed(3, [120, 122, 118, 121, 119])])).toBe(3);
  });

  it('sees a gain through noise that meets both alike', () => {
    const shared = [50, 150, 80, 120, 100];
    const own = confirmed(1, shared);
    expect(
      winner([
        own,
        confirmed(
          2,
          shared.map((rate) => rate * 1.1),
        ),
      ]),
    ).toBe(2);
  });

  it.each([
    ['a gain that the rounds explain by chance', [140, 70, 135, 75, 112]],
    ['a gain too small for a change', [102, 104, 100, 103, 101]],
    ['a loss', [90, 92, 88, 91, 89]],
    ['a gain of too few rounds', [120, 120, 120, 120]],
  ])('keeps the defaults for %s', (_, rates) => {
    expect(winner([defaults, confirmed(2, rates)])).toBeUndefined();
  });

  it('keeps the defaults where a candidate misses the target or fails', () => {
    const rates = [150, 150, 150, 150, 150];
    expect(winner([defaults, confirmed(2, rates, 5)], 4)).toBeUndefined();
    const failed = { ...trial(2, 150), failure: 'no' };
    const failing = { candidate: candidate(2), rounds: [trial(2, 150), failed] };
    expect(winner([defaults, failing])).toBeUndefined();
  });

  it('takes what meets a target that the defaults miss, even if it answers less', () => {
    const slow = confirmed(1, [100, 100, 100, 100, 100], 9);
    expect(winner([slow, confirmed(2, [90, 90, 90, 90, 90], 4)], 4)).toBe(2);
  });
});

describe('chooseFinalists', () => {
  it('starts with the defaults, then where the search ended, then the best ones', () => {
    const trials = [trial(1, 100), trial(2, 300), trial(3, 200), trial(4, 50)];
    const finalists = chooseFinalists({ trials, best: trial(3, 200) }, none, 2);
    expect(finalists.map(({ instances }) => instances)).toEqual([1, 3, 2]);
  });

  it('is the defaults alone where nothing else was tried', () => {
    const own = trial(1, 100);
    expect(chooseFinalists({ trials: [own], best: own }, none, 2)).toEqual([own.candidate]);
  });
});

describe('confirmCandidates', () => {
  async function confirm(roundsMax: number, timeForTrials: number) {
    const order: number[] = [];
    const all = await confirmCandidates({
      candidates: [1, 2, 3, 4].map(candidate),
      latencyTargetMs: none,
      roundsMax,
      measure: async ({ instances }) => {
        order.push(instances);
        return trial(instances, instances);
      },
      hasTimeLeft: () => order.length < timeForTrials,
    });
    return { order, rounds: all.map(({ rounds }) => rounds.length) };
  }

  it('begins each round with another candidate, and drops those that are behind', async () => {
    const { order, rounds } = await confirm(6, 1000);
    expect(order.slice(0, 8)).toEqual([1, 2, 3, 4, 2, 3, 4, 1]);
    expect(rounds).toEqual([6, 2, 5, 6]);
  });

  it('runs five rounds of the best one even where the time is over', async () => {
    expect((await confirm(15, 0)).rounds).toEqual([5, 1, 1, 5]);
  });
});
