import { basename } from 'node:path';
import type { FSWatcher } from 'chokidar';
import { isIgnoredName } from './file-names.js';
import { hasNativeEvents } from './native-events.js';

/**
 * - `auto`: `events` where the file system sends them, and `polling` elsewhere or where they fail.
 * - `events`: the operating system's own notifications.
 * - `polling`: the watcher compares times itself, for network mounts and container volumes that
 *   send no notifications and whose poll interval is long.
 * - `off`: changes are found by the poll interval alone.
 */
export type WatchMode = 'auto' | 'events' | 'polling' | 'off';

/** Deep enough for `model/version/folder/file`; what is deeper is found by the poll interval. */
const watchedLevels = 3;
const pollingIntervalMs = 1000;

/** Tells that something below a directory may have changed. It may be wrong both ways. */
export class DirectoryWatch {
  readonly #directory: string;
  readonly #changed: () => void;
  readonly #warn: (message: string) => void;
  #watcher: FSWatcher | undefined;
  #isClosed = false;

  /** Resolves at once; events begin a little later, when the watcher has read the directory. */
  static async start(
    directory: string,
    mode: Exclude<WatchMode, 'off'>,
    changed: () => void,
    warn: (message: string) => void,
  ): Promise<DirectoryWatch> {
    const watch = new DirectoryWatch(directory, changed, warn);
    if (mode !== 'auto') await watch.#open(mode);
    else if (await hasNativeEvents(directory)) await watch.#open('events', () => watch.#fallBack());
    else await watch.#open('polling');
    return watch;
  }

  private constructor(directory: string, changed: () => void, warn: (message: string) => void) {
    this.#directory = directory;
    this.#changed = changed;
    this.#warn = warn;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#watcher?.close();
  }

  async #open(mode: 'events' | 'polling', instead?: () => void): Promise<void> {
    // Loaded here, so that servers which do not poll never pay for it.
    const { watch } = await import('chokidar');
    if (this.#isClosed) {
      return;
    }
    const watcher = watch(this.#directory, {
      ignoreInitial: true,
      depth: watchedLevels,
      usePolling: mode === 'polling',
      interval: pollingIntervalMs,
      binaryInterval: pollingIntervalMs,
      ignored: (path) => path !== this.#directory && isNoise(basename(path)),
    });
    this.#watcher = watcher;
    watcher.on('all', () => this.#changed());
    // What changed while it read the directory has not been told.
    watcher.on('ready', () => this.#changed());
    let hasFailed = false;
    watcher.on('error', (error) => {
      // Most often the limit of inotify watches, and then once for each folder beyond it.
      if (hasFailed) {
        return;
      }
      hasFailed = true;
      const reason = error instanceof Error ? error.message : String(error);
      if (instead === undefined) {
        this.#warn(
          `changes may be noticed only at the next poll, because watching failed: ${reason}`,
        );
        return;
      }
      this.#warn(`file times are compared from now on, because notifications failed: ${reason}`);
      instead();
    });
  }

  #fallBack(): void {
    const failed = this.#watcher;
    // Neither failure stops the regular polls.
    void failed?.close().catch(() => {});
    void this.#open('polling').catch(() => {});
  }
}

/** `..data` is the link that Kubernetes swaps when a mounted volume changes as a whole. */
function isNoise(name: string): boolean {
  return name !== '..data' && isIgnoredName(name, 'file');
}
