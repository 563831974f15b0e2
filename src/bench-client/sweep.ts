/** `start:end:step` of an option; a load level each. */
export interface LevelRange {
  readonly start: number;
  readonly end: number;
  readonly step: number;
}

export interface SweepSettings {
  readonly range: LevelRange;
  readonly isBinarySearch: boolean;
  /** Infinity where there is none. */
  readonly latencyThresholdNs: number;
}

/** One level, measured; `judgedLatencyNs` is compared with the threshold. */
export interface SweepStep<T> {
  readonly level: number;
  readonly measurement: T;
}

/**
 * Measures the levels of a range in turn up to the first one whose latency exceeds the threshold;
 * or, by binary search, the ones that lead to the highest level that does not, to a step exactly.
 * What was measured is in the order of the levels.
 */
export async function sweep<T extends { readonly judgedLatencyNs: number }>(
  { range, isBinarySearch, latencyThresholdNs }: SweepSettings,
  measure: (level: number) => Promise<T>,
): Promise<readonly SweepStep<T>[]> {
  const steps: SweepStep<T>[] = [];
  const isWithin = async (level: number): Promise<boolean> => {
    const measurement = await measure(level);
    steps.push({ level, measurement });
    return measurement.judgedLatencyNs <= latencyThresholdNs;
  };
  if (isBinarySearch) await searchLevel(range, isWithin);
  else {
    for (const level of levelsOf(range)) if (!(await isWithin(level))) break;
  }
  return steps.sort((left, right) => left.level - right.level);
}

/** Levels of a range, in order. A step of 0 is one level. */
function levelsOf({ start, end, step }: LevelRange): readonly number[] {
  if (step === 0 || end <= start) return [start];
  const count = Math.floor((end - start) / step + 1e-9) + 1;
  return Array.from({ length: count }, (_, index) => start + index * step);
}

async function searchLevel(
  range: LevelRange,
  isWithin: (level: number) => Promise<boolean>,
): Promise<void> {
  const levels = levelsOf(range);
  let [low, high] = [0, levels.length - 1];
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    if (await isWithin(levels[middle] ?? range.start)) low = middle + 1;
    else high = middle - 1;
  }
}
