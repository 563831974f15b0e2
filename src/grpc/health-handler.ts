import type { Clock } from '../clock.js';
import { notFound, toInferenceServerError } from '../errors.js';
import { readName } from '../protocol/control-proto.js';
import { ProtoWriter } from '../protocol/writer-proto.js';
import type { InferenceServer } from '../server/inference-server.js';
import type { StreamCall, StreamHandler } from './calls.js';

/** Numbers of `HealthCheckResponse.ServingStatus`. */
const serving = 1;
const notServing = 2;
const serviceUnknown = 3;

/** How often what a client watches is looked at: the server tells no one of its changes. */
const watchPeriodNs = 1e9;

/** Names of the server as a whole; every other one is a model. */
const serverNames: ReadonlySet<string> = new Set(['', 'inference.GRPCInferenceService']);

/** The `grpc.health.v1` service. */
export class HealthHandler {
  readonly #server: InferenceServer;
  readonly #clock: Clock;

  constructor(server: InferenceServer, clock: Clock) {
    this.#server = server;
    this.#clock = clock;
  }

  async check(message: Uint8Array): Promise<Uint8Array> {
    const status = await this.#statusOf(readName(message));
    if (status === serviceUnknown) throw notFound('unknown service');
    return statusMessage(status).finish();
  }

  async list(): Promise<Uint8Array> {
    const index = await this.#server.repositoryIndex(false);
    const names = new Set([...serverNames, ...index.map((entry) => entry.name)]);
    const response = new ProtoWriter();
    for (const name of names) {
      const status = await this.#statusOf(name);
      const entry = new ProtoWriter().text(10, name).message(18, statusMessage(status));
      response.message(10, entry);
    }
    return response.finish();
  }

  watch(call: StreamCall): StreamHandler {
    return new Watch(call, this.#clock, (name) => this.#statusOf(name));
  }

  async #statusOf(name: string): Promise<number> {
    if (serverNames.has(name)) return this.#server.isReady() ? serving : notServing;
    if (await this.#server.isModelReady(name, '')) return serving;
    const index = await this.#server.repositoryIndex(false);
    return index.some((entry) => entry.name === name) ? notServing : serviceUnknown;
  }
}

/** One client that wants to be told of each change. */
class Watch implements StreamHandler {
  readonly #call: StreamCall;
  readonly #clock: Clock;
  readonly #statusOf: (name: string) => Promise<number>;
  #name: string | undefined = undefined;
  #lastStatus: number | undefined = undefined;
  #hasEnded = false;
  #stopTimer: () => void = () => undefined;

  constructor(call: StreamCall, clock: Clock, statusOf: (name: string) => Promise<number>) {
    this.#call = call;
    this.#clock = clock;
    this.#statusOf = statusOf;
  }

  onMessage(message: Uint8Array): void {
    if (this.#name !== undefined) return;
    const name = readName(message);
    this.#name = name;
    void this.#look(name);
  }

  onHalfClose(): void {
    // A watcher says no more than what it watches.
  }

  onCancel(): void {
    this.#hasEnded = true;
    this.#stopTimer();
  }

  onDrain(): void {
    if (this.#hasEnded) return;
    this.onCancel();
    this.#tell(notServing);
    this.#call.end();
  }

  async #look(name: string): Promise<void> {
    try {
      const status = await this.#statusOf(name);
      if (this.#hasEnded) return;
      this.#tell(status);
      this.#stopTimer = this.#clock.setTimer(watchPeriodNs, () => void this.#look(name));
    } catch (thrown) {
      if (this.#hasEnded) return;
      this.#hasEnded = true;
      this.#call.fail(toInferenceServerError(thrown, 'internal error'));
    }
  }

  #tell(status: number): void {
    if (status === this.#lastStatus) return;
    this.#lastStatus = status;
    this.#call.send(statusMessage(status).finish(), () => undefined);
  }
}

function statusMessage(status: number): ProtoWriter {
  return new ProtoWriter().integer(8, status);
}
