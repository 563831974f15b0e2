import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';

/** What a thread of its own takes: a JavaScript heap and the runtime of a backend. */
const instanceBytes = 32 * 1024 * 1024;

/**
 * Bytes of memory that a model version is taken to need: each of its instances holds the version's
 * files and its thread. Threads share a process, so that nobody can measure it.
 */
export async function estimateMemory(versionDirectory: string, instances: number): Promise<number> {
  return instances * ((await bytesBelow(versionDirectory)) + instanceBytes);
}

async function bytesBelow(directory: string): Promise<number> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true });
  const sizes = await Promise.all(
    entries
      .filter((entry) => !entry.isDirectory())
      .map((entry) => stat(path.join(entry.parentPath ?? entry.path, entry.name))),
  );
  return sizes.reduce((sum, { size }) => sum + size, 0);
}
