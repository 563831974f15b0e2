import type { Clock } from '../clock.js';
import { type InferenceServerError, toInferenceServerError } from '../errors.js';
import { diffScans, isEmptyDiff, type RepositoryDiff } from './diff.js';
import type { ModelRepository, RepositoryScan } from './model-repository.js';
import { type SettleState, settle, settledState } from './settle.js';

export interface PollerOptions {
  /** From the start of one regular poll to the start of the next. */
  readonly intervalNs: number;
  /** For how long a change must look the same before it counts; at most the interval. */
  readonly settleNs: number;
}

export interface PollListener {
  /**
   * Models whose changes have settled, and the whole repository as far as it has settled. The next
   * poll starts only after the promise has settled; return early to let polls go on.
   */
  changed(diff: RepositoryDiff, scan: RepositoryScan): Promise<void>;
  /** After every poll, also an early one, and after `changed`. */
  polled(report: PollReport): void;
}

export interface PollReport {
  /** Time of the look itself, without what the listener did. */
  readonly durationNs: number;
  /** False for polls that came early because of a hint or to see whether a change has settled. */
  readonly isRegular: boolean;
  readonly outcome: PollOutcome;
}

export type PollOutcome =
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'changed' }
  /** Something differs, but not for long enough yet. */
  | { readonly kind: 'unsettled'; readonly models: readonly string[] }
  /** The repository could not be read, or the listener failed. Nothing changes by it. */
  | { readonly kind: 'failed'; readonly error: InferenceServerError };

/** How long a hint waits for its companions: one copied folder gives many. */
const hintDelayNs = 50e6;

/**
 * Looks at one repository again and again and tells what has changed for good. One poll at a time;
 * a poll that fails changes nothing. Hints from the repository's watch only make polls come sooner.
 *
 *     waiting --timer, hint--> polling --look agrees, differs or fails--> waiting
 *        \------------------ close ----------------/--> closed
 */
export class Poller {
  readonly #repository: ModelRepository;
  readonly #options: PollerOptions;
  readonly #listener: PollListener;
  readonly #clock: Clock;
  #state: SettleState;
  /** Start of the latest regular poll, which the next one is counted from. */
  #regularNs: number;
  /** Start of the latest poll of any kind. */
  #startedNs: number;
  /** Doubles while a change keeps moving, so that a long copy is not looked at all the time. */
  #relookNs: number;
  #timer: (() => void) | undefined;
  #dueNs = Number.POSITIVE_INFINITY;
  #running: Promise<void> | undefined;
  #isHinted = false;
  #isClosed = false;

  /** `baseline` is what the server already acts on; the first poll is compared with it. */
  constructor(
    repository: ModelRepository,
    baseline: RepositoryScan,
    options: PollerOptions,
    listener: PollListener,
    clock: Clock,
  ) {
    this.#repository = repository;
    this.#options = options;
    this.#listener = listener;
    this.#clock = clock;
    this.#state = settledState(baseline);
    this.#regularNs = clock.nowNs();
    this.#startedNs = this.#regularNs;
    this.#relookNs = options.settleNs;
  }

  /** Starts polling and watching. Rejects where the watch cannot start; polls go on even then. */
  async start(): Promise<void> {
    this.#schedule(this.#regularNs + this.#options.intervalNs);
    await this.#repository.watch(() => this.hint());
  }

  /** Something may have changed: poll soon. */
  hint(): void {
    if (this.#running !== undefined) {
      this.#isHinted = true;
      return;
    }
    this.#schedule(Math.min(this.#dueNs, this.#clock.nowNs() + this.#hintWaitNs()));
  }

  /** Resolves when no poll is running any more; none starts later. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.();
    this.#timer = undefined;
    await this.#running;
  }

  #schedule(dueNs: number): void {
    if (this.#isClosed) {
      return;
    }
    this.#timer?.();
    this.#dueNs = dueNs;
    this.#timer = this.#clock.setTimer(Math.max(0, dueNs - this.#clock.nowNs()), () => {
      this.#timer = undefined;
      // `poll` never rejects: what fails in it is reported to the listener.
      this.#running = this.#poll();
    });
  }

  async #poll(): Promise<void> {
    const startNs = this.#clock.nowNs();
    this.#startedNs = startNs;
    const isRegular = startNs >= this.#regularNs + this.#options.intervalNs;
    if (isRegular) {
      this.#regularNs = startNs;
    }
    let durationNs = 0;
    let outcome: PollOutcome;
    try {
      const look = await this.#repository.scan();
      durationNs = this.#clock.nowNs() - startNs;
      outcome = await this.#conclude(look, startNs);
    } catch (error) {
      durationNs ||= this.#clock.nowNs() - startNs;
      outcome = { kind: 'failed', error: toInferenceServerError(error, 'poll failed') };
    }
    this.#listener.polled({ durationNs, isRegular, outcome });
    this.#running = undefined;
    this.#schedule(this.#nextDueNs(outcome));
  }

  async #conclude(look: RepositoryScan, startNs: number): Promise<PollOutcome> {
    const before = this.#state;
    // A look counts as of its start: whatever was copied later has to be seen by another one.
    this.#state = settle(before, look, startNs, this.#options.settleNs);
    const diff = diffScans(before.settled, this.#state.settled);
    if (!isEmptyDiff(diff)) {
      if (!this.#isClosed) {
        await this.#listener.changed(diff, this.#state.settled);
      }
      return { kind: 'changed' };
    }
    return this.#state.pending.size > 0
      ? { kind: 'unsettled', models: [...this.#state.pending.keys()].sort() }
      : { kind: 'unchanged' };
  }

  #nextDueNs(outcome: PollOutcome): number {
    const nowNs = this.#clock.nowNs();
    let dueNs = Math.max(this.#regularNs + this.#options.intervalNs, nowNs);
    if (this.#state.pending.size > 0 && outcome.kind !== 'failed') {
      dueNs = Math.min(dueNs, nowNs + this.#relookNs);
      this.#relookNs = Math.min(this.#relookNs * 2, this.#options.intervalNs);
    } else {
      this.#relookNs = this.#options.settleNs;
    }
    if (this.#isHinted) {
      this.#isHinted = false;
      dueNs = Math.min(dueNs, nowNs + this.#hintWaitNs());
    }
    return dueNs;
  }

  /**
   * Hints come as fast as files are written, so hinted polls keep the settling time apart. While a
   * change is moving a re-look is on its way anyhow, and hints would only multiply it.
   */
  #hintWaitNs(): number {
    if (this.#state.pending.size > 0) {
      return Number.POSITIVE_INFINITY;
    }
    const earliestNs = this.#startedNs + this.#options.settleNs;
    return Math.max(hintDelayNs, earliestNs - this.#clock.nowNs());
  }
}
