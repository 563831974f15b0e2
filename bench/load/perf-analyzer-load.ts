import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** One load of perf_analyzer, the reference server's own client. */
export interface PerfAnalyzerLoad {
  /** The project's folder; bench/peers/setup.sh installs it below. */
  readonly root: string;
  readonly protocol: 'grpc' | 'http';
  readonly address: string;
  readonly model: string;
  readonly concurrency: number;
  readonly seconds: number;
}

/**
 * Requests a second in one window. It sends binary tensors of random numbers, a row a request, and
 * fails where an answer is an error.
 */
export async function runPerfAnalyzer(load: PerfAnalyzerLoad): Promise<number> {
  const folder = join(load.root, '.tools/perf-analyzer');
  const directory = await mkdtemp(join(tmpdir(), 'nereid-perf-'));
  try {
    const table = join(directory, 'table.csv');
    await promisify(execFile)(
      join(folder, 'bin/perf_analyzer'),
      [
        ...['-m', load.model, '-i', load.protocol, '-u', load.address, '-f', table],
        ...['--concurrency-range', String(load.concurrency)],
        ...['--measurement-interval', String(load.seconds * 1000)],
        // It would go on until windows are alike; the spread of our rounds shows that.
        ...['--stability-percentage', '999', '--max-trials', '3'],
      ],
      { env: { ...process.env, LD_LIBRARY_PATH: join(folder, 'nvidia/cuda_runtime/lib') } },
    );
    return readRate(await readFile(table, 'utf8'));
  } finally {
    await rm(directory, { recursive: true });
  }
}

function readRate(csv: string): number {
  const [heads = [], row = []] = csv.split('\n').map((line) => line.split(','));
  const rate = Number(row[heads.indexOf('Inferences/Second')]);
  if (!(rate > 0)) throw new Error(`perf_analyzer wrote no rate:\n${csv}`);
  return rate;
}
