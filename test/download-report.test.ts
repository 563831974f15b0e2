import { describe, expect, it } from 'vitest';
import { DownloadReport, downloadBar, downloadLines } from '../src/download-report.js';
import type { Logger } from '../src/observability/logger.js';
import { StatusLine } from '../src/observability/status-line.js';
import type { DownloadProgress } from '../src/repository/repository-events.js';
import { FakeClock } from './support/fake-clock.js';

class Heard implements Logger {
  readonly lines: string[] = [];
  error() {}
  warning() {}
  verbose() {}
  isVerbose() {
    return false;
  }
  info(message: string) {
    this.lines.push(message);
  }
}

/** One model's files on their way. */
class Fetch {
  readonly #report: DownloadReport;
  readonly #start: DownloadProgress;

  constructor(report: DownloadReport, model: string, filesTotal: number, bytesTotal: number) {
    this.#report = report;
    const isOver = false;
    this.#start = {
      fetch: Symbol(model),
      model,
      filesDone: 0,
      filesTotal,
      bytesDone: 0,
      bytesTotal,
      isOver,
    };
    report.update(this.#start);
  }

  at(filesDone: number, bytesDone: number): void {
    this.#report.update({ ...this.#start, filesDone, bytesDone });
  }

  over(filesDone: number, bytesDone: number): void {
    this.#report.update({ ...this.#start, filesDone, bytesDone, isOver: true });
  }
}

describe('downloads in a log', () => {
  it('are told every few seconds over all models, and summed up at the end', () => {
    const clock = new FakeClock();
    const logger = new Heard();
    const report = new DownloadReport(clock, downloadLines(logger));
    const large = new Fetch(report, 'large', 2, 3_000_000_000);
    const small = new Fetch(report, 'small', 1, 1_000_000_000);
    large.at(0, 500_000_000);
    clock.advanceMs(1999);
    expect(logger.lines).toEqual([]);
    clock.advanceMs(1);
    small.over(1, 1_000_000_000);
    large.at(1, 1_000_000_000);
    clock.advanceMs(5000);
    large.over(2, 3_000_000_000);
    clock.advanceMs(60_000);
    expect(logger.lines).toEqual([
      'fetching models: 12 %, 0 of 3 files, 500.0 MB of 4.0 GB, 250.0 MB/s',
      'fetching models: 50 %, 2 of 3 files, 2.0 GB of 4.0 GB, 285.7 MB/s',
      'fetched 3 files of 2 models, 4.0 GB in 7.0 s',
    ]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('are told while nothing comes, and end with what has come when they fail', () => {
    const clock = new FakeClock();
    const logger = new Heard();
    const fetch = new Fetch(new DownloadReport(clock, downloadLines(logger)), 'm', 2, 999);
    clock.advanceMs(7000);
    fetch.over(1, 400);
    expect(logger.lines).toEqual([
      'fetching models: 0 %, 0 of 2 files, 0 B of 999 B, 0 B/s',
      'fetching models: 0 %, 0 of 2 files, 0 B of 999 B, 0 B/s',
      'fetched 1 of 2 files of 1 models, 400 B in 7.0 s',
    ]);
  });

  it('are not worth a line when they are short, one after another', () => {
    const clock = new FakeClock();
    const logger = new Heard();
    const report = new DownloadReport(clock, downloadLines(logger));
    for (let count = 0; count < 5; count++) {
      const fetch = new Fetch(report, 'm', 1, 0);
      clock.advanceMs(1900);
      fetch.over(1, 0);
    }
    expect(logger.lines).toEqual([]);
  });
});

describe('downloads on a terminal', () => {
  function open(columns: number) {
    const clock = new FakeClock();
    const logger = new Heard();
    const written: string[] = [];
    const line = new StatusLine({
      columns,
      write: (text: string | Uint8Array) => written.push(String(text)) > 0,
    });
    return { clock, logger, written, report: new DownloadReport(clock, downloadBar(line, logger)) };
  }

  it('are a bar that grows and goes', () => {
    const { clock, logger, written, report } = open(120);
    const fetch = new Fetch(report, 'm', 1, 1000);
    clock.advanceMs(300);
    fetch.at(0, 500);
    clock.advanceMs(200);
    fetch.over(1, 1000);
    const bar = (fill: string) => `\r\u001b[Kfetching models [${fill.padEnd(40)}] `;
    expect(written).toEqual([
      `${bar('>')}0 %, 0 of 1 files, 0 B of 1.0 kB, 0 B/s`,
      `${bar('====================>')}50 %, 0 of 1 files, 500 B of 1.0 kB, 1.3 kB/s`,
      `${bar('====================>')}50 %, 0 of 1 files, 500 B of 1.0 kB, 1.0 kB/s`,
      '\r\u001b[K',
    ]);
    expect(logger.lines).toEqual(['fetched 1 files of 1 models, 1.0 kB in 0.5 s']);
  });

  it.each([
    [70, /^fetching models \[>? *\] 0 %/],
    [60, /^fetching models 0 %, 0 of 1 files/],
    [20, /^fetching models 0 %$/],
  ])('stay on one line of %d columns', (columns, expected) => {
    const { clock, written, report } = open(columns);
    new Fetch(report, 'm', 1, 1000);
    clock.advanceMs(300);
    const text = (written[0] ?? '').slice('\r\u001b[K'.length);
    expect(text).toMatch(expected);
    expect(text.length).toBeLessThan(columns);
  });
});
