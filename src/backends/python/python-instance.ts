import { InferenceServerError } from '../../errors.js';
import type { ErrorMessage } from '../../execution/messages.js';
import type {
  ExecutionRequest,
  ExecutionResult,
  RequestsModelInstance,
  TimedResult,
} from '../backend.js';
import { ByteReader } from './byte-reader.js';
import { ByteWriter } from './byte-writer.js';
import { frameHeaderBytes, frameKind } from './frames.js';
import { OpenStreams } from './open-streams.js';
import type { PythonProcess } from './python-process.js';
import { writeRequests } from './request-list.js';
import { type ListedResult, ResultReader, readDurationsNs } from './result-list.js';
import type { ServerCalls } from './server-calls.js';

/** How long a model may take in `finalize`. */
const finalizeMs = 30_000;

/** A model in its Python process, initialized. */
export class PythonInstance implements RequestsModelInstance {
  readonly batchForm = 'requests';
  /** The process has read all of them by the time it answers. */
  readonly freesInputs = true;
  readonly isReady: (() => Promise<boolean>) | undefined;
  readonly #process: PythonProcess;
  readonly #calls: ServerCalls;
  readonly #isDecoupled: boolean;
  readonly #results = new ResultReader();
  readonly #streams: OpenStreams;
  /** Of the execution under way, for questions about cancellation. */
  #requests: readonly ExecutionRequest[] = [];
  #executionId = 0;

  constructor(
    process: PythonProcess,
    calls: ServerCalls,
    isDecoupled: boolean,
    hasReadiness: boolean,
  ) {
    this.#process = process;
    this.#calls = calls;
    this.#isDecoupled = isDecoupled;
    this.isReady = hasReadiness ? () => this.#askReadiness() : undefined;
    this.#streams = new OpenStreams((executionId, requestIndex, count) => {
      this.#answer(frameKind.streamCredit, executionId, (writer) => {
        writer.u32(requestIndex);
        writer.u32(count);
      });
    });
  }

  async execute(requests: readonly ExecutionRequest[]): Promise<readonly ExecutionResult[]> {
    const id = this.#process.newId();
    if (!this.#isDecoupled) {
      return this.#results.read(await this.#run(id, requests, 'batch'), 0).map(toExecutionResult);
    }
    this.#streams.open(id, requests);
    try {
      const payload = await this.#run(id, requests, 'batch');
      const results = this.#results.read(payload, 0).map(toExecutionResult);
      for (const [index, { type }] of results.entries()) {
        if (type === 'rescheduled') this.#streams.release(id, index);
      }
      return results;
    } catch (error) {
      if (!(error instanceof InferenceServerError)) throw error;
      // Each request ends through its stream, where some may have had responses already.
      const { code, message } = error;
      this.#streams.failExecution(id, requests.length, { code, message });
      return requests.map(() => ({ type: 'streamed' }));
    }
  }

  async executeEach(requests: readonly ExecutionRequest[]): Promise<readonly TimedResult[]> {
    const payload = await this.#run(this.#process.newId(), requests, 'each');
    const durationsNs = readDurationsNs(payload);
    return this.#results.read(payload, 0).map((result, index) => ({
      result: result.type === 'unstarted' ? result : toExecutionResult(result),
      durationNs: durationsNs[index] ?? 0,
    }));
  }

  receive(kind: number, id: number, payload: Buffer): void {
    if (kind === frameKind.streamResponse) this.#receiveStreamed(id, payload);
    else if (kind === frameKind.cancelQuery) this.#answerCancelQuery(id, payload);
  }

  /** The process has ended on its own. */
  failStreams(error: ErrorMessage): void {
    this.#streams.failAll(error);
  }

  async unload(): Promise<void> {
    await this.#process.finalize(finalizeMs);
    this.#calls.cancelAll();
  }

  /** Resolves with the results' payload. */
  async #run(
    id: number,
    requests: readonly ExecutionRequest[],
    form: 'batch' | 'each',
  ): Promise<Buffer> {
    this.#requests = requests;
    this.#executionId = id;
    const [lone] = requests;
    this.#calls.running = {
      id,
      // Read only when the model calls another one: making a signal costs more than the rest.
      get signal() {
        return requests.length === 1 ? lone?.signal : undefined;
      },
    };
    try {
      return await this.#process.askWritten(frameKind.execute, id, (writer) =>
        writeRequests(writer, requests, form),
      );
    } finally {
      this.#calls.running = undefined;
      this.#requests = [];
      this.#executionId = 0;
    }
  }

  async #askReadiness(): Promise<boolean> {
    const answer = await this.#process.ask(frameKind.isReady, []);
    return JSON.parse(answer.toString('utf8')) === true;
  }

  #receiveStreamed(executionId: number, payload: Buffer): void {
    const reader = new ByteReader(payload);
    const requestIndex = reader.u32();
    const isFinal = reader.u32() !== 0;
    const [result] = this.#results.read(payload, reader.position);
    if (result?.type === 'response') {
      this.#streams.respond(executionId, requestIndex, result.response);
    } else if (result?.type === 'error') {
      this.#streams.fail(executionId, requestIndex, result.error);
    }
    if (isFinal) this.#streams.end(executionId, requestIndex);
  }

  #answerCancelQuery(questionId: number, payload: Buffer): void {
    const reader = new ByteReader(payload);
    const executionId = reader.u32();
    const requestIndex = reader.u32();
    const signal =
      executionId === this.#executionId
        ? this.#requests[requestIndex]?.signal
        : this.#streams.signal(executionId, requestIndex);
    this.#answer(frameKind.cancelState, questionId, (writer) => writer.u8(signal?.aborted ? 1 : 0));
  }

  #answer(kind: number, id: number, write: (writer: ByteWriter) => void): void {
    const writer = new ByteWriter();
    writer.skip(frameHeaderBytes);
    write(writer);
    this.#process.send(kind, id, writer);
  }
}

function toExecutionResult(result: ListedResult): ExecutionResult {
  if (result.type !== 'none' && result.type !== 'unstarted') return result;
  return { type: 'error', error: { code: 'INTERNAL', message: 'the model gave no response' } };
}
