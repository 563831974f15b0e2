import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { LoadClient, LoadReport, LoadRequest } from './load-report.js';

const execFileAsync = promisify(execFile);
const reportMark = 'nereid-report ';

/** wrk (a Debian package), which uses far less of the machine than a client in JavaScript. */
export const wrkClient: LoadClient = { name: 'wrk', run };

export async function isWrkInstalled(): Promise<boolean> {
  try {
    await execFileAsync('wrk', ['--version']);
    return true;
  } catch (error) {
    // wrk prints its version and ends with 1; only a missing program has no exit code.
    return typeof (error as { code?: unknown }).code === 'number';
  }
}

async function run(
  request: LoadRequest,
  concurrency: number,
  seconds: number,
): Promise<LoadReport> {
  const directory = await mkdtemp(join(tmpdir(), 'nereid-wrk-'));
  try {
    const script = join(directory, 'request.lua');
    const bodyFile = join(directory, 'body');
    await writeFile(bodyFile, request.body);
    await writeFile(script, formatScript(request, bodyFile));
    const { stdout } = await execFileAsync('wrk', [
      '--threads=1',
      `--connections=${concurrency}`,
      `--duration=${seconds}s`,
      `--script=${script}`,
      request.url,
    ]);
    return readReport(stdout);
  } finally {
    await rm(directory, { recursive: true });
  }
}

function readReport(stdout: string): LoadReport {
  const line = stdout.split('\n').find((text) => text.startsWith(reportMark));
  const numbers = (line ?? '').slice(reportMark.length).split(' ').map(Number);
  const [requests, microseconds, p50Us, p95Us, p99Us, errors] = numbers;
  if (requests === undefined || microseconds === undefined || errors === undefined) {
    throw new Error(`wrk printed no report:\n${stdout}`);
  }
  return {
    requestsPerSec: requests / (microseconds / 1e6),
    p50Ms: (p50Us ?? 0) / 1000,
    p95Ms: (p95Us ?? 0) / 1000,
    p99Ms: (p99Us ?? 0) / 1000,
    errors,
  };
}

function formatScript({ headers }: LoadRequest, bodyFile: string): string {
  const headerLines = Object.entries(headers).map(
    ([name, value]) => `wrk.headers[${quote(Buffer.from(name))}] = ${quote(Buffer.from(value))}`,
  );
  return `
wrk.method = "POST"
local file = io.open(${quote(Buffer.from(bodyFile))}, "rb")
wrk.body = file:read("*a")
file:close()
${headerLines.join('\n')}
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("${reportMark}%d %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(95), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
`;
}

/** A Lua string of any bytes. */
function quote(bytes: Buffer): string {
  let text = '';
  for (const byte of bytes) text += `\\${String(byte).padStart(3, '0')}`;
  return `"${text}"`;
}
