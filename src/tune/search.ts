import {
  type Candidate,
  candidateKey,
  changedSettings,
  type Setting,
  settings,
} from './candidate.js';
import type { SearchSpace } from './search-space.js';

/** What one candidate did under the load. */
export interface Trial {
  readonly candidate: Candidate;
  /** Rows a second. */
  readonly throughput: number;
  /** The percentile that the target is about. */
  readonly latencyMs: number;
  /** '' where all went well; candidates that fail are never chosen. */
  readonly failure: string;
}

export interface SearchProblem {
  readonly defaults: Candidate;
  readonly space: SearchSpace;
  /** Infinity where there is no target. */
  readonly latencyTargetMs: number;
  isSensible(candidate: Candidate): boolean;
  /** Called once for each candidate. */
  measure(candidate: Candidate): Promise<Trial>;
  /** False when the time for searching is over. */
  hasTimeLeft(): boolean;
}

/** A step that gains less is taken for noise. */
const gainMin = 0.02;
/** Delay with which sizes to wait for are first tried. */
const sizeDelayUs = 300;

export interface SearchResult {
  /** In the order in which they were tried, the defaults first. */
  readonly trials: readonly Trial[];
  /** Where the search ended; the defaults where nothing was better. */
  readonly best: Trial;
}

/**
 * Searches by coordinate descent: all placements (instances x threads, which depend on each other)
 * with the batching of the defaults; then every largest batch and every delay; and again, until
 * nothing gains, now only placements and the neighbours of what was best. In the end settings that turned out not to matter go back to their
 * defaults.
 */
export async function searchCandidates(problem: SearchProblem): Promise<SearchResult> {
  const search = new Search(problem);
  await search.run();
  return { trials: search.trials, best: search.best };
}

/** Trials that meet the target before those that don't, then by throughput, the best first. */
export function rankTrials(trials: readonly Trial[], latencyTargetMs: number): readonly Trial[] {
  return trials
    .filter(({ failure }) => failure === '')
    .sort((left, right) => (isAhead(left, right, latencyTargetMs, 0) ? -1 : 1));
}

/**
 * True where `left` is better by more than `margin`: it meets the target and the other one does not;
 * or both do and its throughput is higher; or none does and its latency is lower.
 */
export function isAhead(left: Trial, right: Trial, targetMs: number, margin: number): boolean {
  if (left.failure !== '') return false;
  if (right.failure !== '') return true;
  const [isLeftWithin, isRightWithin] = [left.latencyMs <= targetMs, right.latencyMs <= targetMs];
  if (isLeftWithin !== isRightWithin) return isLeftWithin;
  return isLeftWithin
    ? left.throughput > right.throughput * (1 + margin)
    : left.latencyMs < right.latencyMs * (1 - margin);
}

class Search {
  readonly #problem: SearchProblem;
  readonly #known = new Map<string, Trial>();
  #best: Trial | undefined;

  constructor(problem: SearchProblem) {
    this.#problem = problem;
  }

  get trials(): readonly Trial[] {
    return [...this.#known.values()];
  }

  get best(): Trial {
    if (this.#best === undefined) throw new Error('nothing was measured: this is a bug');
    return this.#best;
  }

  async run(): Promise<void> {
    await this.#try(this.#problem.defaults);
    await this.#tryPlacements();
    await this.#tryAll('maxBatchSize');
    await this.#tryAll('queueDelayUs');
    await this.#tryPreferredSizes();
    let before: string | undefined;
    while (this.#bestKey() !== before && this.#problem.hasTimeLeft()) {
      before = this.#bestKey();
      await this.#tryPlacements();
      await this.#climb('maxBatchSize');
      await this.#climb('queueDelayUs');
    }
    await this.#simplify();
  }

  async #tryPlacements(): Promise<void> {
    const { candidate } = this.best;
    for (const instances of this.#problem.space.instances) {
      for (const threads of this.#problem.space.threads) {
        await this.#try({ ...candidate, instances, threads });
      }
    }
  }

  async #tryAll(setting: Setting): Promise<void> {
    for (const value of this.#problem.space[setting]) {
      await this.#try({ ...this.best.candidate, [setting]: value });
    }
  }

  /** A size to wait for means nothing without a delay, so that both are tried together. */
  async #tryPreferredSizes(): Promise<void> {
    const { queueDelayUs } = this.best.candidate;
    const shortest = this.#problem.space.queueDelayUs.find((delayUs) => delayUs >= sizeDelayUs);
    const delayUs = queueDelayUs > 0 ? queueDelayUs : (shortest ?? queueDelayUs);
    for (const preferredBatchSize of this.#problem.space.preferredBatchSize) {
      await this.#try({ ...this.best.candidate, queueDelayUs: delayUs, preferredBatchSize });
    }
  }

  /** One step after the other in the direction that gains; both from where the search stands. */
  async #climb(setting: Setting): Promise<void> {
    const values = this.#problem.space[setting];
    for (const direction of [1, -1]) {
      let index = values.indexOf(this.best.candidate[setting]) + direction;
      while (await this.#tryValue(setting, values[index])) index += direction;
    }
  }

  /** True where the value gained, or could not be tried and the one behind it may. */
  async #tryValue(setting: Setting, value: number | undefined): Promise<boolean> {
    if (value === undefined) return false;
    const candidate = { ...this.best.candidate, [setting]: value };
    if (!this.#problem.isSensible(candidate)) return true;
    const before = this.#bestKey();
    await this.#try(candidate);
    return this.#bestKey() !== before;
  }

  /** What a setting does not gain is not worth a line in a configuration. */
  async #simplify(): Promise<void> {
    const { defaults, latencyTargetMs } = this.#problem;
    for (const setting of settings) {
      const best = this.best;
      if (!changedSettings(best.candidate, defaults).includes(setting)) continue;
      const simpler = { ...best.candidate, [setting]: defaults[setting] };
      const trial = await this.#measure(simpler);
      if (trial !== undefined && !isAhead(best, trial, latencyTargetMs, gainMin)) {
        this.#best = trial;
      }
    }
  }

  async #try(candidate: Candidate): Promise<void> {
    const trial = await this.#measure(candidate);
    if (trial === undefined) return;
    const { latencyTargetMs } = this.#problem;
    if (this.#best === undefined || isAhead(trial, this.#best, latencyTargetMs, gainMin)) {
      this.#best = trial;
    }
  }

  async #measure(candidate: Candidate): Promise<Trial | undefined> {
    const key = candidateKey(candidate);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const isFirst = this.#known.size === 0;
    if (!isFirst && !(this.#problem.isSensible(candidate) && this.#problem.hasTimeLeft())) {
      return undefined;
    }
    const trial = await this.#problem.measure(candidate);
    this.#known.set(key, trial);
    return trial;
  }

  #bestKey(): string {
    return candidateKey(this.best.candidate);
  }
}
