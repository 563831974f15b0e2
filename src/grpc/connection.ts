import type { ServerHttp2Session } from 'node:http2';

export interface ConnectionOptions {
  readonly keepaliveTimeMs: number;
  readonly keepaliveTimeoutMs: number;
  readonly connectionAgeMaxMs: number | undefined;
  readonly connectionAgeGraceMs: number | undefined;
}

/** Node's timers hold no more. */
const timerMsMax = 0x7fffffff;

/**
 * Bytes that a client may send ahead, on all its calls together: large tensors would otherwise wait
 * for an acknowledgement every 64 KiB.
 */
const windowBytes = 2_097_152;

/** One client's connection: whether the client is still there, and how long it may stay. */
export class Connection {
  readonly #session: ServerHttp2Session;
  readonly #options: ConnectionOptions;
  #pingTimer: NodeJS.Timeout | undefined = undefined;
  #ageTimer: NodeJS.Timeout | undefined = undefined;

  constructor(session: ServerHttp2Session, options: ConnectionOptions, onClose: () => void) {
    this.#session = session;
    this.#options = options;
    session.setLocalWindowSize(windowBytes);
    session.on('close', () => {
      clearTimeout(this.#pingTimer);
      clearTimeout(this.#ageTimer);
      onClose();
    });
    this.#pingLater();
    const ageMs = options.connectionAgeMaxMs;
    // A tenth more or less, so that clients that came together do not all come back together.
    if (ageMs !== undefined) {
      this.#ageTimer = startTimer(ageMs * (0.9 + Math.random() / 5), () => this.#retire());
    }
  }

  /** Takes no new calls, and ends when those under way have. */
  close(): void {
    if (!this.#session.closed) this.#session.close();
  }

  destroy(): void {
    this.#session.destroy();
  }

  #retire(): void {
    this.close();
    const graceMs = this.#options.connectionAgeGraceMs;
    if (graceMs !== undefined) this.#ageTimer = startTimer(graceMs, () => this.destroy());
  }

  #pingLater(): void {
    this.#pingTimer = startTimer(this.#options.keepaliveTimeMs, () => this.#ping());
  }

  #ping(): void {
    if (this.#session.destroyed) return;
    this.#pingTimer = startTimer(this.#options.keepaliveTimeoutMs, () => this.destroy());
    this.#session.ping((error) => {
      clearTimeout(this.#pingTimer);
      // A ping fails with its connection, which has closed or is about to.
      if (error === null) this.#pingLater();
    });
  }
}

function startTimer(ms: number, callback: () => void): NodeJS.Timeout {
  return setTimeout(callback, Math.min(ms, timerMsMax)).unref();
}
