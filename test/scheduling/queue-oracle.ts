import type { QueueOptions } from '../../src/scheduling/scheduling-options.js';
import type { ObservedRequest } from '../support/pending-requests.js';

/** What a test knows of a request that waits. */
export interface WaitingRequest {
  readonly observed: ObservedRequest;
  readonly level: number;
  readonly enqueuedNs: number;
  readonly deadlineNs: number;
}

/**
 * The queue's rules once more, as plainly as can be: lists that are searched from end to end. The
 * property test compares the real queue with it after every event.
 */
export class QueueOracle {
  readonly #options: QueueOptions;
  readonly #waiting: WaitingRequest[][];
  readonly #delayed: WaitingRequest[][];

  constructor(options: QueueOptions) {
    this.#options = options;
    this.#waiting = options.levels.map(() => []);
    this.#delayed = options.levels.map(() => []);
  }

  get size(): number {
    return [...this.#waiting, ...this.#delayed].reduce((sum, list) => sum + list.length, 0);
  }

  sizeOf(level: number): number {
    return (this.#waiting[level]?.length ?? 0) + (this.#delayed[level]?.length ?? 0);
  }

  levelOf(priority: number): number {
    const { levels, defaultLevel } = this.#options;
    return priority >= 1 && priority <= levels.length ? priority - 1 : defaultLevel;
  }

  add(observed: ObservedRequest, nowNs: number): void {
    const { priority, timeoutUs } = observed.pending.request;
    const level = this.levelOf(priority);
    const policy = this.#options.levels[level];
    const limits = [policy?.defaultTimeoutUs ?? 0];
    if (policy?.allowsTimeoutOverride) limits.push(timeoutUs);
    const shortest = Math.min(...limits.filter((limit) => limit > 0));
    this.#waiting[level]?.push({
      observed,
      level,
      enqueuedNs: nowNs,
      deadlineNs: nowNs + shortest * 1000,
    });
  }

  find(observed: ObservedRequest): WaitingRequest | undefined {
    for (const list of [...this.#waiting, ...this.#delayed]) {
      const found = list.find((one) => one.observed === observed);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  remove(observed: ObservedRequest): void {
    for (const list of [...this.#waiting, ...this.#delayed]) {
      const index = list.findIndex((one) => one.observed === observed);
      if (index !== -1) list.splice(index, 1);
    }
  }

  /** The order of service at `nowNs`; late requests of DELAY levels stand behind their level. */
  order(nowNs: number): readonly WaitingRequest[] {
    for (const [level, waiting] of this.#waiting.entries()) {
      if (this.#options.levels[level]?.timeoutAction !== 'DELAY') continue;
      const late = waiting.filter((one) => one.deadlineNs <= nowNs);
      if (late.length === 0) continue;
      late.sort((left, right) => left.deadlineNs - right.deadlineNs);
      this.#delayed[level]?.push(...late);
      this.#waiting[level] = waiting.filter((one) => one.deadlineNs > nowNs);
    }
    return this.#waiting.flatMap((waiting, level) => [...waiting, ...(this.#delayed[level] ?? [])]);
  }
}
