import type { Clock } from '../clock.js';
import type { HttpConnection } from './http-connection.js';
import {
  type Load,
  LoadEnd,
  type LoadSettings,
  openLoadConnection,
  recordOutcome,
  retryNs,
} from './load.js';
import { LoadRecorder, type LoadWindow } from './load-window.js';

/**
 * `concurrency` connections, each of which sends its next request when it has its answer. The load
 * falls with the server's speed: what a waiting caller sees, not what an arrival rate does.
 */
export class ClosedLoop implements Load {
  readonly #messages: readonly Uint8Array[];
  readonly #clock: Clock;
  readonly #connections: readonly HttpConnection[];
  readonly #recorder: LoadRecorder;
  readonly #end: LoadEnd;
  #sentCount = 0;

  constructor({ target, messages, clock }: LoadSettings, concurrency: number) {
    this.#messages = messages;
    this.#clock = clock;
    this.#connections = Array.from({ length: concurrency }, () => openLoadConnection(target));
    this.#recorder = new LoadRecorder(clock.nowNs());
    this.#end = new LoadEnd(clock);
  }

  start(): void {
    this.#recorder.take(this.#clock.nowNs());
    for (const connection of this.#connections) this.#send(connection);
  }

  take(): LoadWindow {
    return this.#recorder.take(this.#clock.nowNs());
  }

  stop(): Promise<void> {
    return this.#end.wait(this.#connections);
  }

  #send(connection: HttpConnection): void {
    if (this.#end.isStopping) {
      this.#end.check();
      return;
    }
    const message = this.#messages[this.#sentCount++ % this.#messages.length];
    if (message === undefined) throw new Error('a load without messages: this is a bug');
    const startNs = this.#clock.nowNs();
    connection.send(message, (outcome) => {
      recordOutcome(this.#recorder, outcome, this.#clock.nowNs() - startNs);
      if (outcome.kind === 'response' || this.#end.isStopping) this.#send(connection);
      else this.#clock.setTimer(retryNs, () => this.#send(connection));
    });
  }
}
