import type { InstanceNotice } from './messages.js';

/*
 * How far an instance's thread may be ahead of the main thread with the responses of its streams. A
 * pause takes until then to be heard: without this a model that answers quickly fills the port
 * between the two for as long as the main thread is busy with something else.
 */

/** Bytes of responses on their way from which a model waits before it sends the next one. */
export const responseWindowBytes = 2 * 1024 * 1024;

/** Received bytes are reported in portions of this: a quarter of the window, so that it never shuts. */
const reportedBytesMin = responseWindowBytes / 4;

/** What a response without data takes, for streams of many small ones: at most 1024 wait. */
const noticeBytes = 2048;

/** What a notice takes of the window. */
export function windowBytesOf(notice: InstanceNotice): number {
  return notice.type === 'response' ? notice.buffer.byteLength + noticeBytes : 0;
}

/** The thread's end: what is on its way. */
export class SentResponses {
  #unreceivedBytes = 0;
  #onRoom: (() => void)[] = [];

  add(notice: InstanceNotice): void {
    this.#unreceivedBytes += windowBytesOf(notice);
  }

  received(bytes: number): void {
    this.#unreceivedBytes -= bytes;
    if (this.#unreceivedBytes < responseWindowBytes) this.release();
  }

  /** Resolves when the next response may be sent. */
  async untilRoom(): Promise<void> {
    if (this.#unreceivedBytes < responseWindowBytes) return;
    await new Promise<void>((resolve) => this.#onRoom.push(resolve));
  }

  /** Lets everybody go on who waits. */
  release(): void {
    const waiting = this.#onRoom;
    this.#onRoom = [];
    for (const resolve of waiting) resolve();
  }
}

/** The main thread's end: what has arrived and was not reported yet. */
export class ReceivedResponses {
  #unreportedBytes = 0;

  /** Bytes to report now; 0 where it can wait. */
  add(notice: InstanceNotice): number {
    this.#unreportedBytes += windowBytesOf(notice);
    if (this.#unreportedBytes < reportedBytesMin) return 0;
    const bytes = this.#unreportedBytes;
    this.#unreportedBytes = 0;
    return bytes;
  }
}
