/*
 * Frames between this thread and its Python process, the counterpart of
 * workers/python/nereid_host/channel.py: a header of 16 bytes (u32 kind, u32 id, u64 payload
 * length, little-endian) and a payload.
 *
 * Why a socket pair, and a file in /dev/shm for what is large. Round trips measured on 2 virtual cores
 * (frame echoed by Python, payload both ways; shm is written and read with pwrite and pread):
 *
 *   payload     socket pair    shm + frame
 *   100 B          93 µs           -
 *   4 kB           85 µs        101 µs
 *   64 kB          92 µs        131 µs
 *   600 kB        605 µs        543 µs
 *
 * Waking the other process is most of it, and shared memory wakes it just the same. But a socket
 * holds about 200 kB: a large payload takes turns between the two, and on cores that have other
 * work each turn is a wait. Images of 600 kB over HTTP, 8 callers, both cores busy otherwise, medians
 * of 4: 70 requests/s by the socket, 104 by the file. Where there is no room in /dev/shm, of which
 * containers often have 64 MB, or no such place, all goes through the socket.
 */

/** What a frame is. Numbers are those of channel.py. */
export const frameKind = {
  load: 1,
  autoComplete: 2,
  initialize: 3,
  execute: 4,
  isReady: 5,
  finalize: 6,
  inferResponse: 7,
  inferEnd: 8,
  controlResult: 9,
  cancelState: 10,
  streamCredit: 11,
  hello: 32,
  done: 33,
  failed: 34,
  executed: 35,
  streamResponse: 36,
  infer: 37,
  inferCancel: 38,
  control: 39,
  log: 40,
  metric: 41,
  cancelQuery: 42,
} as const;

/** Added to the kind of a frame whose payload lies in the shared file. */
export const sharedPayloadFlag = 0x8000_0000;

/** What an instance may hold in memory for it each way; containers often have 64 MB of it. */
export const sharedPayloadBytesMax = 8 * 1024 * 1024;

export const frameHeaderBytes = 16;

/** Memory of answers up to this size is kept for the next one; it saves a page fault every 4 kB. */
const keptBytesMax = 16 * 1024 * 1024;

/**
 * Kinds are checked to be known where frames are handled; a length beyond this means that the
 * stream is out of step.
 */
const payloadBytesMax = 2 ** 40;

export function writeFrameHeader(
  buffer: Buffer,
  kind: number,
  id: number,
  payloadBytes: number,
): void {
  buffer.writeUInt32LE(kind, 0);
  buffer.writeUInt32LE(id, 4);
  buffer.writeUInt32LE(payloadBytes % 0x1_0000_0000, 8);
  buffer.writeUInt32LE(Math.floor(payloadBytes / 0x1_0000_0000), 12);
}

export type OnFrame = (kind: number, id: number, payload: Buffer) => void;

/**
 * Cuts a byte stream into frames. A payload that came in one chunk is a view of it; one that came
 * in several is gathered in memory of its own, which for `executed` frames is used again for the
 * next of them. Throws when the stream cannot be one of frames.
 */
export class FrameSplitter {
  readonly #onFrame: OnFrame;
  readonly #readShared: (target: Buffer) => void;
  /** Bytes of a frame that is not complete: its start, or all of it once the header is known. */
  #partial: Buffer = Buffer.alloc(0);
  #filledBytes = 0;
  #isGathering = false;
  #kept: Buffer = Buffer.alloc(0);

  /** `readShared` fills its argument from the shared file. */
  constructor(onFrame: OnFrame, readShared: (target: Buffer) => void) {
    this.#onFrame = onFrame;
    this.#readShared = readShared;
  }

  push(chunk: Buffer): void {
    let rest = this.#isGathering ? this.#gather(chunk) : chunk;
    if (!this.#isGathering && this.#partial.length > 0) {
      rest = Buffer.concat([this.#partial, rest]);
      this.#partial = Buffer.alloc(0);
    }
    while (rest.length >= frameHeaderBytes) {
      if (isShared(rest)) {
        this.#emitShared(rest);
        rest = rest.subarray(frameHeaderBytes);
        continue;
      }
      const endOfFrame = frameHeaderBytes + payloadBytesOf(rest);
      if (rest.length < endOfFrame) {
        this.#startGathering(rest, endOfFrame);
        return;
      }
      this.#emit(rest.subarray(0, endOfFrame));
      rest = rest.subarray(endOfFrame);
    }
    // The rest of a chunk must not keep all of it.
    if (rest.length > 0) this.#partial = Buffer.from(rest);
  }

  #startGathering(start: Buffer, frameBytes: number): void {
    const isExecuted = start.readUInt32LE(0) === frameKind.executed;
    this.#partial = isExecuted ? this.#keptMemory(frameBytes) : Buffer.allocUnsafeSlow(frameBytes);
    start.copy(this.#partial);
    this.#filledBytes = start.length;
    this.#isGathering = true;
  }

  #keptMemory(byteLength: number): Buffer {
    if (byteLength > keptBytesMax) return Buffer.allocUnsafeSlow(byteLength);
    if (byteLength > this.#kept.length) this.#kept = Buffer.allocUnsafeSlow(byteLength);
    return this.#kept.subarray(0, byteLength);
  }

  /** Adds to the frame under way; what follows it is returned. */
  #gather(chunk: Buffer): Buffer {
    const missingBytes = this.#partial.length - this.#filledBytes;
    if (chunk.length < missingBytes) {
      chunk.copy(this.#partial, this.#filledBytes);
      this.#filledBytes += chunk.length;
      return chunk.subarray(chunk.length);
    }
    chunk.copy(this.#partial, this.#filledBytes, 0, missingBytes);
    const frame = this.#partial;
    this.#partial = Buffer.alloc(0);
    this.#isGathering = false;
    this.#emit(frame);
    return chunk.subarray(missingBytes);
  }

  #emitShared(header: Buffer): void {
    const byteLength = payloadBytesOf(header);
    if (byteLength > sharedPayloadBytesMax) throw outOfStep();
    const payload = this.#keptMemory(byteLength);
    this.#readShared(payload);
    this.#onFrame(header.readUInt32LE(0) - sharedPayloadFlag, header.readUInt32LE(4), payload);
  }

  #emit(frame: Buffer): void {
    this.#onFrame(frame.readUInt32LE(0), frame.readUInt32LE(4), frame.subarray(frameHeaderBytes));
  }
}

function isShared(header: Buffer): boolean {
  return header.readUInt32LE(0) >= sharedPayloadFlag;
}

function payloadBytesOf(header: Buffer): number {
  const payloadBytes = header.readUInt32LE(8) + header.readUInt32LE(12) * 0x1_0000_0000;
  if (payloadBytes > payloadBytesMax) throw outOfStep();
  return payloadBytes;
}

function outOfStep(): Error {
  return new Error('the frame stream is out of step');
}
