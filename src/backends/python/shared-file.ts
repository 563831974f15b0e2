import { randomUUID } from 'node:crypto';
import { closeSync, openSync, readSync, unlinkSync, writevSync } from 'node:fs';
import path from 'node:path';
import { sharedPayloadBytesMax } from './frames.js';

/** In memory, where there is such a file system; a file on a disk would be written to it. */
const folder = '/dev/shm';
/** Smaller payloads go through the socket: see frames.ts for the numbers. */
const sharedBytesMin = 64 * 1024;
/** Where the process writes; the place before it is ours. */
const answerPosition = sharedPayloadBytesMax;

/**
 * A file in memory that this thread and its Python process write large payloads to, one at a time
 * each way. It has no name, so that nothing is left of it when both have ended.
 */
export class SharedFile {
  readonly fd: number;

  private constructor(fd: number) {
    this.fd = fd;
  }

  /** Undefined where the system has no such place. */
  static open(): SharedFile | undefined {
    const file = path.join(folder, `nereid-${randomUUID()}`);
    try {
      const fd = openSync(file, 'wx+', 0o600);
      unlinkSync(file);
      return new SharedFile(fd);
    } catch {
      return undefined;
    }
  }

  /** Writes a payload for the process. False where it has to go through the socket. */
  write(pieces: readonly Buffer[], byteLength: number): boolean {
    if (byteLength < sharedBytesMin || byteLength > sharedPayloadBytesMax) return false;
    try {
      return writevSync(this.fd, pieces, 0) === byteLength;
    } catch {
      // The file system is full.
      return false;
    }
  }

  /** Fills `target` with the payload that the process has written. */
  read(target: Buffer): void {
    let position = 0;
    while (position < target.length) {
      const start = answerPosition + position;
      const count = readSync(this.fd, target, position, target.length - position, start);
      if (count === 0) throw new Error('the shared file ends before its payload does');
      position += count;
    }
  }

  close(): void {
    closeSync(this.fd);
  }
}
