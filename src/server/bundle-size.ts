/** Most requests of a bundle; more spare nothing. */
const bundleSizeMost = 32;
/** How long a bundle may run: the first of its requests waits so long for an answer it has. */
const bundleRunNsMax = 2e6;
/** What is left of the slowest execution's say after each one that is faster. */
const slowestKept = 0.98;

/**
 * How many requests that are executed one by one go to an instance together. It follows the slowest
 * execution of late, so that models which are slow, or are so now and then, get one at a time.
 */
export class BundleSize {
  #slowestNs = bundleRunNsMax;

  get sizeMax(): number {
    const size = Math.floor(bundleRunNsMax / this.#slowestNs);
    return Math.max(1, Math.min(bundleSizeMost, size));
  }

  observe(durationNs: number): void {
    this.#slowestNs = Math.max(durationNs, this.#slowestNs * slowestKept, 1);
  }
}
