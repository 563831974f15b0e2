import { realpath } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Clock } from '../clock.js';
import { unsupported } from '../errors.js';
import type { WatchMode } from './directory-watch.js';
import { LocalRepository } from './local-repository.js';
import type { ModelRepository } from './model-repository.js';
import type { RepositoryEvents } from './repository-events.js';
import { connectS3 } from './s3-client.js';
import { S3Connection } from './s3-connection.js';
import { type Environment, readS3Access } from './s3-credentials.js';
import { canonicalS3Location, parseS3Location } from './s3-location.js';
import { S3Repository } from './s3-repository.js';

export interface RepositoryOptions {
  readonly clock: Clock;
  readonly events: RepositoryEvents;
  /** How a directory's changes are noticed between polls; stores have nothing like it. */
  readonly watchMode: WatchMode;
  /**
   * Where files of a store stay for the next start; undefined leaves it to the environment, and
   * else keeps them for this run only.
   */
  readonly cacheDirectory: string | undefined;
  /** For the credentials of stores, and `TRITON_AWS_MOUNT_DIRECTORY`. */
  readonly environment: Environment;
}

/**
 * Opens the repository that `location` names. Nothing is asked of a store yet, so that one which
 * is down can be served from its cache.
 *
 * Google Cloud Storage (`gs://`) and Azure (`as://`) would each be a location parser and an
 * `ObjectStore`; everything from the listing to the cache is the same for them.
 */
export async function openModelRepository(
  location: string,
  options: RepositoryOptions,
): Promise<ModelRepository> {
  const scheme = schemeOf(location);
  switch (scheme) {
    case undefined:
      return LocalRepository.open(location, options);
    case 's3': {
      const place = parseS3Location(location);
      const store = new S3Connection({
        readAccess: () => readS3Access(place, options.environment),
        connect: (access) => connectS3(place, access),
      });
      const cacheDirectory = options.cacheDirectory ?? mountDirectory(options.environment);
      return S3Repository.open(place, store, { ...options, cacheDirectory });
    }
    default:
      throw unsupported(
        `model repository '${location}': '${scheme}://' is not supported, use a directory or s3://`,
      );
  }
}

/**
 * The locations without those that name a place again: one directory under two paths, one prefix
 * written twice. The first one of each stays, in order.
 */
export async function distinctLocations(locations: readonly string[]): Promise<readonly string[]> {
  const places = await Promise.all(locations.map(placeOf));
  return locations.filter((_, index) => places.indexOf(places[index] ?? '') === index);
}

async function placeOf(location: string): Promise<string> {
  const scheme = schemeOf(location);
  if (scheme === 's3') {
    return canonicalS3Location(parseS3Location(location));
  }
  // What cannot be resolved is opened next, and that says what is wrong with it.
  return scheme === undefined ? realpath(location).catch(() => resolve(location)) : location;
}

/** Where the reference server keeps its copy of a bucket. */
function mountDirectory({ TRITON_AWS_MOUNT_DIRECTORY }: Environment): string | undefined {
  return TRITON_AWS_MOUNT_DIRECTORY === '' ? undefined : TRITON_AWS_MOUNT_DIRECTORY;
}

function schemeOf(location: string): string | undefined {
  return /^([a-z][a-z0-9+.-]*):\/\//.exec(location)?.[1];
}
