import { setTimeout as delay } from 'node:timers/promises';
import { type CommandOutput, runNoting } from '../bench-client/command-output.js';
import { prepareCall } from '../bench-client/prepared-call.js';
import { reserveFile, writeJsonFile } from '../bench-client/result-file.js';
import { systemClock } from '../clock.js';
import { invalidArg } from '../errors.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { parseModelConfigJson } from '../model-config/read-model-config.js';
import { type Candidate, candidateOf } from './candidate.js';
import { findConfigFile, writeConfigFile } from './config-file.js';
import { formatLines } from './config-text.js';
import {
  type Comparison,
  chooseFinalists,
  chooseWinner,
  compareWithDefaults,
  confirmCandidates,
} from './confirmation.js';
import { findConcurrency } from './load-level.js';
import { type SearchResult, searchCandidates } from './search.js';
import { isSensible, searchSpace } from './search-space.js';
import { ServerProcess } from './server-process.js';
import { TrialRunner } from './trial-runner.js';
import type { TuneOptions } from './tune-options.js';
import {
  describeChange,
  formatComparisons,
  formatTrials,
  jsonComparison,
  jsonTrial,
  percent,
} from './tune-report.js';

/** The machine that the model is tuned for. */
export interface Machine {
  readonly cores: number;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Share of the time that the search may take; the rest is for the confirmation. */
const searchShare = 0.5;
const finalistCount = 4;
const roundsMax = 15;
/** Lengths of windows, in measurement intervals. */
const lengths = { level: 0.5, search: 1, confirmation: 1 } as const;

/**
 * `nereid tune`: finds the configuration of a model that answers most on this machine, prints what
 * it measured and the lines of `config.pbtxt`, and merges them where it is asked to. Returns the exit
 * code: 0 also where the defaults are best, 1 where nothing could be measured.
 */
export async function runTune(
  options: TuneOptions,
  output: CommandOutput,
  machine: Machine,
): Promise<number> {
  return runNoting(output, async () => {
    const startNs = systemClock.nowNs();
    reserveFile(options.jsonFile);
    // Known before anything is measured, where the winner is to be written.
    const configFile = options.isWriting
      ? findConfigFile(options.repositories, options.model)
      : undefined;
    const child = await ServerProcess.start({ ...options, environment: machine.environment });
    try {
      const tuning = await Tuning.prepare(options, output, machine, child);
      const { comparisons, defaults } = await tuning.run(startNs);
      const [own, ...others] = comparisons;
      const winner = own && chooseWinner(others, own);
      if (winner === undefined) {
        output.print('\nThe defaults are best: nothing gains more than the rounds differ.\n');
        return 0;
      }
      output.print(describeWinner(winner, defaults));
      if (configFile !== undefined) {
        writeConfigFile(configFile, winner.candidate, defaults);
        output.print(`\nwritten to ${configFile}\n`);
      }
      return 0;
    } finally {
      await child.stop();
    }
  });
}

function describeWinner({ candidate, gain }: Comparison, defaults: Candidate): string {
  const isSmaller = candidate.maxBatchSize < defaults.maxBatchSize;
  const warning = isSmaller
    ? `Requests of more than ${candidate.maxBatchSize} rows will be refused.\n`
    : '';
  return (
    `\n${percent(gain)} with ${describeChange(candidate, defaults)}.\n${warning}` +
    `config.pbtxt:\n\n${formatLines(candidate, defaults)}`
  );
}

interface TuningResult {
  readonly defaults: Candidate;
  /** The defaults first. */
  readonly comparisons: readonly Comparison[];
}

class Tuning {
  readonly #options: TuneOptions;
  readonly #output: CommandOutput;
  readonly #cores: number;
  readonly #config: ModelConfig;
  readonly #defaults: Candidate;
  readonly #runner: TrialRunner;

  private constructor(
    options: TuneOptions,
    output: CommandOutput,
    cores: number,
    config: ModelConfig,
    runner: TrialRunner,
  ) {
    this.#options = options;
    this.#output = output;
    this.#cores = cores;
    this.#config = config;
    this.#defaults = candidateOf(config);
    this.#runner = runner;
  }

