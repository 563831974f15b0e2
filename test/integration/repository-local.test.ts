import { cp, rename, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.js';
import type { WatchMode } from '../../src/repository/directory-watch.js';
import { LocalRepository } from '../../src/repository/local-repository.js';
import { Poller } from '../../src/repository/poller.js';
import { silentEvents } from '../../src/repository/repository-events.js';
import { ScratchFolder } from '../repository/model-files.js';

let folder: ScratchFolder;
let repository: LocalRepository | undefined;
let poller: Poller | undefined;

beforeEach(async () => {
  folder = await ScratchFolder.create({
    'a/config.pbtxt': 'a',
    'a/1/model.onnx': 'one',
  });
});

afterEach(async () => {
  await poller?.close();
  await repository?.close();
  await folder.remove();
});

function inFolder(path: string): string {
  return join(folder.path, path);
}

/** Polls rarely, so that only the watch can make it come in time. */
async function follow(watchMode: WatchMode, intervalNs: number): Promise<string[]> {
  const opened = await LocalRepository.open(folder.path, {
    clock: systemClock,
    events: silentEvents,
    watchMode,
  });
  repository = opened;
  const seen: string[] = [];
  poller = new Poller(
    opened,
    await opened.scan(),
    { intervalNs, settleNs: 300e6 },
    {
      async changed({ added, changed, removed }) {
        seen.push(...added.map((each) => `+${each.name} ${[...each.versions.keys()].sort()}`));
        seen.push(
          ...changed.map(({ after }) => `~${after.name} ${[...after.versions.keys()].sort()}`),
        );
        seen.push(...removed.map((name) => `-${name}`));
      },
      polled: () => {},
    },
    systemClock,
  );
  await poller.start();
  return seen;
}

async function until(isReached: () => boolean): Promise<void> {
  while (!isReached()) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

describe('a polled directory', () => {
  it.each(['events', 'polling'] as const)(
    'notices a change long before its interval by %s',
    async (mode) => {
      const seen = await follow(mode, 3600e9);
      // The watch reads the directory first. A change before that is found by a later one's event.
      let touches = 0;
      while (seen.length === 0) {
        await folder.write({ 'a/touched': String(touches++) });
        for (let wait = 0; wait < 150 && seen.length === 0; wait++) {
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      }
      expect(seen).toEqual(['~a 1']);
      await folder.write({ 'b/1/model.onnx': 'b' });
      await until(() => seen.length === 2);
      expect(seen[1]).toBe('+b 1');
    },
  );

  it('follows copies, renames, swapped links and deletions', async () => {
    const seen = await follow('off', 400e6);
    await folder.write({ 'upload.tmp/1/model.onnx': 'b', 'upload.tmp/2/model.onnx': 'b' });
    await rename(inFolder('upload.tmp'), inFolder('b'));
    await until(() => seen.length === 1);

    // Away for a moment and back: a replacement, not a removal.
    await cp(inFolder('b'), inFolder('.b'), { recursive: true });
    await folder.write({ '.b/3/model.onnx': 'b' });
    await rm(inFolder('b'), { recursive: true });
    await rename(inFolder('.b'), inFolder('b'));
    await until(() => seen.length === 2);

    await folder.write({ '.v1/1/model.onnx': 'c', '.v2/2/model.onnx': 'c' });
    await symlink('.v1', inFolder('c'));
    await until(() => seen.length === 3);
    await symlink('.v2', inFolder('.c-next'));
    await rename(inFolder('.c-next'), inFolder('c'));
    await until(() => seen.length === 4);

    await rm(inFolder('a'), { recursive: true });
    await until(() => seen.length === 5);
    expect(seen).toEqual(['+b 1,2', '~b 1,2,3', '+c 1', '~c 2', '-a']);
  });

  it('does not serve a folder while it is being copied', async () => {
    const seen = await follow('off', 400e6);
    for (let part = 0; part < 30; part++) {
      await folder.write({ [`slow/1/part${part}`]: 'x'.repeat(part) });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(seen).toEqual([]);
    await folder.write({ 'slow/2/model.onnx': 'whole' });
    await until(() => seen.length === 1);
    expect(seen).toEqual(['+slow 1,2']);
  });
});
