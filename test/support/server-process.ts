import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

const mainFile = fileURLToPath(new URL('../../dist/src/main.js', import.meta.url));
const startTimeoutMs = 30_000;

/** The compiled server in a process of its own, as a user starts it. */
export class ServerProcess {
  readonly httpUrl: string;
  readonly metricsUrl: string;
  /** Address and port for gRPC clients. */
  readonly grpcTarget: string;
  #log = '';
  readonly #child: ChildProcess;

  private constructor(
    child: ChildProcess,
    httpPort: number,
    metricsPort: number,
    grpcPort: number,
  ) {
    this.#child = child;
    this.httpUrl = `http://127.0.0.1:${httpPort}`;
    this.metricsUrl = `http://127.0.0.1:${metricsPort}`;
    this.grpcTarget = `127.0.0.1:${grpcPort}`;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#log += text;
      });
    }
  }

  /** Starts on free ports of 127.0.0.1. Resolves when it is ready. */
  static async start(
    argv: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<ServerProcess> {
    const [httpPort, grpcPort, metricsPort] = await findFreePorts();
    // A test that gives PORT wants to see it used.
    const httpOption = env['PORT'] === undefined ? [`--http-port=${httpPort}`] : [];
    const child = spawnServer(
      [
        '--http-address=127.0.0.1',
        '--grpc-address=127.0.0.1',
        `--grpc-port=${grpcPort}`,
        `--metrics-port=${metricsPort}`,
        ...httpOption,
        ...argv,
      ],
      env,
    );
    const server = new ServerProcess(child, Number(env['PORT'] ?? httpPort), metricsPort, grpcPort);
    await server.#untilReady();
    return server;
  }

  /** Both outputs so far. */
  get log(): string {
    return this.#log;
  }

  /** Resident memory as Linux counts it. */
  residentBytes(): number {
    const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** The exit code, once the process has ended. */
  async ended(): Promise<number | null> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      await once(this.#child, 'exit');
    }
    return this.#child.exitCode;
  }

  /** SIGTERM, and the exit code. */
  stop(): Promise<number | null> {
    this.signal('SIGTERM');
    return this.ended();
  }

  async #untilReady(): Promise<void> {
    const deadline = performance.now() + startTimeoutMs;
    while (performance.now() < deadline && this.#child.exitCode === null) {
      const isReady = await fetch(`${this.httpUrl}/v2/health/ready`, {
        headers: { connection: 'close' },
      }).then(
        ({ ok }) => ok,
        () => false,
      );
      if (isReady) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    this.signal('SIGKILL');
    throw new Error(`the server did not become ready:\n${this.#log}`);
  }
}

/** Runs the command to its end, for starts that are refused. */
export async function runServer(
  argv: readonly string[],
): Promise<{ readonly exitCode: number | null; readonly stdout: string; readonly stderr: string }> {
  const child = spawnServer(argv, {});
  let [stdout, stderr] = ['', ''];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  await once(child, 'close');
  return { exitCode: child.exitCode, stdout, stderr };
}

/** Free at this moment, and different from one another. */
export async function findFreePorts(): Promise<readonly [number, number, number]> {
  const servers = [createServer(), createServer(), createServer()];
  const ports: number[] = [];
  for (const server of servers) {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address !== null && typeof address === 'object') ports.push(address.port);
  }
  for (const server of servers) {
    server.close();
    await once(server, 'close');
  }
  const [http = 0, grpc = 0, metrics = 0] = ports;
  return [http, grpc, metrics];
}

function spawnServer(argv: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
  return spawn(process.execPath, [mainFile, ...argv], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], ...env },
  });
}
