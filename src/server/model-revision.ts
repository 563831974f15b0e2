import { createHash, randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { ModelId } from '../inference/model-key.js';
import type { ModelConfig } from '../model-config/model-config.js';
import type { LocalizedModel, ModelListing } from '../repository/model-repository.js';

/** One state of a model's files and configuration, ready to be loaded. */
export interface ModelRevision {
  readonly id: ModelId;
  readonly listing: ModelListing;
  /** As written, with defaults; a version's own files may complete it further. */
  readonly config: ModelConfig;
  /** Versions that the policy serves, ascending. */
  readonly versions: readonly string[];
  readonly origin: RevisionOrigin;
  /** The files as a local folder, for as long as the caller holds it. */
  localize(): Promise<LocalizedModel>;
}

/** Whether the repository's own files were used, or what a load call gave in their place. */
export type RevisionOrigin = 'repository' | 'config-override' | 'file-override';

/**
 * Text that differs for every load of a version that may answer differently, and is the same in
 * replicas that serve the same files.
 */
export function generationOf(revision: ModelRevision, version: string): string {
  const { id, listing, config, origin } = revision;
  const files = origin === 'file-override' ? randomUUID() : listing.versions.get(version);
  const hash = createHash('sha256');
  hash.update(JSON.stringify([id.namespace, config, files, listing.restFingerprint]));
  return hash.digest('base64url');
}

/** How a revision differs from the one that is served. */
export type RevisionChange =
  | { readonly type: 'none' }
  /**
   * The files are those that a configuration given by a load call was put on: it stands until a
   * file changes or the model is unloaded, as on the reference server.
   */
  | { readonly type: 'keeps-override' }
  /** Instance groups or version policy only: versions stay loaded. */
  | { readonly type: 'in-place' }
  /** These versions' own files changed; the others stay loaded. */
  | { readonly type: 'versions'; readonly changed: ReadonlySet<string> }
  | { readonly type: 'all' };

/**
 * What must be loaded again to get from `served` to `wanted`. `instances` tells whether those that
 * serve can change while the model stays loaded.
 */
export function compareRevisions(
  served: ModelRevision | undefined,
  wanted: ModelRevision,
  instances: 'changeable' | 'fixed',
): RevisionChange {
  if (served === undefined || wanted.origin !== 'repository') return { type: 'all' };
  if (served.origin === 'config-override' && isSameListing(served.listing, wanted.listing)) {
    return { type: 'keeps-override' };
  }
  if (served.origin !== 'repository') return { type: 'all' };
  if (served.listing.restFingerprint !== wanted.listing.restFingerprint) return { type: 'all' };
  const fixedFields = instances === 'fixed' ? withoutPolicy : withoutInPlaceFields;
  if (!isDeepStrictEqual(fixedFields(served.config), fixedFields(wanted.config))) {
    return { type: 'all' };
  }
  const changed = wanted.versions.filter(
    (version) => served.listing.versions.get(version) !== wanted.listing.versions.get(version),
  );
  if (changed.length > 0) return { type: 'versions', changed: new Set(changed) };
  const isSame =
    isDeepStrictEqual(served.config, wanted.config) &&
    isDeepStrictEqual(served.versions, wanted.versions);
  return isSame ? { type: 'none' } : { type: 'in-place' };
}

/** True where nothing below the model's folder differs. */
export function isSameListing(a: ModelListing, b: ModelListing): boolean {
  if (a.configFingerprint !== b.configFingerprint) return false;
  if (a.restFingerprint !== b.restFingerprint || a.versions.size !== b.versions.size) return false;
  return [...a.versions].every(([version, print]) => b.versions.get(version) === print);
}

function withoutPolicy(config: ModelConfig): Partial<ModelConfig> {
  const { version_policy: _policy, ...rest } = config;
  return rest;
}

function withoutInPlaceFields(config: ModelConfig): Partial<ModelConfig> {
  const { instance_group: _groups, ...rest } = withoutPolicy(config);
  return rest;
}
