import { mkdtempSync, rmSync } from 'node:fs';
import { expect } from 'vitest';
import { RawClient, type WireReply } from '../http/raw-client.js';
import { requestBytes } from '../http/running-http-server.js';
import { ServerProcess } from '../support/server-process.js';
import { ProtectedRepository } from './protected-repository.js';

/** What opens trace and log settings. */
export const secret = 'sesame';

/** The compiled server with every door there is, some of them locked. */
export class ProtectedServer {
  readonly repository: ProtectedRepository;
  readonly shmDirectory = mkdtempSync('/dev/shm/nereid-protection-');
  readonly port: number;
  readonly #server: ServerProcess;

  private constructor(server: ServerProcess, repository: ProtectedRepository) {
    this.#server = server;
    this.repository = repository;
    this.port = Number(new URL(server.httpUrl).port);
  }

  static async start(transport: string): Promise<ProtectedServer> {
    const repository = new ProtectedRepository();
    const server = await ServerProcess.start([
      `--model-repository=${repository.path}`,
      `--http-transport=${transport}`,
      '--model-control-mode=explicit',
      '--load-model=*',
      '--allow-client-shm=true',
      '--http-header-forward-pattern=^(a+)+$',
      `--http-restricted-api=trace,logging:admin-key=${secret}`,
      '--log-verbose=1',
    ]);
    return new ProtectedServer(server, repository);
  }

  get log(): string {
    return this.#server.log;
  }

  async stop(): Promise<void> {
    rmSync(this.shmDirectory, { recursive: true });
    expect(await this.#server.stop()).toBe(0);
    this.repository.remove();
  }

  /** One request on a connection of its own. */
  async ask(
    method: string,
    path: string,
    body: string | Uint8Array = '',
    headers: Readonly<Record<string, string>> = {},
  ): Promise<WireReply> {
    const client = await RawClient.open(this.port);
    await client.write(requestBytes(method, path, body, headers));
    const reply = await client.reply(method);
    client.close();
    if (reply === undefined) throw new Error(`${method} ${path}: closed without an answer`);
    return reply;
  }

  infer(model: string, body: string | Uint8Array): Promise<WireReply> {
    return this.ask('POST', `/v2/models/${model}/infer`, body);
  }

  async expectServed(): Promise<void> {
    expect((await this.infer('add_sub', addSubBody())).status).toBe(200);
  }
}

export function errorOf(reply: WireReply): string {
  return JSON.parse(reply.body.toString()).error;
}

type Json = { readonly [name: string]: unknown };

const vector = Array.from({ length: 16 }, (_item, index) => index);

export function addSubBody(
  change: (inputs: [Json, Json]) => readonly unknown[] = (both) => both,
): string {
  const make = (name: string): Json => ({ name, datatype: 'FP32', shape: [1, 16], data: vector });
  return JSON.stringify({ inputs: change([make('INPUT0'), make('INPUT1')]) });
}

export function floatsBody(values: readonly number[], more: Json = {}): string {
  const input = { name: 'X', datatype: 'FP32', shape: [values.length], data: values };
  return JSON.stringify({ inputs: [input], ...more });
}

export function textBody(data: unknown, more: Json = {}): string {
  return JSON.stringify({ inputs: [{ name: 'A', datatype: 'BYTES', shape: [1], data }], ...more });
}
