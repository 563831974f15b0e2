import { EventEmitter } from 'node:events';
import { tmpdir } from 'node:os';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { DirectoryWatch, type WatchMode } from '../../src/repository/directory-watch.js';

class FakeWatcher extends EventEmitter {
  readonly usePolling: boolean;
  isClosed = false;

  constructor(usePolling: boolean) {
    super();
    this.usePolling = usePolling;
  }

  async close(): Promise<void> {
    this.isClosed = true;
  }
}

const watchers: FakeWatcher[] = [];
vi.mock('chokidar', () => ({
  watch(_: string, options: { readonly usePolling: boolean }) {
    const watcher = new FakeWatcher(options.usePolling);
    watchers.push(watcher);
    return watcher;
  },
}));

beforeEach(() => {
  watchers.length = 0;
});

const limitReached = new Error('ENOSPC: System limit for number of file watchers reached');

async function start(mode: Exclude<WatchMode, 'off'>) {
  const heard = { changes: 0, warnings: [] as string[] };
  const watch = await DirectoryWatch.start(
    tmpdir(),
    mode,
    () => {
      heard.changes += 1;
    },
    (message) => heard.warnings.push(message),
  );
  return { watch, heard };
}

describe('DirectoryWatch', () => {
  it('compares file times once notifications have failed, and says so once', async () => {
    const { watch, heard } = await start('auto');
    expect(watchers.map(({ usePolling }) => usePolling)).toEqual([false]);
    watchers[0]?.emit('error', limitReached);
    watchers[0]?.emit('error', limitReached);
    await vi.waitUntil(() => watchers.length === 2);
    expect(watchers.map(({ usePolling, isClosed }) => [usePolling, isClosed])).toEqual([
      [false, true],
      [true, false],
    ]);
    watchers[1]?.emit('ready');
    watchers[1]?.emit('all');
    expect(heard).toEqual({
      changes: 2,
      warnings: [
        `file times are compared from now on, because notifications failed: ${limitReached.message}`,
      ],
    });
    await watch.close();
    expect(watchers[1]?.isClosed).toBe(true);
  });

  it.each(['events', 'polling'] as const)(
    'stays with %s where they are asked for',
    async (mode) => {
      const { watch, heard } = await start(mode);
      watchers[0]?.emit('error', limitReached);
      watchers[0]?.emit('error', limitReached);
      await watch.close();
      expect(watchers.map(({ usePolling }) => usePolling)).toEqual([mode === 'polling']);
      expect(heard.warnings).toEqual([
        `changes may be noticed only at the next poll, because watching failed: ${limitReached.message}`,
      ]);
    },
  );
});
