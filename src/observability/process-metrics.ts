import { cpus, freemem, totalmem } from 'node:os';
import type { Clock } from '../clock.js';
import type { MetricFamily } from './exposition.js';

/** Processor and memory use of the machine. Measured when asked, at most once an interval. */
export class ProcessorUse {
  readonly #clock: Clock;
  readonly #intervalNs: number;
  readonly #readTimes: () => ProcessorTimes;
  #measuredNs: number;
  #times: ProcessorTimes;
  #utilization = 0;

  constructor(clock: Clock, intervalMs: number, readTimes: () => ProcessorTimes = readSystemTimes) {
    this.#clock = clock;
    this.#intervalNs = intervalMs * 1e6;
    this.#readTimes = readTimes;
    this.#measuredNs = clock.nowNs();
    this.#times = readTimes();
  }

  families(): readonly MetricFamily[] {
    const totalBytes = totalmem();
    return [
      gauge('nv_cpu_utilization', 'CPU utilization rate [0.0 - 1.0]', this.utilization()),
      gauge('nv_cpu_memory_total_bytes', 'CPU total memory (RAM), in bytes', totalBytes),
      gauge('nv_cpu_memory_used_bytes', 'CPU used memory (RAM), in bytes', totalBytes - freemem()),
    ];
  }

  /** Busy share of all processors, 0 to 1, between the last two measurements. */
  utilization(): number {
    const nowNs = this.#clock.nowNs();
    if (nowNs - this.#measuredNs < this.#intervalNs) return this.#utilization;
    const times = this.#readTimes();
    const total = times.total - this.#times.total;
    if (total > 0) this.#utilization = 1 - (times.idle - this.#times.idle) / total;
    this.#times = times;
    this.#measuredNs = nowNs;
    return this.#utilization;
  }
}

/** Milliseconds since boot, summed over all processors. */
export interface ProcessorTimes {
  readonly idle: number;
  readonly total: number;
}

/** This process's own memory, processor time and age. */
export function readProcessFamilies(): readonly MetricFamily[] {
  const { user, system } = process.cpuUsage();
  return [
    gauge(
      'process_resident_memory_bytes',
      'Resident memory size in bytes.',
      process.memoryUsage.rss(),
    ),
    {
      ...gauge(
        'process_cpu_seconds_total',
        'Total user and system CPU time spent in seconds.',
        (user + system) / 1e6,
      ),
      kind: 'counter',
    },
    gauge(
      'process_start_time_seconds',
      'Start time of the process since unix epoch in seconds.',
      Math.floor(Date.now() / 1000 - process.uptime()),
    ),
  ];
}

function gauge(name: string, help: string, value: number): MetricFamily {
  return { name, help, kind: 'gauge', samples: () => [{ labels: {}, value }] };
}

function readSystemTimes(): ProcessorTimes {
  let idle = 0;
  let total = 0;
  for (const { times } of cpus()) {
    idle += times.idle;
    total += times.user + times.nice + times.sys + times.idle + times.irq;
  }
  return { idle, total };
}
