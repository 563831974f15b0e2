import type { Random } from './random.js';

export type Distribution = 'constant' | 'poisson';

/** When the requests of an open loop are due, whatever the server does. */
export class ArrivalSchedule {
  readonly #intervalNs: number;
  readonly #distribution: Distribution;
  readonly #random: Random;
  #nextNs: number;

  constructor(startNs: number, ratePerSec: number, distribution: Distribution, random: Random) {
    this.#intervalNs = 1e9 / ratePerSec;
    this.#distribution = distribution;
    this.#random = random;
    this.#nextNs = startNs;
  }

  /** When the next request is due. */
  get nextNs(): number {
    return this.#nextNs;
  }

  /** Takes it, and plans the one behind it. */
  take(): number {
    const dueNs = this.#nextNs;
    this.#nextNs += this.#gapNs();
    return dueNs;
  }

  /** Gaps of a Poisson process are exponential; their mean is the interval either way. */
  #gapNs(): number {
    if (this.#distribution === 'constant') return this.#intervalNs;
    return -Math.log(1 - this.#random.next()) * this.#intervalNs;
  }
}
