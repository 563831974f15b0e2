/** Most requests of a bundle; more spare nothing. */
const bundleSizeMost = 32;
/** How long a bundle may run: the first of its requests waits so long for an answer it has. */
const bundleRunNsMax = 2e6;
/** Weight of the last execution in the mean. */
const lastWeight = 1 / 64;

/**
 * How many requests that are executed one by one go to an instance together. It follows the mean of
 * late: a model that is slow, or is so now and then, gets one at a time; one whose process once had
 * to wait for a core does not.
 */
export class BundleSize {
  #meanNs = bundleRunNsMax;

  get sizeMax(): number {
    const size = Math.floor(bundleRunNsMax / Math.max(1, this.#meanNs));
    return Math.max(1, Math.min(bundleSizeMost, size));
  }

  observe(durationNs: number): void {
    this.#meanNs += lastWeight * (durationNs - this.#meanNs);
  }
}
