import { createHistogram } from 'node:perf_hooks';
import autocannon from 'autocannon';
import type { LoadClient, LoadReport, LoadRequest } from './load-report.js';

/** The client that is always there: an npm package in this process, which limits it on few cores. */
export const autocannonClient: LoadClient = { name: 'autocannon', run };

async function run(
  request: LoadRequest,
  concurrency: number,
  seconds: number,
): Promise<LoadReport> {
  // autocannon has no 95th percentile of its own; microseconds go into a histogram instead.
  const latencies = createHistogram();
  const result = await new Promise<autocannon.Result>((resolve, reject) => {
    const instance = autocannon(
      {
        url: request.url,
        method: 'POST',
        headers: { ...request.headers },
        body: request.body,
        connections: concurrency,
        duration: seconds,
      },
      (error, done) => (error === null ? resolve(done) : reject(error)),
    );
    instance.on('response', (_client, _status, _bytes, milliseconds) => {
      latencies.record(Math.max(1, Math.round(milliseconds * 1000)));
    });
  });
  return {
    requestsPerSec: result.requests.total / result.duration,
    p50Ms: latencies.percentile(50) / 1000,
    p95Ms: latencies.percentile(95) / 1000,
    p99Ms: latencies.percentile(99) / 1000,
    errors: result.errors + result.timeouts + result.non2xx,
  };
}
