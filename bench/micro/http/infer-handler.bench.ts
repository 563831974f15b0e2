import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { internal } from '../../../src/errors.js';
import { createHttpServer } from '../../../src/http/http-server.js';
import type { TransportChoice } from '../../../src/http/open-transport.js';
import { type InferenceRequest, noParameters } from '../../../src/inference/infer-request.js';
import type {
  InferenceHandle,
  InferenceResponse,
  ResponseHandler,
} from '../../../src/inference/infer-response.js';
import type { Tensor } from '../../../src/inference/tensor.js';
import type { ModelConfig } from '../../../src/model-config/model-config.js';
import type { InferenceServer, ServedModel } from '../../../src/server/inference-server.js';
import { defaultTraceSettings, TraceSettingsStore } from '../../../src/server/settings.js';
import { SharedMemoryRegistry } from '../../../src/server/shared-memory.js';
import type { LoadClient } from '../../load/load-report.js';
import { wrkClient } from '../../load/wrk-load.js';
import { encodeBinaryRequest } from '../../v2-binary.js';

/*
 * What HTTP and the codecs cost without anything behind them: add_sub in binary (2 x FP32 [1,16]),
 * answered at once or, as batches are, sixteen at a time in a later turn of the event loop; next to
 * a bare uWebSockets.js server that sends the bytes back.
 *
 *   node dist/bench/micro/http/infer-handler.bench.js
 *
 * On 2 shared cores (Node 20, medians of 5 rounds): echo 112,000 requests/s, uws at once 0.80 of it,
 * uws batched 0.78, node at once 0.30. User time a request: echo 3.0 us, uws 5.1 us; 4.5 us of
 * kernel time come on top of either.
 */

type Variant = 'echo' | 'uws at once' | 'uws batched' | 'node at once';
const variants: readonly Variant[] = ['echo', 'uws at once', 'uws batched', 'node at once'];

export interface HandlerCost {
  readonly variant: Variant;
  /** Median over the rounds. */
  readonly requestsPerSec: number;
  /** Of the echo's, median over the rounds. */
  readonly ratio: number;
}

/** Rounds in which each variant has its turn, so that a change of the machine meets them all. */
export async function measureInferHandler(
  client: LoadClient,
  rounds: number,
  seconds: number,
): Promise<readonly HandlerCost[]> {
  const values = Float32Array.from({ length: 16 }, (_item, index) => index);
  const request = encodeBinaryRequest([
    { name: 'INPUT0', shape: [1, 16], data: values },
    { name: 'INPUT1', shape: [1, 16], data: values },
  ]);
  const measured = new Map<Variant, { rates: number[]; ratios: number[] }>();
  for (let round = 0; round < rounds; round += 1) {
    let echoRate = 0;
    for (const variant of variants) {
      const { child, port } = await start(variant);
      const url = `http://127.0.0.1:${port}/v2/models/add_sub/infer`;
      await client.run({ url, ...request }, 64, 1);
      const report = await client.run({ url, ...request }, 64, seconds);
      child.kill();
      if (report.errors > 0) throw new Error(`${variant}: ${report.errors} errors`);
      if (variant === 'echo') echoRate = report.requestsPerSec;
      const entry = measured.get(variant) ?? { rates: [], ratios: [] };
      entry.rates.push(report.requestsPerSec);
      entry.ratios.push(report.requestsPerSec / echoRate);
      measured.set(variant, entry);
    }
  }
  return [...measured].map(([variant, { rates, ratios }]) => ({
    variant,
    requestsPerSec: median(rates),
    ratio: median(ratios),
  }));
}

