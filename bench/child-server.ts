import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

const startTimeoutMs = 120_000;
const stopTimeoutMs = 30_000;
const pollMs = 5;

/** A server in a process of its own, on 127.0.0.1. */
export interface ChildServer {
  readonly url: string;
  readonly pid: number;
  /** From the start of the process to its first "ready". */
  readonly startMs: number;
  /** Ends it with SIGTERM and waits. */
  stop(): Promise<void>;
}

/** How a server is started, and how one sees that it answers. */
export interface ServerCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly url: string;
  /** Below `url`: anything but a 200 means "not yet". */
  readonly readyPath: string;
}

export interface NereidServer extends ChildServer {
  readonly metricsUrl: string;
  /** host:port, where no port was asked for it is not served. */
  readonly grpcAddress: string;
}

export interface NereidOptions {
  readonly repositories: readonly string[];
  readonly hasGrpc: boolean;
  readonly extraOptions: readonly string[];
}

/** The compiled server on free ports, once it is ready. */
export async function startNereid({
  repositories,
  hasGrpc,
  extraOptions,
}: NereidOptions): Promise<NereidServer> {
  const [httpPort, metricsPort, grpcPort] = await findFreePorts(3);
  const server = await startServer({
    program: process.execPath,
    args: [
      fileURLToPath(new URL('../src/main.js', import.meta.url)),
      ...repositories.map((directory) => `--model-repository=${directory}`),
      '--http-address=127.0.0.1',
      '--grpc-address=127.0.0.1',
      `--http-port=${httpPort}`,
      `--metrics-port=${metricsPort}`,
      `--grpc-port=${grpcPort}`,
      `--allow-grpc=${hasGrpc}`,
      '--log-info=false',
      ...extraOptions,
    ],
    url: `http://127.0.0.1:${httpPort}`,
    readyPath: '/v2/health/ready',
  });
  return {
    ...server,
    metricsUrl: `http://127.0.0.1:${metricsPort}/metrics`,
    grpcAddress: `127.0.0.1:${grpcPort}`,
  };
}

/** The echo server: it says its port itself. */
export async function startEcho(): Promise<ChildServer> {
  const startedMs = performance.now();
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL('./echo-server.js', import.meta.url))],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const [chunk] = await once(child.stdout, 'data');
  const port = /^port (\d+)/.exec(String(chunk))?.[1];
  if (port === undefined) throw new Error(`the echo server said: ${String(chunk)}`);
  return createChild(child, `http://127.0.0.1:${port}`, performance.now() - startedMs);
}

/** Starts a server and waits until it is ready. What it prints is shown only where it fails. */
export async function startServer(command: ServerCommand): Promise<ChildServer> {
  const startedMs = performance.now();
  const child = spawn(command.program, command.args, {
    env: { ...process.env, ...command.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = collectOutput(child);
  const readyUrl = `${command.url}${command.readyPath}`;
  while (performance.now() - startedMs < startTimeoutMs) {
    if (child.exitCode !== null) break;
    if (await isReady(readyUrl)) {
      return createChild(child, command.url, performance.now() - startedMs);
    }
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  child.kill('SIGKILL');
  throw new Error(`${command.program} did not become ready:\n${output()}`);
}

const outputBytesKept = 8192;

/** Reads all that the process prints, so that it never waits for a reader; keeps the end. */
function collectOutput(child: ChildProcess): () => string {
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      text = (text + chunk.toString()).slice(-outputBytesKept);
    });
  }
  return () => text;
}

async function isReady(url: string): Promise<boolean> {
  try {
    const response = await fetch(url);
    await response.arrayBuffer();
    return response.ok;
  } catch {
    // Not listening yet.
    return false;
  }
}

function createChild(child: ChildProcess, url: string, startMs: number): ChildServer {
  if (child.pid === undefined) throw new Error('a process without an id');
  return { url, pid: child.pid, startMs, stop: () => stop(child) };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const hasEnded = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs);
  await hasEnded;
  clearTimeout(timer);
}

/** Free now; the servers take them a moment later. */
export async function findFreePorts(count: number): Promise<readonly number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  const ports: number[] = [];
  for (const server of servers) {
    if (!server.listening) await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no free port');
    ports.push(address.port);
  }
  for (const server of servers) {
    server.close();
    await once(server, 'close');
  }
  return ports;
}
