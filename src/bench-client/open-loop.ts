import type { Clock } from '../clock.js';
import type { ArrivalSchedule } from './arrival-schedule.js';
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

/** Calls back at points in time, more finely than timers do. */
export interface Pacer {
  /** One call at a time: `callback` runs once, soon after `dueNs`. */
  wakeAt(dueNs: number, callback: () => void): void;
  close(): Promise<void>;
}

/** Starts the schedule of arrivals at the given time. */
export type StartsSchedule = (startNs: number) => ArrivalSchedule;

/** Requests that may be due without a free connection; beyond, they fail. */
const backlogMax = 100_000;
const backlogFull = `no connection was free for ${backlogMax} requests`;

/**
 * Requests at the times of a schedule, whatever the server does. Latency counts from the time at
 * which a request was due, so that the wait for a free connection is part of it, and a server that
 * stalls does not slow the load down and hide its stall ("coordinated omission").
 */
export class OpenLoop implements Load {
  readonly #settings: LoadSettings;
  readonly #clock: Clock;
  readonly #pacer: Pacer;
  readonly #startsSchedule: StartsSchedule;
  readonly #connectionsMax: number;
  readonly #connections: HttpConnection[] = [];
  readonly #free: HttpConnection[] = [];
  /** Times at which requests were due that wait for a connection, from `#backlogStart`. */
  #backlog: number[] = [];
  #backlogStart = 0;
  readonly #recorder: LoadRecorder;
  readonly #end: LoadEnd;
  #sentCount = 0;

  constructor(
    settings: LoadSettings,
    pacer: Pacer,
    connectionsMax: number,
    startsSchedule: StartsSchedule,
  ) {
    this.#settings = settings;
    this.#clock = settings.clock;
    this.#pacer = pacer;
    this.#startsSchedule = startsSchedule;
    this.#connectionsMax = connectionsMax;
    this.#recorder = new LoadRecorder(settings.clock.nowNs());
    this.#end = new LoadEnd(settings.clock);
  }

  start(): void {
    const nowNs = this.#clock.nowNs();
    this.#recorder.take(nowNs);
    this.#sendDue(this.#startsSchedule(nowNs));
  }

  take(): LoadWindow {
    return this.#recorder.take(this.#clock.nowNs());
  }

  async stop(): Promise<void> {
    this.#backlog = [];
    this.#backlogStart = 0;
    await this.#end.wait(this.#connections);
    await this.#pacer.close();
  }

  #sendDue(schedule: ArrivalSchedule): void {
    if (this.#end.isStopping) return;
    // Read once: at a rate that this process cannot send, the loop would never end otherwise.
    const nowNs = this.#clock.nowNs();
    while (schedule.nextNs <= nowNs) this.#admit(schedule.take());
    this.#pacer.wakeAt(schedule.nextNs, () => this.#sendDue(schedule));
  }

  #admit(dueNs: number): void {
    const connection = this.#freeConnection();
    if (connection !== undefined) {
      this.#send(connection, dueNs);
      return;
    }
    this.#recorder.delay();
    if (this.#backlog.length - this.#backlogStart >= backlogMax) {
      this.#recorder.fail(backlogFull);
    } else {
      this.#backlog.push(dueNs);
    }
  }

  #freeConnection(): HttpConnection | undefined {
    const free = this.#free.pop();
    if (free !== undefined || this.#connections.length >= this.#connectionsMax) return free;
    const connection = openLoadConnection(this.#settings.target);
    this.#connections.push(connection);
    return connection;
  }

  #send(connection: HttpConnection, dueNs: number): void {
    const { messages } = this.#settings;
    const message = messages[this.#sentCount++ % messages.length];
    if (message === undefined) throw new Error('a load without messages: this is a bug');
    connection.send(message, (outcome) => {
      recordOutcome(this.#recorder, outcome, this.#clock.nowNs() - dueNs);
      if (this.#end.isStopping) this.#end.check();
      else if (outcome.kind === 'response') this.#release(connection);
      else this.#clock.setTimer(retryNs, () => this.#release(connection));
    });
  }

  #release(connection: HttpConnection): void {
    const dueNs = this.#backlog[this.#backlogStart];
    if (dueNs === undefined) {
      this.#free.push(connection);
      return;
    }
    this.#backlogStart += 1;
    // The consumed part is cut off when it is half of the list: constant work for each request.
    if (this.#backlogStart * 2 > this.#backlog.length) {
      this.#backlog = this.#backlog.slice(this.#backlogStart);
      this.#backlogStart = 0;
    }
    this.#send(connection, dueNs);
  }
}