  /** INVALID_ARG or UNSUPPORTED where the model can't be called or tuned. */
  static async prepare(
    options: TuneOptions,
    output: CommandOutput,
    machine: Machine,
    { server }: ServerProcess,
  ): Promise<Tuning> {
    const model = { name: options.model, version: '' };
    const document = await server.configuration(model);
    if (document === undefined) throw invalidArg(`model '${options.model}' has no configuration`);
    const config = parseModelConfigJson(JSON.stringify(document));
    // Refuses what can't be tuned before requests for it are made.
    searchSpace(config, limitsOf(options, machine.cores, 1));
    const { messages } = await prepareCall(server, {
      ...options.call,
      model,
      headers: [],
      inputFormat: 'binary',
      outputFormat: 'binary',
    });
    const runner = new TrialRunner(
      server,
      config,
      candidateOf(config),
      { target: server.target, messages, clock: systemClock },
      {
        model: options.model,
        requestRows: options.call.batchSize,
        percentile: options.percentile,
        intervalMs: options.intervalMs,
      },
      delay,
    );
    return new Tuning(options, output, machine.cores, config, runner);
  }

  async run(startNs: number): Promise<TuningResult> {
    const { latencyTargetMs, percentile, jsonFile } = this.#options;
    const { print } = this.#output;
    const hasTimeLeft = (share: number) => () =>
      systemClock.nowNs() - startNs < this.#options.durationMaxSecs * 1e9 * share;
    const concurrency = this.#options.concurrency ?? (await this.#findConcurrency());
    print(this.#describeLoad(concurrency));
    const search = await this.#search(concurrency, hasTimeLeft(searchShare));
    print(`\n${formatTrials(search.trials, latencyTargetMs, percentile)}`);
    const comparisons = await this.#confirm(search, concurrency, hasTimeLeft(1));
    print(`\nin turns:\n${formatComparisons(comparisons, percentile)}`);
    writeJsonFile(jsonFile, {
      model: this.#options.model,
      concurrency,
      cores: this.#cores,
      percentile,
      trials: search.trials.map(jsonTrial),
      confirmed: comparisons.map(jsonComparison),
    });
    return { defaults: this.#defaults, comparisons };
  }

  #findConcurrency(): Promise<number> {
    this.#output.note('looking for a number of callers that keeps the model busy ...\n');
    return findConcurrency(
      (concurrency) => this.#runner.measure(this.#defaults, concurrency, lengths.level),
      this.#options.latencyTargetMs,
    );
  }

  #search(concurrency: number, hasTimeLeft: () => boolean): Promise<SearchResult> {
    return searchCandidates({
      defaults: this.#defaults,
      space: searchSpace(this.#config, limitsOf(this.#options, this.#cores, concurrency)),
      latencyTargetMs: this.#options.latencyTargetMs,
      isSensible: (candidate) => isSensible(candidate, this.#defaults, this.#cores),
      measure: async (candidate) => {
        const trial = await this.#runner.measure(candidate, concurrency, lengths.search);
        const change = describeChange(candidate, this.#defaults);
        this.#output.note(
          `${trial.throughput.toFixed(1)} infer/s  ${change === '' ? 'the defaults' : change}\n`,
        );
        return trial;
      },
      hasTimeLeft,
    });
  }

  async #confirm(
    search: SearchResult,
    concurrency: number,
    hasTimeLeft: () => boolean,
  ): Promise<readonly Comparison[]> {
    const { latencyTargetMs } = this.#options;
    this.#output.note('measuring the best ones and the defaults in turns ...\n');
    const confirmed = await confirmCandidates({
      candidates: chooseFinalists(search, latencyTargetMs, finalistCount),
      latencyTargetMs,
      roundsMax,
      measure: (candidate) => this.#runner.measure(candidate, concurrency, lengths.confirmation),
      hasTimeLeft,
    });
    const [defaults] = confirmed;
    if (defaults === undefined) return [];
    return confirmed.map((one) => compareWithDefaults(one, defaults, latencyTargetMs));
  }

  #describeLoad(concurrency: number): string {
    const { model, call, latencyTargetMs, percentile } = this.#options;
    const target = Number.isFinite(latencyTargetMs)
      ? `, p${percentile} up to ${latencyTargetMs} ms`
      : '';
    return (
      `${model}: ${concurrency} callers, ${call.batchSize} row(s) a request${target}; ` +
      `${this.#cores} cores, which this client shares\n`
    );
  }
}

function limitsOf(options: TuneOptions, cores: number, concurrency: number) {
  return {
    cores,
    instancesMax: options.instancesMax,
    batchSizeMax: options.batchSizeMax,
    requestRows: options.call.batchSize,
    rowsInFlight: options.call.batchSize * concurrency,
  };
}
