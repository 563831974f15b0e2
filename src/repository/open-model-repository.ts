import type { Clock } from '../clock.js';
import { unsupported } from '../errors.js';
import type { WatchMode } from './directory-watch.js';
import { LocalRepository } from './local-repository.js';
import type { ModelRepository } from './model-repository.js';
import type { RepositoryEvents } from './repository-events.js';

export interface RepositoryOptions {
  readonly clock: Clock;
  readonly events: RepositoryEvents;
  /** How a directory's changes are noticed between polls; stores have nothing like it. */
  readonly watchMode: WatchMode;
}

/**
 * Opens the repository that `location` names. Nothing is read from a store yet, so that one which
 * is down can be served from its cache.
 */
export async function openModelRepository(
  location: string,
  options: RepositoryOptions,
): Promise<ModelRepository> {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//.exec(location)?.[1];
  switch (scheme) {
    case undefined:
      return LocalRepository.open(location, options);
    default:
      throw unsupported(
        `model repository '${location}': '${scheme}://' is not supported, use a directory or s3://`,
      );
  }
}
