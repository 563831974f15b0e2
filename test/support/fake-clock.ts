import type { Clock } from '../../src/clock.js';

interface FakeTimer {
  readonly dueNs: number;
  readonly order: number;
  readonly callback: () => void;
}

/** Time that stands still until a test moves it. Timers run in the order in which they are due. */
export class FakeClock implements Clock {
  /** Called after each timer; stands for the rest of the event loop's turn. */
  afterTimer: () => void = () => {};
  #nowNs: number;
  #timers: FakeTimer[] = [];
  #created = 0;

  constructor(startNs = 1e9) {
    this.#nowNs = startNs;
  }

  nowNs(): number {
    return this.#nowNs;
  }

  wallMs(): number {
    return this.#nowNs / 1e6;
  }

  setTimer(delayNs: number, callback: () => void): () => void {
    this.#created += 1;
    const timer = {
      dueNs: this.#nowNs + Math.max(0, delayNs),
      order: this.#created,
      callback,
    };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  get pendingTimers(): number {
    return this.#timers.length;
  }

  /** Moves time by `ns`, running every timer that falls due at its own time. */
  advance(ns: number): void {
    const endNs = this.#nowNs + ns;
    for (;;) {
      const next = this.#earliest();
      if (next === undefined || next.dueNs > endNs) break;
      this.#timers = this.#timers.filter((other) => other !== next);
      this.#nowNs = Math.max(this.#nowNs, next.dueNs);
      next.callback();
      this.afterTimer();
    }
    this.#nowNs = endNs;
  }

  advanceMs(milliseconds: number): void {
    this.advance(milliseconds * 1e6);
  }

  #earliest(): FakeTimer | undefined {
    let earliest: FakeTimer | undefined;
    for (const timer of this.#timers) {
      if (
        earliest === undefined ||
        timer.dueNs < earliest.dueNs ||
        (timer.dueNs === earliest.dueNs && timer.order < earliest.order)
      ) {
        earliest = timer;
      }
    }
    return earliest;
  }
}
