import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findFreePorts, ServerProcess } from '../support/server-process.js';
import { inferOne, oneNumber, WrittenRepository } from '../support/written-repository.js';

const missing = lookForRedis();
if (missing !== undefined && process.env['CI'] === 'true') {
  throw new Error(missing);
}

function lookForRedis(): string | undefined {
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'no redis-server: apt-get install redis-server';
  }
}

/** A real Redis that keeps nothing on disk: what it held is gone when it is killed. */
class RedisServer {
  readonly #port: number;
  readonly client: Redis;
  #process: ChildProcess | undefined;

  constructor(port: number) {
    this.#port = port;
    this.client = new Redis({
      host: '127.0.0.1',
      port,
      lazyConnect: true,
      retryStrategy: () => 20,
    });
    // While it is away, which is what the tests want.
    this.client.on('error', () => {});
  }

  async start(): Promise<void> {
    const settings = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
    this.#process = spawn('redis-server', ['--port', String(this.#port), ...settings], {
      stdio: 'ignore',
    });
    await this.client.ping();
  }

  async kill(): Promise<void> {
    if (this.#process === undefined) return;
    const ended = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    this.#process = undefined;
    await ended;
  }

  async stop(): Promise<void> {
    this.client.disconnect();
    await this.kill();
  }

  /** Insertions are not waited for by those whose answers they are. */
  async untilHolding(entries: number): Promise<void> {
    await until(async () => (await this.client.dbsize()) === entries);
  }
}

async function until(isReached: () => Promise<boolean>): Promise<void> {
  while (!(await isReached())) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Says in which process it ran: a cached answer names another server's. */
const source = `
export default ({ X }) => ({ Y: { datatype: 'BYTES', shape: [1], data: [process.pid + ' ' + X.data[0]] } });
`;
const config = `${oneNumber()}response_cache { enable: true }`;

interface CacheCounts {
  readonly hits: number;
  readonly misses: number;
  readonly executions: number;
}

async function counts(server: ServerProcess): Promise<CacheCounts> {
  const response = await fetch(`${server.httpUrl}/v2/models/where/stats`, {
    headers: { connection: 'close' },
  });
  // The server's own statistics.
  const body = (await response.json()) as {
    readonly model_stats: readonly {
      readonly execution_count: number;
      readonly inference_stats: Readonly<
        Record<'cache_hit' | 'cache_miss', { readonly count: number }>
      >;
    }[];
  };
  const statistics = body.model_stats[0];
  return {
    hits: statistics?.inference_stats.cache_hit.count ?? Number.NaN,
    misses: statistics?.inference_stats.cache_miss.count ?? Number.NaN,
    executions: statistics?.execution_count ?? Number.NaN,
  };
}

async function ask(server: ServerProcess, x: number): Promise<string> {
  const { status, value, error } = await inferOne(server.httpUrl, 'where', x);
  if (status !== 200) throw new Error(`${status} ${error}`);
  return String(value);
}

/** The process that computed the answer to `x`, by what `server` says. */
async function origin(server: ServerProcess, x: number): Promise<string> {
  const [pid, value] = (await ask(server, x)).split(' ');
  expect(value).toBe(String(x));
  return pid ?? '';
}

describe.skipIf(missing !== undefined)('two servers with one Redis as their cache', () => {
  let repository: WrittenRepository;
  let redis: RedisServer;
  let servers: readonly ServerProcess[] = [];

  beforeAll(async () => {
    const [port] = await findFreePorts();
    redis = new RedisServer(port);
    await redis.start();
    repository = await WrittenRepository.create({ where: { config, source } });
    const argv = [
      `--model-repository=${repository.directory}`,
      '--cache-config=redis,host=127.0.0.1',
      `--cache-config=redis,port=${port}`,
    ];
    servers = await Promise.all([ServerProcess.start(argv), ServerProcess.start(argv)]);
  });

  afterAll(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await redis.stop();
    await repository.remove();
  });

  function pair(): readonly [ServerProcess, ServerProcess] {
    const [one, other] = servers;
    if (one === undefined || other === undefined) throw new Error('no servers');
    return [one, other];
  }

  it('answer from what either has computed, and count hits and misses', async () => {
    const [one, other] = pair();
    const values = [1, 2, 3, 4, 5];
    const origins = new Set<string>();
    for (const value of values) origins.add(await origin(one, value));
    await redis.untilHolding(values.length);
    for (const value of values) origins.add(await origin(other, value));
    for (const value of values) origins.add(await origin(one, value));
    expect(origins.size).toBe(1);
    expect(await counts(one)).toEqual({ hits: 5, misses: 5, executions: 5 });
    expect(await counts(other)).toEqual({ hits: 5, misses: 0, executions: 0 });
    expect(await origin(other, 6)).not.toBe([...origins][0]);
    expect(await counts(other)).toEqual({ hits: 5, misses: 1, executions: 1 });
  });

  it('answer everything while Redis is killed and comes back, and share again', async () => {
    const [one, other] = pair();
    const before = await Promise.all([counts(one), counts(other)]);
    const failures: unknown[] = [];
    const asked = [0, 0];
    let isStopping = false;
    const clients = [one, other].flatMap((server, index) =>
      Array.from({ length: 4 }, async (_, client) => {
        for (let turn = 0; !isStopping; turn++) {
          const value = 100 + ((client + turn) % 7);
          await origin(server, value).catch((error: unknown) => failures.push(error));
          asked[index] = (asked[index] ?? 0) + 1;
        }
      }),
    );
    const askedMore = async (count: number): Promise<void> => {
      const reached = asked.map((former) => former + count);
      await until(async () => asked.every((now, index) => now >= (reached[index] ?? 0)));
    };

    await askedMore(50);
    await redis.kill();
    const away = await Promise.all([counts(one), counts(other)]);
    await askedMore(50);
    const afterAway = await Promise.all([counts(one), counts(other)]);
    for (const [index, { misses }] of afterAway.entries()) {
      // Each of them is executed as if there were no cache.
      expect(misses).toBeGreaterThan((away[index]?.misses ?? 0) + 20);
    }
    await redis.start();
    let probe = 1000;
    await until(async () => {
      probe++;
      const [computed, shared] = [await origin(one, probe), await origin(other, probe)];
      return computed === shared;
    });
    await askedMore(50);
    isStopping = true;
    await Promise.all(clients);

    expect(failures).toEqual([]);
    const after = await Promise.all([counts(one), counts(other)]);
    for (const [index, { hits, misses }] of after.entries()) {
      const former = before[index] ?? { hits: 0, misses: 0 };
      const probes = probe - 1000;
      // Every request is exactly one of the two.
      expect(hits + misses - former.hits - former.misses).toBe((asked[index] ?? 0) + probes);
      expect(hits).toBeGreaterThan(former.hits);
    }
    for (const { log } of servers) {
      // Once, not once a request; a machine that stalls may take an answer's delay for another loss.
      const losses = log.match(/Redis at \S+ is not to be had/g)?.length ?? 0;
      expect(losses).toBeGreaterThanOrEqual(1);
      expect(losses).toBeLessThan(5);
      expect(log.match(/Redis at \S+ answers again/g)).toHaveLength(losses);
    }
  });
});
