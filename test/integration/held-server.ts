import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { InferenceRequest } from '../../src/inference/infer-request.js';
import { GrpcClient } from '../grpc/grpc-client.js';
import { parseRequest } from '../scheduling/timeline.js';
import { ServerProcess } from '../support/server-process.js';
import { WrittenRepository } from '../support/written-repository.js';
import {
  inferGrpc,
  inferHttp,
  type Outcome,
  observedSource,
  post,
  sentValue,
  type WireProtocol,
} from './observed-model.js';

/*
 * The compiled server with a model `m` (observed-model.ts) whose scheduler can be held: a rate limiter gives all of a
 * resource that `m` needs to a second model for as long as that one executes. What arrives meanwhile
 * is queued; letting go shows what the scheduler makes of it.
 */

const holder = {
  config: `
    output { name: "Y" data_type: TYPE_INT32 dims: 1 }
    input { name: "X" data_type: TYPE_INT32 dims: 1 }
    instance_group { count: 1 kind: KIND_CPU
      rate_limiter { resources { name: "gate" global: true count: 8 } } }`,
  source: `
import { existsSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
export default class Holder {
  initialize({ modelRepository }) { this.folder = modelRepository; }
  async execute(requests) {
    writeFileSync(this.folder + '/holding', '');
    while (!existsSync(this.folder + '/release')) await sleep(2);
    return requests.map(() => ({ outputs: [{ name: 'Y', shape: [1], data: [1] }] }));
  }
}`,
};

/** A part of `m`'s configuration: what its instances need to be held. */
export const gated = (count = 1): string =>
  `instance_group { name: "i" count: ${count} kind: KIND_CPU
     rate_limiter { resources { name: "gate" global: true count: 1 } } }\n`;

interface Sent {
  readonly id: string;
  readonly fields: Partial<InferenceRequest>;
  readonly answer: Promise<Outcome>;
  outcome: Outcome | undefined;
  readonly hangUp: AbortController;
}

export interface Counts {
  readonly success: number;
  readonly inferences: number;
  readonly executions: number;
  readonly batches: ReadonlyMap<number, number>;
}

export class HeldServer {
  readonly #repository: WrittenRepository;
  readonly #server: ServerProcess;
  readonly #grpc: GrpcClient;
  #holding: Promise<Response> | undefined;
  #sent: Sent[] = [];
  #protocol: WireProtocol = 'HTTP';

  private constructor(repository: WrittenRepository, server: ServerProcess) {
    this.#repository = repository;
    this.#server = server;
    this.#grpc = new GrpcClient(server.grpcTarget);
  }

  static async start(): Promise<HeldServer> {
    const repository = await WrittenRepository.create({ holder });
    const server = await ServerProcess.start([
      `--model-repository=${repository.directory}`,
      '--model-control-mode=explicit',
      '--load-model=holder',
      '--rate-limit=execution_count',
      '--rate-limit-resource=gate:8',
    ]);
    return new HeldServer(repository, server);
  }

  get httpUrl(): string {
    return this.#server.httpUrl;
  }

  get grpcTarget(): string {
    return this.#server.grpcTarget;
  }

  async stop(): Promise<void> {
    this.#grpc.close();
    await this.#server.stop();
    await this.#repository.remove();
  }

  /** Loads `m` anew; what waits in the old one is executed. */
  async load(config: string, name = 'm'): Promise<void> {
    await this.#repository.write(name, { config, source: observedSource });
    const response = await post(`${this.#server.httpUrl}/v2/repository/models/${name}/load`, {});
    expect([response.status, await response.text()]).toEqual([200, '']);
  }

