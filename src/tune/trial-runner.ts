import { ClosedLoop } from '../bench-client/closed-loop.js';
import type { LoadSettings } from '../bench-client/load.js';
import { LatencySummary, type LoadWindow, mergeWindows } from '../bench-client/load-window.js';
import type { V2Server } from '../bench-client/v2-server.js';
import { InferenceServerError } from '../errors.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { applyToCompleted, type Candidate, candidateKey } from './candidate.js';
import type { Trial } from './search.js';

export interface TrialSettings {
  readonly model: string;
  readonly requestRows: number;
  readonly percentile: number;
  readonly intervalMs: number;
}

/** A window goes on until it has so many answers, but not longer than this many intervals. */
const answersMin = 100;
const intervalsMax = 4;
/** Load before the window: caches, code that is compiled, a first batch of every size. */
const warmupShare = 0.4;

/** Loads candidates into a server and measures them under a closed loop. */
export class TrialRunner {
  readonly #server: V2Server;
  readonly #config: ModelConfig;
  readonly #defaults: Candidate;
  readonly #load: LoadSettings;
  readonly #settings: TrialSettings;
  readonly #wait: (ms: number) => Promise<void>;
  /** The candidate that is loaded now. */
  #loadedKey: string;

  /** The server has the defaults loaded, whose complete configuration is `config`. */
  constructor(
    server: V2Server,
    config: ModelConfig,
    defaults: Candidate,
    load: LoadSettings,
    settings: TrialSettings,
    wait: (ms: number) => Promise<void>,
  ) {
    this.#server = server;
    this.#config = config;
    this.#defaults = defaults;
    this.#load = load;
    this.#settings = settings;
    this.#wait = wait;
    this.#loadedKey = candidateKey(defaults);
  }

  /** A candidate that can't be loaded or that fails a request is a trial with its failure. */
  async measure(candidate: Candidate, concurrency: number, lengths: number): Promise<Trial> {
    try {
      await this.#switchTo(candidate);
    } catch (error) {
      if (!(error instanceof InferenceServerError)) throw error;
      this.#loadedKey = '';
      return { candidate, throughput: 0, latencyMs: Number.NaN, failure: error.message };
    }
    return this.#trial(candidate, await this.#runLoad(concurrency, lengths));
  }

  async #switchTo(candidate: Candidate): Promise<void> {
    const key = candidateKey(candidate);
    if (key === this.#loadedKey) return;
    const config = applyToCompleted(this.#config, candidate, this.#defaults);
    await this.#server.load(this.#settings.model, JSON.stringify(config));
    this.#loadedKey = key;
  }

  async #runLoad(concurrency: number, lengths: number): Promise<LoadWindow> {
    const load = new ClosedLoop(this.#load, concurrency);
    const intervalMs = this.#settings.intervalMs * lengths;
    load.start();
    try {
      await this.#wait(intervalMs * warmupShare);
      load.take();
      const windows: LoadWindow[] = [];
      let answers = 0;
      while (windows.length < intervalsMax && answers < answersMin) {
        await this.#wait(intervalMs);
        const window = load.take();
        answers += window.latenciesNs.length;
        windows.push(window);
      }
      return mergeWindows(windows);
    } finally {
      await load.stop();
    }
  }

  #trial(candidate: Candidate, window: LoadWindow): Trial {
    const { requestRows, percentile } = this.#settings;
    const latency = new LatencySummary(window.latenciesNs);
    const [reason] = window.failures.keys();
    const failure = reason ?? (latency.count === 0 ? 'no request was answered' : '');
    return {
      candidate,
      throughput: (latency.count * requestRows) / (window.durationNs / 1e9),
      latencyMs: latency.percentileNs(percentile) / 1e6,
      failure,
    };
  }
}
