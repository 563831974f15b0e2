/**
 * Counts durations in buckets whose bounds are powers of two microseconds: bucket i holds what is
 * at most 2^i µs, from 1 µs to about 67 s, and the last one all that is longer. Recording is one
 * shift-free bit count and three adds, so that every request can afford it.
 */
export class DurationHistogram {
  /** By bucket, not cumulative. */
  readonly counts: number[] = new Array<number>(bucketCount).fill(0);
  count = 0;
  sumNs = 0;

  record(ns: number): void {
    // ceil(µs) - 1 makes the bounds inclusive: 1 µs → bucket 0, 2 µs → 1, 3 and 4 µs → 2.
    const micros = Math.ceil(ns / 1000);
    const index = micros <= 1 ? 0 : 32 - Math.clz32(Math.min(micros, microsMax) - 1);
    const bucket = index < bucketCount ? index : bucketCount - 1;
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
    this.count += 1;
    this.sumNs += ns;
  }
}

/** 27 bounds, 2^0 to 2^26 µs, and one bucket above them. */
const bucketCount = 28;
const microsMax = 0x7fffffff;

/** Upper bounds in seconds of all buckets but the last, which has none. */
export const durationBoundsSecs: readonly number[] = Array.from(
  { length: bucketCount - 1 },
  (_, index) => 2 ** index / 1e6,
);
