/** Where components read time and set timers, so that tests can drive both by hand. */
export interface Clock {
  /**
   * Nanoseconds on a monotonic clock that all threads of the process share. A double holds them
   * exactly for 104 days of host uptime and to 2 ns after that, and costs no BigInt a request.
   */
  nowNs(): number;
  /** Milliseconds since the Unix epoch. */
  wallMs(): number;
  /** Calls `callback` once after `delayNs`; the result cancels it and may be called again. */
  setTimer(delayNs: number, callback: () => void): () => void;
}

/** The process's own clock. Timers have millisecond grain and never fire early. */
export const systemClock: Clock = {
  nowNs,
  wallMs: Date.now,
  setTimer(delayNs, callback) {
    const timer = setTimeout(callback, Math.ceil(delayNs / 1e6));
    return () => clearTimeout(timer);
  },
};

/** {@link Clock.nowNs} for code that only stamps, such as a worker thread. */
export function nowNs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e9 + nanoseconds;
}
