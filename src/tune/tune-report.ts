import { formatTable } from '../bench-client/text-table.js';
import {
  type Candidate,
  candidateKey,
  changedSettings,
  type Setting,
  settings,
  settingText,
  settingTitles,
} from './candidate.js';
import type { Comparison } from './confirmation.js';
import type { Trial } from './search.js';

/** Every candidate that was tried, in that order. Settings that never changed are left out. */
export function formatTrials(
  trials: readonly Trial[],
  latencyTargetMs: number,
  percentile: number,
): string {
  const shown = shownSettings(trials.map(({ candidate }) => candidate));
  const head = [...shown.map((setting) => settingTitles[setting]), 'infer/s', `p${percentile} ms`];
  const rows = trials.map((trial, index) => [
    ...cells(trial.candidate, shown),
    ...(trial.failure === '' ? [rate(trial.throughput), milliseconds(trial.latencyMs)] : ['', '']),
    [
      ...(index === 0 ? ['the defaults'] : []),
      ...(trial.failure === '' ? [] : [`failed: ${trial.failure}`]),
      ...(trial.latencyMs > latencyTargetMs ? ['over the target'] : []),
    ].join(', '),
  ]);
  return formatTable([[...head, ''], ...rows]);
}

/** The finalists beside the defaults, which are the first. */
export function formatComparisons(comparisons: readonly Comparison[], percentile: number): string {
  const shown = shownSettings(comparisons.map(({ candidate }) => candidate));
  const head = [
    ...shown.map((setting) => settingTitles[setting]),
    'infer/s',
    'min-max',
    `p${percentile} ms`,
    'gain',
    'error',
    'rounds',
    '',
  ];
  const rows = comparisons.map((one, index) => [
    ...cells(one.candidate, shown),
    rate(one.throughput.median),
    `${rate(one.throughput.min)}-${rate(one.throughput.max)}`,
    milliseconds(one.latencyMs),
    ...(index === 0 ? ['', ''] : [percent(one.gain), percent(one.gainError).slice(1)]),
    String(one.rounds),
    [
      ...(index === 0 ? ['the defaults'] : []),
      ...(one.failure === '' ? [] : [`failed: ${one.failure}`]),
      ...(one.isWithinTarget ? [] : ['over the target']),
    ].join(', '),
  ]);
  return formatTable([head, ...rows]);
}

/** Which of them, in words. */
export function describeChange(candidate: Candidate, defaults: Candidate): string {
  return changedSettings(candidate, defaults)
    .map((setting) => {
      const [from, to] = [defaults[setting], candidate[setting]];
      const title = settingTitles[setting];
      return `${title} ${settingText(setting, from)} -> ${settingText(setting, to)}`;
    })
    .join(', ');
}

export function percent(share: number): string {
  return `${share >= 0 ? '+' : ''}${(share * 100).toFixed(1)} %`;
}

/** What the JSON file says of one trial. */
export function jsonTrial(trial: Trial): Record<string, unknown> {
  return {
    ...trial.candidate,
    inferences_per_sec: trial.throughput,
    latency_ms: trial.latencyMs,
    failure: trial.failure,
  };
}

export function jsonComparison(comparison: Comparison): Record<string, unknown> {
  return {
    ...comparison.candidate,
    inferences_per_sec: comparison.throughput,
    latency_ms: comparison.latencyMs,
    gain: comparison.gain,
    gain_error: comparison.gainError,
    rounds: comparison.rounds,
    is_within_target: comparison.isWithinTarget,
    failure: comparison.failure,
  };
}

function shownSettings(candidates: readonly Candidate[]): readonly Setting[] {
  const changed = settings.filter(
    (setting) => new Set(candidates.map((candidate) => candidate[setting])).size > 1,
  );
  const areAllSame = new Set(candidates.map(candidateKey)).size <= 1;
  return areAllSame ? settings : changed;
}

function cells(candidate: Candidate, shown: readonly Setting[]): readonly string[] {
  return shown.map((setting) => settingText(setting, candidate[setting]));
}

function rate(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

function milliseconds(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
}
