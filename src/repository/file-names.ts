/**
 * What the name of a file or folder says about its part in a model. Both kinds of repository read
 * names by these rules, so that a folder means the same on a disk and in a bucket.
 */

/** Vim creates and removes a file of this name to see whether it may write in a folder. */
const vimProbe = '4913';

/** The largest version that the wire formats can carry (int64). */
const versionMax = 9_223_372_036_854_775_807n;

/**
 * True for names that come and go without meaning: hidden ones (`.git`, `..data`, `.#x`), and what
 * editors and copying tools write before the real file. `kind` matters because a folder `4913` is
 * a version.
 */
export function isIgnoredName(name: string, kind: 'file' | 'folder'): boolean {
  if (name.startsWith('.')) {
    return true;
  }
  if (kind === 'file' && (name === vimProbe || name.endsWith('.swp'))) {
    return true;
  }
  return name.endsWith('.tmp') || name.endsWith('~') || isEmacsSave(name);
}

/** `#config.pbtxt#`: what Emacs writes while somebody types. */
function isEmacsSave(name: string): boolean {
  return name.length > 2 && name.startsWith('#') && name.endsWith('#');
}

export type FolderRole =
  | { readonly kind: 'version' }
  /** Looks like a version but is not one; `warning` says why, in the reference server's words. */
  | { readonly kind: 'not a version'; readonly warning: string }
  | { readonly kind: 'rest' };

/** The part that a folder directly below a model's folder plays. */
export function folderRole(name: string): FolderRole {
  if (!/^[0-9]+$/.test(name)) {
    return { kind: 'rest' };
  }
  if (name.length > 1 && name.startsWith('0')) {
    return {
      kind: 'not a version',
      warning: `ignore version directory '${name}' which contains leading zeros in its directory name`,
    };
  }
  if (name.length > 18 && BigInt(name) > versionMax) {
    return {
      kind: 'not a version',
      warning: `ignore version directory '${name}' which fails to convert to integral number`,
    };
  }
  return { kind: 'version' };
}

export type FileRole = 'config' | 'rest';

/** The part of a file at `path` (`/` between the parts), relative to its model, outside versions. */
export function fileRole(path: string): FileRole {
  return path === 'config.pbtxt' || /^configs\/[^/]+\.pbtxt$/.test(path) ? 'config' : 'rest';
}

/**
 * True where `name` can be the name of a model's folder and nothing else: it neither leaves the
 * repository nor is hidden.
 */
export function isModelFolderName(name: string): boolean {
  return (
    name !== '' &&
    !name.includes('/') &&
    !name.includes('\\') &&
    !name.includes('\0') &&
    !isIgnoredName(name, 'folder')
  );
}

/** Where `config.pbtxt` is looked for, first match wins. '' stands for no configuration name. */
export function configCandidates(configName: string): readonly string[] {
  return configName === '' ? ['config.pbtxt'] : [`configs/${configName}.pbtxt`, 'config.pbtxt'];
}
