import { createHistogram } from 'node:perf_hooks';
import { HttpConnection } from '../../src/bench-client/http-connection.js';
import { formatRequest } from '../../src/bench-client/request-head.js';
import type { ArrivalClock } from './arrival-clock.js';
import type { LoadReport, LoadRequest } from './load-report.js';

/** Requests that arrive at a constant rate, whether or not the server keeps up. */
export interface OpenLoad {
  /** Sent in turns, all to the same server. */
  readonly requests: readonly LoadRequest[];
  readonly requestsPerSec: number;
  readonly connections: number;
  readonly seconds: number;
}

/** Arrivals that find no free connection wait; beyond this many they count as errors. */
const waitingMax = 10_000;
/** How long the last answers may take. */
const drainMs = 5_000;

/**
 * Sends requests when they are due and counts the latency from that moment, also where a
 * connection was not free yet. A server that stands still for a second is thus charged with every
 * request that fell due in it ("coordinated omission" is leaving those out).
 */
export async function runOpenLoop(load: OpenLoad, clock: ArrivalClock): Promise<LoadReport> {
  const [first] = load.requests;
  if (first === undefined) throw new Error('an open loop needs a request');
  const { hostname, port } = new URL(first.url);
  const target = { host: hostname, port: Number(port), tls: undefined };
  const connections = Array.from(
    { length: load.connections },
    () => new HttpConnection(target, () => false),
  );
  const loop = new OpenLoop(load, connections, clock);
  await clock.run(load.requestsPerSec, load.seconds, ({ from, to, startMs }) => {
    for (let number = from; number < to; number++) {
      loop.arrive({ number, dueMs: startMs + (number / load.requestsPerSec) * 1000 });
    }
  });
  await loop.drain();
  for (const connection of connections) connection.destroy();
  return loop.report();
}

interface Arrival {
  readonly number: number;
  readonly dueMs: number;
}

class OpenLoop {
  readonly #load: OpenLoad;
  readonly #clock: ArrivalClock;
  readonly #messages: readonly Buffer[];
  readonly #free: HttpConnection[];
  readonly #waiting: Arrival[] = [];
  /** Microseconds. */
  readonly #latencies = createHistogram();
  #answered = 0;
  #inFlight = 0;
  #onIdle: (() => void) | undefined;

  constructor(load: OpenLoad, connections: readonly HttpConnection[], clock: ArrivalClock) {
    this.#load = load;
    this.#clock = clock;
    this.#messages = load.requests.map(encodeRequest);
    this.#free = [...connections];
  }

  /** Sends it, or lets it wait for a connection. */
  arrive(arrival: Arrival): void {
    const connection = this.#free.pop();
    if (connection !== undefined) this.#send(connection, arrival);
    else if (this.#waiting.length < waitingMax) this.#waiting.push(arrival);
  }

  /** Resolves when nothing is on its way any more, or nothing will come. */
  async drain(): Promise<void> {
    if (this.#inFlight === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, drainMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Whatever was not answered with a 200 is an error. */
  report(): LoadReport {
    const total = Math.round(this.#load.requestsPerSec * this.#load.seconds);
    return {
      requestsPerSec: this.#answered / this.#load.seconds,
      p50Ms: this.#latencies.percentile(50) / 1000,
      p95Ms: this.#latencies.percentile(95) / 1000,
      p99Ms: this.#latencies.percentile(99) / 1000,
      errors: total - this.#answered,
    };
  }

  #send(connection: HttpConnection, arrival: Arrival): void {
    this.#inFlight += 1;
    const message = this.#messages[arrival.number % this.#messages.length] ?? Buffer.alloc(0);
    connection.send(message, (outcome) => {
      this.#inFlight -= 1;
      if (outcome.kind === 'response') {
        if (outcome.response.status === 200) this.#record(arrival);
        this.#reuse(connection);
      }
      if (this.#inFlight === 0) this.#onIdle?.();
    });
  }

  #record({ dueMs }: Arrival): void {
    this.#answered += 1;
    this.#latencies.record(Math.max(1, Math.round((this.#clock.nowMs() - dueMs) * 1000)));
  }

  #reuse(connection: HttpConnection): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(connection);
    else this.#send(connection, next);
  }
}

function encodeRequest({ url, headers, body }: LoadRequest): Buffer {
  const { host, pathname } = new URL(url);
  const lines = [['Host', host] as const, ...Object.entries(headers)];
  return formatRequest({ method: 'POST', path: pathname, headers: lines, body });
}
