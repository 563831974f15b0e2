import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, lstat, mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { internal, invalidArg } from '../../errors.js';

const run = promisify(execFile);

/**
 * Folder with the unpacked `archive` (any compression that tar knows). Instances and later starts
 * share it, as long as the archive stays the same: unpacking takes seconds and gigabytes.
 * INVALID_ARG where tar refuses the archive.
 */
export async function unpackEnvironment(archive: string): Promise<string> {
  const root = await privateDirectory();
  const { size, mtimeMs } = await stat(archive);
  const key = createHash('sha256').update(`${archive}\0${size}\0${mtimeMs}`).digest('hex');
  const target = path.join(root, key.slice(0, 32));
  if (await exists(target)) return target;
  const unfinished = await mkdtemp(path.join(root, 'unpacking-'));
  try {
    await run('tar', ['-xf', archive, '-C', unfinished, '--no-same-owner']);
    // Renamed when complete, so that what stands at `target` always is.
    await rename(unfinished, target);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    // Another instance may have been faster.
    if (await exists(target)) return target;
    const reason = error instanceof Error ? error.message : String(error);
    throw invalidArg(`EXECUTION_ENV_PATH: cannot unpack '${archive}': ${reason.trim()}`, error);
  }
  return target;
}

/** Below the system's folder for temporary files, and nobody else's: what lies there is run. */
async function privateDirectory(): Promise<string> {
  const userId = process.getuid?.() ?? 0;
  const directory = path.join(tmpdir(), `nereid-python-environments-${userId}`);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const found = await lstat(directory);
  if (!found.isDirectory() || found.uid !== userId) {
    throw internal(
      `'${directory}' belongs to somebody else: environments cannot be unpacked there`,
    );
  }
  await chmod(directory, 0o700);
  return directory;
}

async function exists(file: string): Promise<boolean> {
  return lstat(file).then(
    () => true,
    () => false,
  );
}
