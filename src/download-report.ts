import type { Clock } from './clock.js';
import type { Logger } from './observability/logger.js';
import type { StatusLine } from './observability/status-line.js';
import type { DownloadProgress } from './repository/repository-events.js';

/** All fetches of one stretch of time in which there was always one under way. */
export interface DownloadTotals {
  readonly models: number;
  readonly filesDone: number;
  readonly filesTotal: number;
  readonly bytesDone: number;
  readonly bytesTotal: number;
  readonly durationNs: number;
}

/** Tells people how far downloads are. */
export interface DownloadDisplay {
  /** Shorter downloads are not worth a word. */
  readonly delayNs: number;
  readonly intervalNs: number;
  show(totals: DownloadTotals): void;
  /** Called once at the end, where `show` has been called. */
  finish(totals: DownloadTotals): void;
}

/** Adds up the downloads of all models, and shows them for as long as they take. */
export class DownloadReport {
  readonly #clock: Clock;
  readonly #display: DownloadDisplay;
  readonly #fetches = new Map<symbol, DownloadProgress>();
  #startedNs = 0;
  #isShown = false;
  #stopTimer: () => void = () => {};

  constructor(clock: Clock, display: DownloadDisplay) {
    this.#clock = clock;
    this.#display = display;
  }

  update(progress: DownloadProgress): void {
    if (this.#fetches.size === 0) this.#begin();
    this.#fetches.set(progress.fetch, progress);
    if (!progress.isOver) return;
    if ([...this.#fetches.values()].every(({ isOver }) => isOver)) this.#end();
  }

  #begin(): void {
    this.#startedNs = this.#clock.nowNs();
    this.#isShown = false;
    this.#showAfter(this.#display.delayNs);
  }

  #showAfter(delayNs: number): void {
    this.#stopTimer = this.#clock.setTimer(delayNs, () => {
      this.#isShown = true;
      this.#display.show(this.#totals());
      this.#showAfter(this.#display.intervalNs);
    });
  }

  #end(): void {
    this.#stopTimer();
    if (this.#isShown) this.#display.finish(this.#totals());
    this.#fetches.clear();
  }

  #totals(): DownloadTotals {
    const fetches = [...this.#fetches.values()];
    const sum = (of: (fetch: DownloadProgress) => number): number =>
      fetches.reduce((total, fetch) => total + of(fetch), 0);
    return {
      models: new Set(fetches.map(({ model }) => model)).size,
      filesDone: sum(({ filesDone }) => filesDone),
      filesTotal: sum(({ filesTotal }) => filesTotal),
      bytesDone: sum(({ bytesDone }) => bytesDone),
      bytesTotal: sum(({ bytesTotal }) => bytesTotal),
      durationNs: this.#clock.nowNs() - this.#startedNs,
    };
  }
}

/** For logs that are kept: a line every few seconds. */
export function downloadLines(logger: Logger): DownloadDisplay {
  return {
    delayNs: 2e9,
    intervalNs: 5e9,
    show(totals) {
      logger.info(`fetching models: ${describe(totals)}`);
    },
    finish: (totals) => logger.info(summarize(totals)),
  };
}

/** For a person who watches: a bar that moves, and one line of log when it is over. */
export function downloadBar(line: StatusLine, logger: Logger): DownloadDisplay {
  return {
    delayNs: 300e6,
    intervalNs: 100e6,
    show: (totals) => line.show(formatBar(totals, line.columns)),
    finish(totals) {
      line.show('');
      logger.info(summarize(totals));
    },
  };
}

const barColumnsMax = 40;

/** `fetching models [=======>      ] 52 %, 3 of 7 files, 1.1 GB of 2.1 GB, 87.0 MB/s` */
function formatBar(totals: DownloadTotals, columns: number): string {
  const text = describe(totals);
  const inner = Math.min(barColumnsMax, columns - 'fetching models [] '.length - text.length);
  if (inner < 3) return `fetching models ${text}`;
  const done = Math.floor((inner * percent(totals)) / 100);
  const tip = done < inner ? '>' : '';
  return `fetching models [${`${'='.repeat(done)}${tip}`.padEnd(inner)}] ${text}`;
}

function describe(totals: DownloadTotals): string {
  const { filesDone, filesTotal, bytesDone, bytesTotal, durationNs } = totals;
  const rate = formatBytes(bytesDone / (durationNs / 1e9));
  return `${percent(totals)} %, ${filesDone} of ${filesTotal} files, ${formatBytes(bytesDone)} of ${formatBytes(bytesTotal)}, ${rate}/s`;
}

function summarize(totals: DownloadTotals): string {
  const { models, filesDone, filesTotal, bytesDone, durationNs } = totals;
  const files = filesDone === filesTotal ? `${filesDone}` : `${filesDone} of ${filesTotal}`;
  return `fetched ${files} files of ${models} models, ${formatBytes(bytesDone)} in ${(durationNs / 1e9).toFixed(1)} s`;
}

function percent({ bytesDone, bytesTotal }: DownloadTotals): number {
  return bytesTotal === 0 ? 100 : Math.floor((100 * bytesDone) / bytesTotal);
}

const byteUnits = ['B', 'kB', 'MB', 'GB', 'TB'] as const;

function formatBytes(bytes: number): string {
  const step = Math.min(Math.max(0, Math.floor(Math.log10(bytes) / 3)), byteUnits.length - 1);
  return `${(bytes / 1000 ** step).toFixed(step === 0 ? 0 : 1)} ${byteUnits[step]}`;
}
