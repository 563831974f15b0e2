import { isSameListing } from './fingerprint.js';
import type { ModelListing, RepositoryScan } from './model-repository.js';

/** A difference that was seen but does not count yet. */
export interface PendingChange {
  /** As last seen; undefined where the folder is gone. */
  readonly listing: ModelListing | undefined;
  /** When it was first seen like this. */
  readonly sinceNs: number;
}

/** What is known to have settled, and what is still moving. */
export interface SettleState {
  readonly settled: RepositoryScan;
  readonly pending: ReadonlyMap<string, PendingChange>;
}

export function settledState(scan: RepositoryScan): SettleState {
  return { settled: scan, pending: new Map() };
}

/**
 * Takes one more look into account. A model's change counts only when a later look, at least
 * `settleNs` after the first one that showed it, finds exactly the same: so a folder that is being
 * copied, or that is away for a moment while it is replaced, is left alone. Models settle one by
 * one, so that a slow copy of one does not hold up the others.
 *
 *     look 1   look 2   look 3            settled
 *     A        A'       A'                A' at look 3
 *     A        (gone)   A                 A all along
 *     A        A'       A''      A''      A'' at look 4
 */
export function settle(
  state: SettleState,
  look: RepositoryScan,
  nowNs: number,
  settleNs: number,
): SettleState {
  const settled = new Map(state.settled);
  const pending = new Map<string, PendingChange>();
  for (const name of new Set([...state.settled.keys(), ...look.keys()])) {
    const current = look.get(name);
    if (isSameListing(current, state.settled.get(name))) {
      continue;
    }
    const before = state.pending.get(name);
    if (before === undefined || !isSameListing(before.listing, current)) {
      pending.set(name, { listing: current, sinceNs: nowNs });
    } else if (nowNs - before.sinceNs < settleNs) {
      pending.set(name, before);
    } else if (current === undefined) {
      settled.delete(name);
    } else {
      settled.set(name, current);
    }
  }
  return { settled, pending };
}
