import type { Clock } from '../clock.js';
import { HttpConnection, type HttpTarget, type Outcome } from './http-connection.js';
import type { LoadRecorder, LoadWindow } from './load-window.js';
import { answerText } from './v2-server.js';

/** A stream of requests at one server, until it is stopped. */
export interface Load {
  start(): void;
  /** What ended since the start or since the last call. */
  take(): LoadWindow;
  /** Sends no more; resolves when the last answers are there, or the time for them is over. */
  stop(): Promise<void>;
}

export interface LoadSettings {
  readonly target: HttpTarget;
  /** Bytes of whole requests, sent in turn; at least one. */
  readonly messages: readonly Uint8Array[];
  readonly clock: Clock;
}

/** A connection that could not be opened is tried again after this time, not in a tight loop. */
export const retryNs = 100e6;
/** How long requests may still run after the end of a load. */
const graceNs = 10e9;

/** Only the texts of failures are wanted. */
export function openLoadConnection(target: HttpTarget): HttpConnection {
  return new HttpConnection(target, (status) => status !== 200);
}

/** Adds the end of one request to what was measured. */
export function recordOutcome(recorder: LoadRecorder, outcome: Outcome, latencyNs: number): void {
  if (outcome.kind === 'failed') recorder.fail(outcome.reason);
  else if (outcome.response.status === 200) recorder.succeed(latencyNs);
  else recorder.fail(answerText(outcome.response));
}

/** Waits until `isDone`, asked after each request that ends, then closes the connections. */
export class LoadEnd {
  readonly #clock: Clock;
  #resolve: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isStopping(): boolean {
    return this.#resolve !== undefined;
  }

  async wait(connections: readonly HttpConnection[]): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.setTimer(graceNs, resolve);
      this.#resolve = () => {
        if (connections.some(({ isBusy }) => isBusy)) return;
        cancel();
        resolve();
      };
      this.check();
    });
    for (const connection of connections) connection.destroy();
  }

  check(): void {
    this.#resolve?.();
  }
}
