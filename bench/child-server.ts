import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

const startTimeoutMs = 30_000;
const pollMs = 20;

/** A server in a process of its own, on 127.0.0.1. */
export interface ChildServer {
  readonly url: string;
  /** Ends it with SIGTERM and waits. */
  stop(): Promise<void>;
}

/** The compiled server on free ports, once it is ready. */
export async function startNereid(
  repositories: readonly string[],
  extraOptions: readonly string[],
): Promise<ChildServer & { readonly startMs: number }> {
  const [httpPort, metricsPort] = [await findFreePort(), await findFreePort()];
  const startedMs = performance.now();
  const child = spawn(
    process.execPath,
    [
      fileURLToPath(new URL('../src/main.js', import.meta.url)),
      ...repositories.map((directory) => `--model-repository=${directory}`),
      '--http-address=127.0.0.1',
      `--http-port=${httpPort}`,
      `--metrics-port=${metricsPort}`,
      '--allow-grpc=false',
      '--log-info=false',
      ...extraOptions,
    ],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  const url = `http://127.0.0.1:${httpPort}`;
  await waitUntilReady(child, url);
  return { url, startMs: performance.now() - startedMs, stop: () => stop(child) };
}

/** The echo server: it says its port itself. */
export async function startEcho(): Promise<ChildServer> {
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL('./echo-server.js', import.meta.url))],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const [chunk] = await once(child.stdout, 'data');
  const port = /^port (\d+)/.exec(String(chunk))?.[1];
  if (port === undefined) throw new Error(`the echo server said: ${String(chunk)}`);
  return { url: `http://127.0.0.1:${port}`, stop: () => stop(child) };
}

async function waitUntilReady(child: ChildProcess, url: string): Promise<void> {
  const deadline = performance.now() + startTimeoutMs;
  while (performance.now() < deadline) {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`);
    try {
      const response = await fetch(`${url}/v2/health/ready`);
      await response.arrayBuffer();
      if (response.ok) return;
    } catch {
      // Not listening yet.
    }
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  child.kill('SIGKILL');
  throw new Error(`the server was not ready after ${startTimeoutMs} ms`);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const hasEnded = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), startTimeoutMs);
  await hasEnded;
  clearTimeout(timer);
}

/** Free now; the server takes it a moment later. */
async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}
