import { basename } from 'node:path';
import type { FSWatcher } from 'chokidar';
import { isIgnoredName } from './file-names.js';

/**
 * - `events`: the operating system's own notifications, where there are any.
 * - `polling`: the watcher compares times itself, for network mounts and container volumes that
 *   send no notifications and whose poll interval is long.
 * - `off`: changes are found by the poll interval alone.
 */
export type WatchMode = 'events' | 'polling' | 'off';

/** Deep enough for `model/version/folder/file`; what is deeper is found by the poll interval. */
const watchedLevels = 3;
const pollingIntervalMs = 1000;

/** Tells that something below a directory may have changed. It may be wrong both ways. */
export class DirectoryWatch {
  readonly #watcher: FSWatcher;

  /** Resolves at once; events begin a little later, when the watcher has read the directory. */
  static async start(
    directory: string,
    mode: Exclude<WatchMode, 'off'>,
    changed: () => void,
    warn: (message: string) => void,
  ): Promise<DirectoryWatch> {
    // Loaded here, so that servers which do not poll never pay for it.
    const { watch } = await import('chokidar');
    const watcher = watch(directory, {
      ignoreInitial: true,
      depth: watchedLevels,
      usePolling: mode === 'polling',
      interval: pollingIntervalMs,
      binaryInterval: pollingIntervalMs,
      ignored: (path) => path !== directory && isNoise(basename(path)),
    });
    return new DirectoryWatch(watcher, changed, warn);
  }

  private constructor(watcher: FSWatcher, changed: () => void, warn: (message: string) => void) {
    this.#watcher = watcher;
    watcher.on('all', () => changed());
    let isReported = false;
    watcher.on('error', (error) => {
      // Most often the limit of inotify watches. Polls go on, so once is enough.
      if (!isReported) {
        isReported = true;
        const reason = error instanceof Error ? error.message : String(error);
        warn(`changes may be noticed only at the next poll, because watching failed: ${reason}`);
      }
    });
  }

  async close(): Promise<void> {
    await this.#watcher.close();
  }
}

/** `..data` is the link that Kubernetes swaps when a mounted volume changes as a whole. */
function isNoise(name: string): boolean {
  return name !== '..data' && isIgnoredName(name, 'file');
}
