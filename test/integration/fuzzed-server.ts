import * as fc from 'fast-check';
import { expect } from 'vitest';
import { RawClient } from '../http/raw-client.js';
import { requestBytes } from '../http/running-http-server.js';
import { ServerProcess } from '../support/server-process.js';
import { ProtectedRepository } from './protected-repository.js';

/** FUZZ_SEED repeats a run; FULL=1 makes it a long one, of a new seed each time. */
const isFull = process.env['FULL'] === '1';
const seed = Number(process.env['FUZZ_SEED'] ?? (isFull ? Date.now() % 2 ** 31 : 20_240_817));
const runs = isFull ? 10_000 : 200;
/** Every so many cases a good request must be answered. */
const servedEvery = 20;
/**
 * What a run may leave behind: caches and the room that the heap takes itself. After 90,000 requests
 * on Node's HTTP that was 86 MB, and 40 MB with 30,000 of one kind, no more than with 5000.
 */
export const keptBytesMax = isFull ? 130_000_000 : 80_000_000;

const values = Array.from({ length: 16 }, (_item, index) => index);

/** A request that uses every member the protocol has. */
export const goodRequest = {
  id: 'f',
  parameters: { priority: 1, timeout: 1_000_000, any: 'x', flag: true, number: 1.5 },
  inputs: ['INPUT0', 'INPUT1'].map((name) => ({
    name,
    datatype: 'FP32',
    shape: [1, 16],
    parameters: {},
    data: values,
  })),
  outputs: [{ name: 'OUTPUT0', parameters: { binary_data: false, classification: 0 } }],
};
export const goodBody = JSON.stringify(goodRequest);

export interface FuzzRequest {
  readonly bytes: Uint8Array;
  readonly method: string;
}

/** The compiled server under fire: explicit model control and shared memory are on. */
export class FuzzedServer {
  readonly #server: ServerProcess;
  readonly #repository: ProtectedRepository;
  readonly port: number;

  private constructor(server: ServerProcess, repository: ProtectedRepository) {
    this.#server = server;
    this.#repository = repository;
    this.port = Number(new URL(server.httpUrl).port);
  }

  static async start(transport: string): Promise<FuzzedServer> {
    const repository = new ProtectedRepository();
    const server = await ServerProcess.start([
      `--model-repository=${repository.path}`,
      `--http-transport=${transport}`,
      '--http-max-input-size=200000',
      '--model-control-mode=explicit',
      '--load-model=*',
      '--allow-client-shm=true',
      '--log-info=false',
    ]);
    console.info(`fuzzing ${transport} with FUZZ_SEED=${seed}, ${runs} runs`);
    return new FuzzedServer(server, repository);
  }

  async stop(): Promise<void> {
    expect(await this.#server.stop()).toBe(0);
    this.#repository.remove();
  }

  residentBytes(): number {
    return this.#server.residentBytes();
  }

  /** Status of the answer; undefined where the server closed the connection instead. */
  async send(bytes: Uint8Array, method: string): Promise<number | undefined> {
    const client = await RawClient.open(this.port);
    await client.write(bytes);
    const reply = await client.reply(method);
    client.close();
    return reply?.status;
  }

  async expectServed(): Promise<void> {
    const body = requestBytes('POST', '/v2/models/add_sub/infer', goodBody);
    expect(await this.send(body, 'POST')).toBe(200);
  }

  /** Runs a property; in between and afterwards the server must be its old self. */
  async holds<T>(arbitrary: fc.Arbitrary<T>, property: (value: T) => Promise<void>): Promise<void> {
    let count = 0;
    await fc.assert(
      fc.asyncProperty(arbitrary, async (value) => {
        await property(value);
        count += 1;
        if (count % servedEvery === 0) await this.expectServed();
      }),
      { seed, numRuns: runs },
    );
    await this.expectServed();
  }

  /** No request made of the arbitrary is answered with a fault of the server's. */
  async neverFails<T>(
    arbitrary: fc.Arbitrary<T>,
    toRequest: (value: T) => FuzzRequest,
    alsoAllowed: readonly number[] = [],
  ): Promise<void> {
    await this.holds(arbitrary, async (value) => {
      const { bytes, method } = toRequest(value);
      expectNoFault(await this.send(bytes, method), alsoAllowed);
    });
  }
}

/** 501 is "not supported", 503 "not now"; other statuses from 500 on are faults of the server's. */
export function expectNoFault(
  status: number | undefined,
  alsoAllowed: readonly number[] = [],
): void {
  if (status !== undefined && status >= 500) expect([501, 503, ...alsoAllowed]).toContain(status);
}

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export const oddJson: fc.Arbitrary<Json> = fc.oneof(
  fc.jsonValue() as fc.Arbitrary<Json>,
  fc.constantFrom<Json>(
    -1,
    2 ** 31,
    2 ** 53,
    1e300,
    1.5,
    '',
    '\u0000',
    '__proto__',
    '../x',
    [],
    {},
  ),
  fc.array(fc.integer(), { maxLength: 40 }),
);

export function post(path: string, body: string | Uint8Array, headers = {}): FuzzRequest {
  return { bytes: requestBytes('POST', path, body, headers), method: 'POST' };
}
