import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseTarget, V2Server } from '../bench-client/v2-server.js';
import { unavailable } from '../errors.js';

export interface ServerSettings {
  readonly model: string;
  readonly repositories: readonly string[];
  readonly backendConfig: readonly string[];
  /** The variables of this process; those that are options of the server are left out. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

const startTimeoutMs = 120_000;
const stopTimeoutMs = 10_000;
const pollMs = 20;
/** What a server that does not start has said, from the end. */
const logCharactersMax = 4_000;

/**
 * This program as a server of one model, on a port of 127.0.0.1, in a process of its own: the one
 * that measures must not share a thread with it. Other configurations are loaded into it over the
 * repository as it is; no file is changed.
 */
export class ServerProcess {
  readonly server: V2Server;
  readonly #child: ChildProcess;
  #log = '';

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.server = new V2Server(
      parseTarget(`127.0.0.1:${port}`, [], { authorities: undefined, verifiesPeer: true }),
    );
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#log = (this.#log + text).slice(-logCharactersMax);
      });
    }
  }

  /** UNAVAILABLE with what the server said, where it does not become ready. */
  static async start(settings: ServerSettings): Promise<ServerProcess> {
    const port = await findFreePort();
    const child = spawn(
      process.execPath,
      [
        fileURLToPath(new URL('../main.js', import.meta.url)),
        ...settings.repositories.map((folder) => `--model-repository=${folder}`),
        ...settings.backendConfig.map((text) => `--backend-config=${text}`),
        '--model-control-mode=explicit',
        `--load-model=${settings.model}`,
        '--http-address=127.0.0.1',
        `--http-port=${port}`,
        '--allow-grpc=false',
        '--allow-metrics=false',
        '--log-info=false',
      ],
      { stdio: ['ignore', 'pipe', 'pipe'], env: withoutOptions(settings.environment) },
    );
    const started = new ServerProcess(child, port);
    try {
      await started.#untilReady();
    } catch (error) {
      await started.stop();
      throw error;
    }
    return started;
  }

  /** Ends the process and waits for its end. */
  async stop(): Promise<void> {
    this.server.close();
    if (this.#hasEnded) return;
    const hasEnded = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), stopTimeoutMs);
    await hasEnded;
    clearTimeout(timer);
  }

  get #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  async #untilReady(): Promise<void> {
    for (let waitedMs = 0; waitedMs < startTimeoutMs; waitedMs += pollMs) {
      if (this.#hasEnded) throw unavailable(`the server did not start:\n${this.#log.trim()}`);
      // Not listening yet is how every start begins.
      if (await this.server.isReady().catch(() => false)) return;
      await delay(pollMs);
    }
    throw unavailable(`the server was not ready in time:\n${this.#log.trim()}`);
  }
}

/** What a user has set for a server of theirs must not reach this one. */
function withoutOptions(environment: ServerSettings['environment']): NodeJS.ProcessEnv {
  const names = Object.keys(environment).filter((name) => !/^(NEREID_|PORT$)/.test(name));
  return Object.fromEntries(names.map((name) => [name, environment[name]]));
}

/** Free now; the server takes it a moment later. */
async function findFreePort(): Promise<number> {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  listener.close();
  await once(listener, 'close');
  if (address === null || typeof address === 'string') throw unavailable('no free port');
  return address.port;
}
