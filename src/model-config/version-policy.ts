import type { VersionPolicy } from './model-config.js';

/** Folders of a model that hold something else than a version. */
const reservedFolders: ReadonlySet<string> = new Set(['warmup', 'initial_state', 'configs']);
const int64Max = 2n ** 63n - 1n;

/** What a version policy makes of the version folders that are there. */
export interface VersionsToServe {
  /** Decimal, ascending by number. */
  readonly versions: readonly string[];
  /** One sentence for the log for each folder or wish that was passed over. */
  readonly warnings: readonly string[];
}

/**
 * Chooses the versions to serve. A version is a folder named by a decimal integer without leading
 * zeros; others are passed over. An absent policy is the latest version, an empty one all of them.
 *
 * @param policy `version_policy` of the model's configuration
 * @param folderNames names of the folders in the model's folder
 */
export function versionsToServe(
  policy: VersionPolicy | undefined,
  folderNames: readonly string[],
): VersionsToServe {
  const warnings: string[] = [];
  const existing: bigint[] = [];
  for (const name of folderNames) {
    if (reservedFolders.has(name)) continue;
    if (name.length > 1 && name.startsWith('0')) {
      warnings.push(
        `ignore version directory '${name}' which contains leading zeros in its directory name`,
      );
    } else if (!/^\d+$/.test(name) || BigInt(name) > int64Max) {
      warnings.push(`ignore version directory '${name}' which fails to convert to integral number`);
    } else {
      existing.push(BigInt(name));
    }
  }
  existing.sort((left, right) => (left < right ? -1 : 1));
  return { versions: chosen(policy, existing, warnings).map(String), warnings };
}

/** Appends to `warnings` what the policy asks for in vain. */
function chosen(
  policy: VersionPolicy | undefined,
  existing: readonly bigint[],
  warnings: string[],
): readonly bigint[] {
  if (policy?.specific !== undefined) {
    const wanted = new Set(policy.specific.versions.map(BigInt));
    for (const version of wanted) {
      if (existing.includes(version)) continue;
      warnings.push(`version ${version} is specified, but the version directory is not present`);
    }
    return existing.filter((version) => wanted.has(version));
  }
  const latest = policy === undefined ? 1 : policy.latest?.num_versions;
  return latest === undefined ? existing : existing.slice(Math.max(0, existing.length - latest));
}

/** The complaint of a load that finds no version to serve. */
export function noVersionMessage(modelName: string): string {
  return `at least one version must be available under the version policy of model '${modelName}'`;
}
