import { createHash } from 'node:crypto';
import { fileRole, folderRole } from './file-names.js';
import type { ModelListing } from './model-repository.js';

/** One file or empty folder of a model. `path` is relative to the model, with `/` between parts. */
export interface ListedFile {
  readonly path: string;
  /** Changes whenever the contents may have changed; '' for an empty folder. */
  readonly fingerprint: string;
}

/**
 * A model's listing from its files and from the folders directly below it (also the empty ones).
 * The order of `files` and `folders` does not matter.
 */
export function makeListing(
  name: string,
  files: readonly ListedFile[],
  folders: readonly string[],
): ModelListing {
  const configLines: string[] = [];
  const restLines: string[] = [];
  const versionLines = new Map<string, string[]>();
  const warnings: string[] = [];
  for (const folder of [...folders].sort()) {
    const role = folderRole(folder);
    if (role.kind === 'version') {
      versionLines.set(folder, []);
      continue;
    }
    restLines.push(`${folder}/\n`);
    if (role.kind === 'not a version') {
      warnings.push(role.warning);
    }
  }
  for (const file of files) {
    const line = `${file.path}\t${file.fingerprint}\n`;
    const slash = file.path.indexOf('/');
    const lines = slash < 0 ? undefined : versionLines.get(file.path.slice(0, slash));
    if (lines !== undefined) {
      lines.push(line);
    } else if (fileRole(file.path) === 'config') {
      configLines.push(line);
    } else {
      restLines.push(line);
    }
  }
  const versions = new Map<string, string>();
  for (const [version, lines] of versionLines) {
    versions.set(version, digest(lines));
  }
  return {
    name,
    configFingerprint: digest(configLines),
    versions,
    restFingerprint: digest(restLines),
    warnings,
  };
}

/** True where nothing of the model differs. Warnings follow from the rest and are not compared. */
export function isSameListing(
  left: ModelListing | undefined,
  right: ModelListing | undefined,
): boolean {
  if (left === undefined || right === undefined) {
    return left === right;
  }
  return (
    left === right ||
    (left.configFingerprint === right.configFingerprint &&
      left.restFingerprint === right.restFingerprint &&
      isSameVersions(left.versions, right.versions))
  );
}

export function isSameVersions(
  left: ReadonlyMap<string, string>,
  right: ReadonlyMap<string, string>,
): boolean {
  if (left.size !== right.size) {
    return false;
  }
  for (const [version, fingerprint] of left) {
    if (right.get(version) !== fingerprint) {
      return false;
    }
  }
  return true;
}

/** '' for no lines, so that "nothing there" needs no special value anywhere else. */
function digest(lines: string[]): string {
  if (lines.length === 0) {
    return '';
  }
  const hash = createHash('sha256');
  for (const line of lines.sort()) {
    hash.update(line);
  }
  return hash.digest('base64url');
}
