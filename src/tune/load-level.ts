import type { Trial } from './search.js';

/** Callers at once, in the order in which they are tried. */
const levels = [1, 2, 4, 8, 16, 32, 64] as const;
/** A share of the best throughput that counts as having reached it. */
const saturationShare = 0.95;

/**
 * How many callers to tune with, from what the defaults do under more and more of them. Without a
 * target: twice as many as saturate the model, so that a better configuration finds work waiting.
 * With one: as many as the defaults can serve within it; one where they cannot serve even that.
 */
export async function findConcurrency(
  measure: (concurrency: number) => Promise<Trial>,
  latencyTargetMs: number,
): Promise<number> {
  const trials: { readonly concurrency: number; readonly trial: Trial }[] = [];
  for (const concurrency of levels) {
    const trial = await measure(concurrency);
    if (trial.failure !== '' || trial.latencyMs > latencyTargetMs) break;
    trials.push({ concurrency, trial });
  }
  const last = trials.at(-1)?.concurrency ?? 1;
  if (Number.isFinite(latencyTargetMs)) return last;
  const best = Math.max(...trials.map(({ trial }) => trial.throughput));
  const saturated = trials.find(({ trial }) => trial.throughput >= saturationShare * best);
  return Math.min(last, (saturated?.concurrency ?? last) * 2);
}