function median(values: number[]): number {
  const sorted = values.sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

async function start(variant: Variant): Promise<{ child: ChildProcess; port: number }> {
  const file =
    variant === 'echo'
      ? fileURLToPath(new URL('../../echo-server.js', import.meta.url))
      : fileURLToPath(import.meta.url);
  const child = fork(file, [variant], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  const [chunk] = child.stdout === null ? [] : await once(child.stdout, 'data');
  const port = /^port (\d+)/.exec(String(chunk))?.[1];
  if (port === undefined) throw new Error(`${variant} said: ${String(chunk)}`);
  return { child, port: Number(port) };
}

/** A server whose one model needs no time. */
class InstantServer implements InferenceServer {
  readonly #model: ServedModel;
  readonly #isBatched: boolean;
  #waiting: (() => void)[] = [];

  constructor(isBatched: boolean) {
    this.#isBatched = isBatched;
    const config: Partial<ModelConfig> = { name: 'add_sub', max_batch_size: 64, input: [] };
    // The handler reads nothing else of a configuration.
    this.#model = {
      name: 'add_sub',
      version: '1',
      config: config as ModelConfig,
      isDecoupled: false,
      labels: new Map(),
    };
  }

  servedModel(): ServedModel {
    return this.#model;
  }

  whenServed(): undefined {
    return undefined;
  }

  infer(request: InferenceRequest, handler: ResponseHandler): InferenceHandle {
    const answer = (): void => {
      handler.respond(responseTo(request));
      handler.complete();
    };
    if (!this.#isBatched) {
      answer();
      return idleHandle;
    }
    if (this.#waiting.length === 0) setImmediate(() => this.#answerAll());
    this.#waiting.push(answer);
    return idleHandle;
  }

  #answerAll(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const answer of waiting) answer();
  }

  isLive = (): never => unused();
  isReady = (): never => unused();
  isModelReady = (): never => unused();
  serverMetadata = (): never => unused();
  modelMetadata = (): never => unused();
  modelConfig = (): never => unused();
  statistics = (): never => unused();
  repositoryIndex = (): never => unused();
  loadModel = (): never => unused();
  unloadModel = (): never => unused();
}

function unused(): never {
  throw internal('the benchmark only infers');
}

const idleHandle: InferenceHandle = {
  cancel: () => undefined,
  pause: () => undefined,
  resume: () => undefined,
};

function responseTo({ modelName, id, inputs }: InferenceRequest): InferenceResponse {
  const outputs = inputs.map((input, index): Tensor => ({ ...input, name: `OUTPUT${index}` }));
  return { modelName, modelVersion: '1', id, parameters: noParameters, outputs };
}

async function serve(transport: TransportChoice, isBatched: boolean): Promise<void> {
  const ignore = (): void => undefined;
  const options = {
    transport,
    address: '127.0.0.1',
    port: 0,
    isPortReused: false,
    tls: undefined,
    bodyBytesMax: 67_108_864,
    headerForwardPattern: undefined,
    restrictions: new Map(),
    hasExtraRoutes: false,
    isMetricsAllowed: false,
  };
  const http = createHttpServer(options, new InstantServer(isBatched), {
    logger: {
      error: ignore,
      warning: ignore,
      info: ignore,
      verbose: ignore,
      isVerbose: () => false,
    },
    regions: new SharedMemoryRegistry({ isEnabled: false, directory: '' }),
    settings: {
      log: {
        verboseLevel: 0,
        isInfoLogged: true,
        isWarningLogged: true,
        isErrorLogged: true,
        format: 'default',
      },
      logFile: '',
      trace: new TraceSettingsStore(defaultTraceSettings),
    },
    metrics: { contentType: '', render: () => Promise.resolve('') },
  });
  const { port } = await http.listen();
  process.stdout.write(`port ${port}\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , variant] = process.argv;
  if (variant !== undefined) {
    const [transport = '', ...how] = variant.split(' ');
    await serve(transport === 'node' ? 'node' : 'uws', how[0] === 'batched');
  } else {
    for (const { variant: name, requestsPerSec, ratio } of await measureInferHandler(
      wrkClient,
      5,
      3,
    )) {
      process.stdout.write(
        `${name.padEnd(14)}${Math.round(requestsPerSec)} requests/s, ${ratio.toFixed(2)} of the echo\n`,
      );
    }
  }
}
