import { constants, gzip } from 'node:zlib';

/** `--grpc-infer-response-compression-level`. */
export type CompressionLevel = 'none' | 'low' | 'medium' | 'high';

/** A message as it leaves. */
export interface OutgoingMessage {
  readonly message: Uint8Array;
  readonly isCompressed: boolean;
}

/** Below this a message gets no smaller worth its time. */
const compressedBytesMin = 512;

const gzipLevels: Readonly<Record<Exclude<CompressionLevel, 'none'>, number>> = {
  low: constants.Z_BEST_SPEED,
  medium: 6,
  high: constants.Z_BEST_COMPRESSION,
};

/**
 * Compresses responses off the event loop, with gzip: of the two ways that every gRPC library
 * knows, the one that is on where a client does nothing for it.
 */
export class ResponseCompressor {
  readonly #level: number | undefined;

  constructor(level: CompressionLevel) {
    this.#level = level === 'none' ? undefined : gzipLevels[level];
  }

  /** False where every message leaves as it is. */
  get isOn(): boolean {
    return this.#level !== undefined;
  }

  /** Calls `use` at once for a message that is not compressed, and later for one that is. */
  compress(message: Uint8Array, use: (outgoing: OutgoingMessage) => void): void {
    if (this.#level === undefined || message.byteLength < compressedBytesMin) {
      use({ message, isCompressed: false });
      return;
    }
    gzip(message, { level: this.#level }, (error, compressed) => {
      const isSmaller = error === null && compressed.byteLength < message.byteLength;
      if (isSmaller) use({ message: compressed, isCompressed: true });
      else use({ message, isCompressed: false });
    });
  }
}
