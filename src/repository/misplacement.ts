import { folderRole } from './file-names.js';

/** The two upper levels of a repository, as far as they tell a repository from something else. */
export interface RootSketch {
  /** There is a `config.pbtxt` beside the folders. */
  readonly hasConfig: boolean;
  readonly folders: readonly FolderSketch[];
  /** A folder whose own folders look like models; undefined where there is none. */
  readonly nestedRepository: string | undefined;
}

export interface FolderSketch {
  readonly name: string;
  /** It has a configuration or a version. */
  readonly isModel: boolean;
}

/**
 * What to tell a user whose location is one level too deep or too high: the two most common
 * mistakes, which would otherwise show as an empty server. Undefined where the place looks right,
 * as it does when at least one folder is a model, and when there are no folders at all.
 */
export function misplacementMessage(location: string, sketch: RootSketch): string | undefined {
  if (sketch.folders.some((folder) => folder.isModel)) {
    return undefined;
  }
  const version = sketch.folders.find((folder) => folderRole(folder.name).kind === 'version');
  if (sketch.hasConfig || version !== undefined) {
    const sign =
      sketch.hasConfig || version === undefined
        ? "a file 'config.pbtxt'"
        : `a version folder '${version.name}'`;
    return (
      `model repository '${location}' looks like the folder of a model, because it has ${sign}; ` +
      'give the folder above it'
    );
  }
  if (sketch.nestedRepository !== undefined) {
    return (
      `model repository '${location}' holds no models, but its folder ` +
      `'${sketch.nestedRepository}' does; give that folder`
    );
  }
  return undefined;
}
