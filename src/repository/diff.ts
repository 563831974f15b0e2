import { isSameListing, isSameVersions } from './fingerprint.js';
import type { ModelListing, RepositoryScan } from './model-repository.js';

/** What happened to a repository between two looks, models in alphabetical order. */
export interface RepositoryDiff {
  readonly added: readonly ModelListing[];
  readonly changed: readonly ModelChange[];
  readonly removed: readonly string[];
}

export interface ModelChange {
  readonly before: ModelListing;
  readonly after: ModelListing;
  /** `config.pbtxt` or a file of `configs/` differs. */
  readonly isConfigChanged: boolean;
  /** A version came, went or holds something else. */
  readonly isVersionsChanged: boolean;
  /** Something outside of both differs: labels, warm-up files, an unrelated file. */
  readonly isRestChanged: boolean;
}

export function diffScans(before: RepositoryScan, after: RepositoryScan): RepositoryDiff {
  const added: ModelListing[] = [];
  const changed: ModelChange[] = [];
  const removed: string[] = [];
  const names = new Set([...before.keys(), ...after.keys()]);
  for (const name of [...names].sort()) {
    const old = before.get(name);
    const current = after.get(name);
    if (current === undefined) {
      removed.push(name);
    } else if (old === undefined) {
      added.push(current);
    } else if (!isSameListing(old, current)) {
      changed.push({
        before: old,
        after: current,
        isConfigChanged: old.configFingerprint !== current.configFingerprint,
        isVersionsChanged: !isSameVersions(old.versions, current.versions),
        isRestChanged: old.restFingerprint !== current.restFingerprint,
      });
    }
  }
  return { added, changed, removed };
}

export function isEmptyDiff(diff: RepositoryDiff): boolean {
  return diff.added.length === 0 && diff.changed.length === 0 && diff.removed.length === 0;
}
