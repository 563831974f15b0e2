import { type Candidate, candidateKey } from './candidate.js';
import { rankTrials, type SearchResult, type Trial } from './search.js';

/** One candidate in several rounds, in each of which the defaults had their turn too. */
export interface Confirmed {
  readonly candidate: Candidate;
  readonly rounds: readonly Trial[];
}

export interface ConfirmationProblem {
  /** The defaults first. */
  readonly candidates: readonly Candidate[];
  readonly latencyTargetMs: number;
  readonly roundsMax: number;
  measure(candidate: Candidate): Promise<Trial>;
  hasTimeLeft(): boolean;
}

/** Fewer rounds say nothing of the spread; they are run even where the time is over. */
export const roundsMin = 5;
/** After so many rounds, only so many of the candidates beside the defaults go on. */
const cuts: Readonly<Record<number, number>> = { 2: 2, 5: 1 };

/** The candidates that are worth a second look, the defaults first. */
export function chooseFinalists(
  { trials, best }: SearchResult,
  latencyTargetMs: number,
  count: number,
): readonly Candidate[] {
  const [defaults] = trials;
  if (defaults === undefined) return [];
  const ahead = [best, ...rankTrials(trials, latencyTargetMs)].map(({ candidate }) => candidate);
  const byKey = new Map([defaults.candidate, ...ahead].map((one) => [candidateKey(one), one]));
  return [...byKey.values()].slice(0, count + 1);
}

/**
 * Measures the candidates once a round, each round from another one on, so that what else happens on
 * the machine meets them alike. Those that are behind after a few rounds drop out (successive
 * halving): time is better spent on the rest.
 */
export async function confirmCandidates(
  problem: ConfirmationProblem,
): Promise<readonly Confirmed[]> {
  const { roundsMax, measure, hasTimeLeft } = problem;
  const all = problem.candidates.map((candidate) => ({ candidate, rounds: [] as Trial[] }));
  let running = all;
  for (let round = 0; round < roundsMax && (round < roundsMin || hasTimeLeft()); round++) {
    const first = round % running.length;
    for (const one of [...running.slice(first), ...running.slice(0, first)]) {
      one.rounds.push(await measure(one.candidate));
    }
    const keep = hasTimeLeft() ? cuts[round + 1] : 1;
    if (keep !== undefined) running = leading(running, keep, problem.latencyTargetMs);
  }
  return all;
}

/** The defaults, which are the first, and the best of the others. */
function leading<T extends Confirmed>(
  running: readonly T[],
  count: number,
  latencyTargetMs: number,
): T[] {
  const [defaults, ...others] = running;
  if (defaults === undefined) return [];
  const compared = others.map((one) => ({
    one,
    comparison: compareWithDefaults(one, defaults, latencyTargetMs),
  }));
  const ahead = compared
    .sort((left, right) => score(right.comparison) - score(left.comparison))
    .slice(0, count)
    .map(({ one }) => one);
  return [defaults, ...ahead];
}

/** Those that meet the target before all others. */
function score({ failure, isWithinTarget, gain }: Comparison): number {
  if (failure !== '') return Number.NEGATIVE_INFINITY;
  return isWithinTarget ? gain : gain - 1e9;
}

/** A candidate's rounds against those of the defaults. */
export interface Comparison {
  readonly candidate: Candidate;
  readonly throughput: Quartiles;
  readonly latencyMs: number;
  readonly failure: string;
  readonly isWithinTarget: boolean;
  /** Median over the rounds of how much more it answers than the defaults did in the same round. */
  readonly gain: number;
  /** How far that median may be off, with some caution: a smaller gain may be chance. */
  readonly gainError: number;
  readonly rounds: number;
}

export interface Quartiles {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

/** A smaller gain is not worth a change. */
const gainMin = 0.03;

export function compareWithDefaults(
  { candidate, rounds }: Confirmed,
  defaults: Confirmed,
  latencyTargetMs: number,
): Comparison {
  const rates = rounds.map(({ throughput }) => throughput);
  const ratios = rates.map((rate, round) => rate / (defaults.rounds[round]?.throughput ?? rate));
  const latencyMs = quantile(
    rounds.map((trial) => trial.latencyMs),
    0.5,
  );
  return {
    candidate,
    throughput: {
      min: Math.min(...rates),
      median: quantile(rates, 0.5),
      max: Math.max(...rates),
    },
    latencyMs,
    failure: rounds.find(({ failure }) => failure !== '')?.failure ?? '',
    isWithinTarget: latencyMs <= latencyTargetMs,
    gain: quantile(ratios, 0.5) - 1,
    gainError: medianError(ratios),
    rounds: rounds.length,
  };
}

/**
 * The comparison whose candidate is to replace the defaults: the one of the highest gain among those
 * that meet the target without failures and either gain more than chance explains, or meet a
 * target that the defaults miss. Undefined where the defaults are best.
 */
export function chooseWinner(
  comparisons: readonly Comparison[],
  defaults: Comparison,
): Comparison | undefined {
  return comparisons
    .filter(({ failure, isWithinTarget }) => failure === '' && isWithinTarget)
    .filter(
      ({ gain, gainError, rounds }) =>
        !defaults.isWithinTarget || (rounds >= roundsMin && gain >= gainMin && gain > gainError),
    )
    .sort((left, right) => right.gain - left.gain)[0];
}

/**
 * Twice the standard error of a median, 1.25 sigma / sqrt(n). Sigma comes from the middle half of the
 * values, which are 1.35 sigma apart in a normal distribution: single outliers do not count. Few
 * rounds tell sigma badly, and several candidates have several chances to be lucky: they need more.
 */
function medianError(values: readonly number[]): number {
  const sigma = (quantile(values, 0.75) - quantile(values, 0.25)) / 1.35;
  const caution = 1 + 4 / values.length;
  return (caution * 2 * 1.25 * sigma) / Math.sqrt(values.length);
}

/** Linear between the values on both sides. Not a number where there are none. */
function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((left, right) => left - right);
  const place = (sorted.length - 1) * share;
  const [low = Number.NaN, high = low] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return low + (high - low) * (place - Math.floor(place));
}