  /**
   * Plays steps that are separated by `; `: `hold`, `send a b*2 …`, `release`, `load` (which lets
   * what waits run), `until a` (it has its answer) and `cancel a` (its client goes away). Gives what
   * happened as `a b | c # d full`: the executions in order and, after `#`, the requests that failed
   * with the reason.
   */
  async play(protocol: WireProtocol, script: string, config = ''): Promise<string> {
    this.#protocol = protocol;
    this.#sent = [];
    for (const step of script.split('; ')) {
      const [verb, ...tokens] = step.split(' ');
      if (verb === 'hold') await this.#hold();
      else if (verb === 'release') await this.#release();
      else if (verb === 'load') await this.load(config);
      else if (verb === 'until') await this.#untilAnswered(tokens);
      else if (verb === 'cancel') await this.#cancel(tokens);
      else if (verb === 'send') {
        for (const token of tokens) {
          this.#send(token);
          await this.#untilQuiet();
        }
      } else throw new Error(`unknown step '${step}'`);
    }
    await Promise.all(this.#sent.map(({ answer }) => answer));
    this.#checkNumbers();
    return describeOutcomes(this.#sent);
  }

  /** Queues requests one after another, lets them go after `beforeRelease`, gives their answers. */
  async together<Answer>(
    requests: readonly (() => Promise<Answer>)[],
    beforeRelease: () => Promise<void> = async () => {},
  ): Promise<Answer[]> {
    await this.#hold();
    const answers: Promise<Answer>[] = [];
    for (const request of requests) {
      answers.push(request());
      await expect
        .poll(() => this.#pendingRequests(), { interval: 2, timeout: 10_000 })
        .toBe(answers.length);
    }
    await beforeRelease();
    await rm(this.#file('holding'));
    await writeFile(this.#file('release'), '');
    await this.#holding;
    return Promise.all(answers);
  }

  async counts(name = 'm'): Promise<Counts> {
    const url = `${this.#server.httpUrl}/v2/models/${name}/stats`;
    const response = await fetch(url, { headers: { connection: 'close' } });
    // The server's own statistics.
    const { model_stats } = (await response.json()) as {
      readonly model_stats: readonly {
        readonly inference_count: number;
        readonly execution_count: number;
        readonly inference_stats: { readonly success: { readonly count: number } };
        readonly batch_stats: readonly {
          readonly batch_size: number;
          readonly compute_infer: { readonly count: number };
        }[];
      }[];
    };
    const [stats] = model_stats;
    if (stats === undefined) throw new Error(`no statistics of ${name}`);
    const { inference_count, execution_count, inference_stats, batch_stats } = stats;
    return {
      success: inference_stats.success.count,
      inferences: inference_count,
      executions: execution_count,
      batches: new Map(batch_stats.map((one) => [one.batch_size, one.compute_infer.count])),
    };
  }

  async #hold(): Promise<void> {
    await rm(this.#file('release'), { force: true });
    this.#holding = post(`${this.#server.httpUrl}/v2/models/holder/infer`, {
      inputs: [{ name: 'X', datatype: 'INT32', shape: [1], data: [0] }],
    });
    await expect.poll(() => existsSync(this.#file('holding')), { interval: 2 }).toBe(true);
  }

  async #release(): Promise<void> {
    await rm(this.#file('holding'));
    await writeFile(this.#file('release'), '');
    expect((await this.#holding)?.status).toBe(200);
    await this.#untilQuiet();
  }

  async #untilAnswered(ids: readonly string[]): Promise<void> {
    await Promise.all(this.#sent.filter(({ id }) => ids.includes(id)).map(({ answer }) => answer));
  }

  async #cancel(ids: readonly string[]): Promise<void> {
    for (const { id, hangUp } of this.#sent) if (ids.includes(id)) hangUp.abort();
    await this.#untilQuiet();
  }

  #file(name: string): string {
    return join(this.#repository.directory, 'holder', name);
  }

  /** Every request is in the queue or has its answer: executions take no time here. */
  async #untilQuiet(): Promise<void> {
    await expect
      .poll(
        async () => {
          const pending = await this.#pendingRequests();
          return this.#sent.filter(({ outcome }) => outcome === undefined).length - pending;
        },
        { interval: 2, timeout: 10_000 },
      )
      .toBe(0);
  }

  async #pendingRequests(): Promise<number> {
    const url = `${this.#server.metricsUrl}/metrics`;
    const text = await (await fetch(url, { headers: { connection: 'close' } })).text();
    const samples = text.matchAll(
      /^nv_inference_pending_request_count\{model="[mn]",.*\} (\d+)$/gm,
    );
    return [...samples].reduce((sum, [, count]) => sum + Number(count), 0);
  }

  #send(token: string): void {
    const { fields } = parseRequest(token);
    const id = fields.id ?? '';
    const hangUp = new AbortController();
    const answer =
      this.#protocol === 'HTTP'
        ? inferHttp(this.#server.httpUrl, fields, hangUp.signal)
        : inferGrpc(this.#grpc, fields, hangUp.signal);
    const sent: Sent = { id, fields, answer, outcome: undefined, hangUp };
    this.#sent.push(sent);
    void answer.then((outcome) => {
      sent.outcome = outcome;
    });
  }

  /** Each got its own row, and what its own sequence had sent, whatever else was between. */
  #checkNumbers(): void {
    const sums = new Map<bigint | string, number>();
    for (const { id, fields, outcome } of this.#sent) {
      const { sequence } = fields;
      if (outcome === undefined || 'error' in outcome) continue;
      expect([id, outcome.echo]).toEqual([id, sentValue(id)]);
      if (sequence === undefined) continue;
      const before = sequence.start ? 0 : (sums.get(sequence.correlationId) ?? 0);
      sums.set(sequence.correlationId, before + sentValue(id));
      expect([id, outcome.sum]).toEqual([id, before + sentValue(id)]);
    }
  }
}

function describeOutcomes(sent: readonly Sent[]): string {
  const executions = new Set<string>();
  const failures: string[] = [];
  for (const { id, outcome } of sent) {
    if (outcome === undefined) continue;
    if ('error' in outcome) failures.push(`${id} ${failureWord(outcome.error)}`);
    else executions.add(outcome.text);
  }
  const inOrder = [...executions].sort((a, b) => orderOf(a) - orderOf(b));
  const isShared = new Set(inOrder.map((text) => text.split('|')[0])).size > 1;
  const texts = inOrder.map((text) => {
    const [instance, , rows] = text.split('|');
    return isShared ? `${instance}:(${rows})` : rows;
  });
  return `${texts.join(' | ')}${failures.length > 0 ? ` # ${failures.join(', ')}` : ''}`;
}

/** By instance, then by the executions that each has counted. */
function orderOf(text: string): number {
  const [instance = 0, execution = 0] = text.split('|').map(Number);
  return instance * 1e6 + execution;
}

const failureWords: readonly (readonly [pattern: RegExp, word: string])[] = [
  [/^the client has/, 'gone'],
  [/^(400|1) sequence was cancelled with its request/, 'cancelled'],
  [/^(503|14) Request timeout expired$/, 'timeout'],
  [/^(503|14) \[request id: \w+\] Exceeds maximum queue size$/, 'full'],
  [/^(503|14) timeout of the corresponding sequence has been expired$/, 'expired'],
  [/^(400|3) .*must specify the START flag on the first request/, 'no-start'],
  [/^(400|3) .*must specify a non-zero or non-empty correlation ID$/, 'no-id'],
  [/^(400|3) .*must specify batch-size 1 due to/, 'batch-size'],
];

/** A word for the failures that are expected somewhere, status and text together; else the text. */
function failureWord(error: string): string {
  return failureWords.find(([pattern]) => pattern.test(error))?.[1] ?? error;
}
