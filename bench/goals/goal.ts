import type { Spread } from '../interleaved.js';
import type { LoadClient } from '../load/load-report.js';

/** How long and with what goals are measured, and where their files lie. */
export interface GoalSettings {
  /** The project's folder. */
  readonly root: string;
  /** An empty folder for generated models, removed afterwards. */
  readonly scratch: string;
  /** Answers matter, numbers do not. */
  readonly isQuick: boolean;
  readonly rounds: number;
  readonly seconds: number;
  readonly client: LoadClient;
}

/** A promise about speed or size that a run either keeps or does not. */
export interface Goal {
  readonly work: string;
  readonly bound: 'at least' | 'at most';
  readonly limit: number;
  /** Behind the numbers: `x` for a ratio. */
  readonly unit: string;
}

export interface GoalResult {
  readonly goal: Goal;
  readonly value: Spread;
  /** The numbers that the value was made of. */
  readonly detail: string;
}

/** Goals that share their servers. */
export interface GoalGroup {
  readonly name: string;
  /** Peers must be installed by bench/peers/setup.sh. */
  readonly hasPeers: boolean;
  /** Throws where an answer is wrong. */
  measure(settings: GoalSettings): Promise<readonly GoalResult[]>;
}

export function isMet({ goal, value }: GoalResult): boolean {
  return goal.bound === 'at least' ? value.median >= goal.limit : value.median <= goal.limit;
}

export function formatSpread({ median, min, max }: Spread): string {
  return `${formatNumber(median)} (${formatNumber(min)}-${formatNumber(max)})`;
}

/** Three digits or more. */
function formatNumber(value: number): string {
  if (Math.abs(value) >= 100) return value.toFixed(0);
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}

/** A Markdown table, also of missed goals. */
export function formatGoals(results: readonly GoalResult[]): string {
  const rows = results.map((result) => {
    const { work, bound, limit, unit } = result.goal;
    const cells = [
      work,
      `${bound} ${limit} ${unit}`,
      `${formatSpread(result.value)} ${unit}`,
      isMet(result) ? 'met' : '**missed**',
      result.detail,
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return ['| work | goal | median (min-max) | | of |', '|---|---|---|---|---|', ...rows].join('\n');
}
