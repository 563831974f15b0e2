import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import type { ArrivalClock } from '../../../bench/load/arrival-clock.js';
import type { LoadReport } from '../../../bench/load/load-report.js';
import { runOpenLoop } from '../../../bench/load/open-loop.js';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** All arrivals are due before anything is answered; time is what a test sets. */
class SteppedClock implements ArrivalClock {
  ms = 0;

  nowMs(): number {
    return this.ms;
  }

  async run(...[requestsPerSec, seconds, onDue]: Parameters<ArrivalClock['run']>): Promise<void> {
    onDue({ from: 0, to: requestsPerSec * seconds, startMs: 0 });
  }
}

/** 40 requests, one due every 5 ms, over two connections. */
async function load(listener: RequestListener, clock = new SteppedClock()): Promise<LoadReport> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => listener(request, response));
  }).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const url = `http://127.0.0.1:${address.port}`;
  const requests = ['/a', '/b'].map((path) => ({
    url: `${url}${path}`,
    headers: { 'X-Test': 'yes' },
    body: Buffer.from(`body of ${path}`),
  }));
  return runOpenLoop({ requests, requestsPerSec: 200, connections: 2, seconds: 0.2 }, clock);
}

describe('runOpenLoop', () => {
  it('sends each request that is due once, in turns of the given ones', async () => {
    const seen = new Map<string, number>();
    const report = await load((request, response) => {
      const key = `${request.method} ${request.url} ${request.headers['x-test']}`;
      seen.set(key, (seen.get(key) ?? 0) + 1);
      response.setHeader('Content-Length', 2).end('ok');
    });
    expect(seen).toEqual(
      new Map([
        ['POST /a yes', 20],
        ['POST /b yes', 20],
      ]),
    );
    expect(report.errors).toBe(0);
  });

  it('charges a server that stands still with every request that fell due meanwhile', async () => {
    const clock = new SteppedClock();
    const report = await load((_request, response) => {
      // Two requests are on their way when the server stands still until 250 ms.
      clock.ms = 250;
      response.setHeader('Content-Length', 2).end('ok');
    }, clock);
    expect(report.errors).toBe(0);
    // The one in the middle was due at 100 ms, though it was sent after 250.
    expect(report.p50Ms).toBeCloseTo(150, 0);
  });

  it('counts answers that are not 200, and connections that break', async () => {
    const refused = await load((_request, response) => {
      response.writeHead(503, { 'Content-Length': 0 }).end();
    });
    expect(refused.errors).toBe(40);
    const broken = await load((_request, response) => {
      response.destroy();
    });
    expect(broken.errors).toBe(40);
  });
});
