import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';

/** What a file system says about a file. Times are nanoseconds since the Unix epoch. */
export interface FileFacts {
  readonly size: bigint;
  readonly modifiedNs: bigint;
  /** Of the last change of contents or attributes; no tool can set it back. */
  readonly changedNs: bigint;
  readonly inode: bigint;
}

/**
 * Two writes closer together than this may leave the same modification time: two seconds on FAT
 * and on some network file systems, a few milliseconds elsewhere.
 */
const timeGrainNs = 2_000_000_000n;
/** Smaller files are hashed whole. */
const wholeHashBytes = 256 * 1024;
/** Of larger files, this many blocks of this size, spread evenly, first and last included. */
const sampleBlocks = 16;
const sampleBlockBytes = 16 * 1024;

interface KnownFile {
  readonly facts: FileFacts;
  /** Of the contents; undefined until there was a reason to read them. */
  readonly hash: string | undefined;
  /** The file had been written so recently that the same facts could hide another write. */
  readonly isRecent: boolean;
  readonly fingerprint: string;
  readonly scan: number;
}

/**
 * Remembers files so that a look costs one `stat` a file, and reads contents only where sizes and
 * times can lie:
 *
 * | size and modification time | inode, change time | file was just written | conclusion          |
 * | -------------------------- | ------------------ | --------------------- | ------------------- |
 * | differ                     |                    |                       | changed             |
 * | same                       | same               | no                    | unchanged           |
 * | same                       | same               | yes                   | what the hash says  |
 * | same                       | differ             |                       | what the hash says, |
 * |                            |                    |                       | changed without one |
 *
 * So a rewrite within the clock's grain and a copy that keeps times are noticed, and file systems
 * whose inode numbers wander cost a read, not a reload at every look.
 */
export class FileMemory {
  readonly #known = new Map<string, KnownFile>();
  #generation = 0;
  #scan = 0;

  /** To be called before a look at everything; see {@link forgetUnseen}. */
  beginScan(): void {
    this.#scan++;
  }

  /** Drops files that no look has seen since the last {@link beginScan}. */
  forgetUnseen(): void {
    for (const [path, file] of this.#known) {
      if (file.scan !== this.#scan) {
        this.#known.delete(path);
      }
    }
  }

  /** The file's fingerprint; undefined where `facts` do not suffice and {@link read} must decide. */
  recall(path: string, facts: FileFacts, wallNs: bigint): string | undefined {
    const before = this.#known.get(path);
    if (before !== undefined && !before.isRecent && isSame(before.facts, facts)) {
      if (before.scan !== this.#scan) {
        this.#known.set(path, { ...before, scan: this.#scan });
      }
      return before.fingerprint;
    }
    const isNew =
      before === undefined ||
      before.facts.size !== facts.size ||
      before.facts.modifiedNs !== facts.modifiedNs;
    return isNew && !isRecent(facts, wallNs)
      ? this.#remember(path, facts, undefined, false)
      : undefined;
  }

  /** Like {@link recall}, with the contents read. A file that cannot be read counts by its facts. */
  async read(path: string, facts: FileFacts, wallNs: bigint): Promise<string> {
    const hash = await hashContents(path, Number(facts.size)).catch(() => 'unreadable');
    const before = this.#known.get(path);
    const isUnchanged =
      before !== undefined &&
      before.hash === hash &&
      before.facts.size === facts.size &&
      before.facts.modifiedNs === facts.modifiedNs;
    return this.#remember(
      path,
      facts,
      hash,
      isRecent(facts, wallNs),
      isUnchanged ? before.fingerprint : undefined,
    );
  }

  #remember(
    path: string,
    facts: FileFacts,
    hash: string | undefined,
    recent: boolean,
    fingerprint = `${facts.size}:${facts.modifiedNs}:${facts.inode}:${this.#generation++}`,
  ): string {
    this.#known.set(path, { facts, hash, isRecent: recent, fingerprint, scan: this.#scan });
    return fingerprint;
  }
}

function isSame(left: FileFacts, right: FileFacts): boolean {
  return (
    left.size === right.size &&
    left.modifiedNs === right.modifiedNs &&
    left.changedNs === right.changedNs &&
    left.inode === right.inode
  );
}

/** By the change time, which every write moves; a modification time may lie in the future. */
function isRecent(facts: FileFacts, wallNs: bigint): boolean {
  return facts.changedNs > wallNs - timeGrainNs;
}

/** A hash of the whole file or of evenly spread blocks of it; a block at a time, off this thread. */
async function hashContents(path: string, size: number): Promise<string> {
  const file = await open(path, 'r');
  try {
    const hash = createHash('sha1');
    const isWhole = size <= wholeHashBytes;
    const blockBytes = isWhole ? Math.max(size, 1) : sampleBlockBytes;
    const blocks = isWhole ? 1 : sampleBlocks;
    const buffer = Buffer.allocUnsafe(blockBytes);
    for (let block = 0; block < blocks; block++) {
      const position = isWhole
        ? 0
        : Math.floor(((size - blockBytes) * block) / Math.max(blocks - 1, 1));
      const { bytesRead } = await file.read(buffer, 0, blockBytes, position);
      hash.update(buffer.subarray(0, bytesRead));
    }
    return hash.digest('base64url');
  } finally {
    await file.close();
  }
}
