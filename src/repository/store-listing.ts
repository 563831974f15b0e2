import { folderRole, isIgnoredName, isModelFolderName } from './file-names.js';
import { type ListedFile, makeListing } from './fingerprint.js';
import type { RootSketch } from './misplacement.js';
import type { ModelListing } from './model-repository.js';
import type { StoredObject } from './object-store.js';

/** One model as a store has it: its listing and the objects behind it. */
export interface StoreModel {
  readonly listing: ModelListing;
  readonly files: readonly StoreFile[];
  /** Names of the folders directly below the model, also of those without a file that counts. */
  readonly folders: readonly string[];
}

export interface StoreFile {
  /** Relative to the model; safe to join to a local folder. */
  readonly path: string;
  readonly object: StoredObject;
}

export interface StoreListing {
  readonly models: ReadonlyMap<string, StoreModel>;
  readonly sketch: RootSketch;
  /** Objects that were left out although they are no temporary files. */
  readonly warnings: readonly string[];
}

/**
 * Reads models from the keys below `prefix`. A store has no folders: they follow from the keys,
 * also from directory markers (keys that end in `/`), which are no files themselves.
 */
export function readStoreListing(prefix: string, objects: readonly StoredObject[]): StoreListing {
  const warnings: string[] = [];
  const drafts = new Map<string, Draft>();
  let hasConfig = false;
  for (const object of objects) {
    const path = object.key.slice(prefix.length);
    const isMarker = path.endsWith('/');
    const parts = (isMarker ? path.slice(0, -1) : path).split('/');
    const [name = '', ...inModel] = parts;
    if (path === '' || name === '') {
      continue;
    }
    if (inModel.length === 0 && !isMarker) {
      hasConfig ||= path === 'config.pbtxt';
      continue;
    }
    if (!parts.every(isFileName)) {
      warnings.push(`ignore object '${object.key}', whose key cannot be the path of a file`);
      continue;
    }
    if (isModelFolderName(name)) {
      addToDraft(drafts, name, { inModel, isMarker, object });
    }
  }
  const models = new Map<string, StoreModel>();
  for (const [name, draft] of drafts) {
    models.set(name, finishModel(name, draft, warnings));
  }
  return { models, sketch: makeSketch(hasConfig, models), warnings };
}

interface Draft {
  readonly files: StoreFile[];
  /** All folders of the model at any depth, as paths. */
  readonly folders: Set<string>;
  /** Folders directly below the model that hold an object, be it one that does not count. */
  readonly filled: Set<string>;
}

function addToDraft(
  drafts: Map<string, Draft>,
  name: string,
  entry: {
    readonly inModel: readonly string[];
    readonly isMarker: boolean;
    readonly object: StoredObject;
  },
): void {
  const { inModel, isMarker, object } = entry;
  let draft = drafts.get(name);
  if (draft === undefined) {
    draft = { files: [], folders: new Set(), filled: new Set() };
    drafts.set(name, draft);
  }
  const folderParts = isMarker ? inModel : inModel.slice(0, -1);
  const ignoredAt = folderParts.findIndex((part) => isIgnoredName(part, 'folder'));
  const counted = ignoredAt < 0 ? folderParts : folderParts.slice(0, ignoredAt);
  for (let depth = 1; depth <= counted.length; depth++) {
    draft.folders.add(counted.slice(0, depth).join('/'));
  }
  const [first] = counted;
  if (isMarker) {
    return;
  }
  if (first !== undefined) {
    draft.filled.add(first);
  }
  if (ignoredAt < 0 && !isIgnoredName(inModel.at(-1) ?? '', 'file')) {
    draft.files.push({ path: inModel.join('/'), object });
  }
}

function finishModel(name: string, draft: Draft, warnings: string[]): StoreModel {
  const files = draft.files.filter(({ path, object }) => {
    const isFolder = draft.folders.has(path);
    if (isFolder) {
      warnings.push(`ignore object '${object.key}', because there are objects below it`);
    }
    return !isFolder;
  });
  const listed: ListedFile[] = files.map(({ path, object }) => ({
    path,
    fingerprint: objectFingerprint(object),
  }));
  const folders = [...draft.folders].filter((path) => !path.includes('/'));
  const served = folders.filter((folder) => !isAwaited(folder, folders, draft.filled));
  return { listing: makeListing(name, listed, served), files, folders: served };
}

/**
 * True for a version of which there is only a directory marker, while another version has files:
 * its files are still to come. Where no version has any, as with ensembles, markers make versions.
 */
function isAwaited(
  folder: string,
  folders: readonly string[],
  filled: ReadonlySet<string>,
): boolean {
  const isVersion = (name: string): boolean => folderRole(name).kind === 'version';
  return (
    isVersion(folder) &&
    !filled.has(folder) &&
    folders.some((other) => isVersion(other) && filled.has(other))
  );
}

/**
 * Equal tags mean equal contents, so an upload of the same bytes is no change. Without a tag the
 * time has to do.
 */
function objectFingerprint({ bytes, etag, modifiedMs }: StoredObject): string {
  return `${bytes}:${etag === '' ? modifiedMs : etag}`;
}

function isFileName(part: string): boolean {
  return (
    part !== '' && part !== '.' && part !== '..' && !part.includes('\\') && !part.includes('\0')
  );
}

function makeSketch(hasConfig: boolean, models: ReadonlyMap<string, StoreModel>): RootSketch {
  const folders = [...models].map(([name, { listing }]) => ({
    name,
    isModel: listing.configFingerprint !== '' || listing.versions.size > 0,
  }));
  const nested = [...models].find(([, { files }]) =>
    files.some(({ path }) => {
      const [, second, third] = path.split('/');
      const isConfig = second === 'config.pbtxt' && third === undefined;
      return isConfig || (third !== undefined && folderRole(second ?? '').kind === 'version');
    }),
  );
  return { hasConfig, folders, nestedRepository: nested?.[0] };
}

/** Objects whose contents a model's copy with only these versions holds. */
export function filesOf(model: StoreModel, versions: readonly string[]): readonly StoreFile[] {
  return model.files.filter(({ path }) => {
    const folder = path.slice(0, Math.max(path.indexOf('/'), 0));
    return !model.listing.versions.has(folder) || versions.includes(folder);
  });
}
