import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { InferenceServerError, internal, unavailable } from '../../errors.js';
import { ByteWriter } from './byte-writer.js';
import {
  FrameSplitter,
  frameHeaderBytes,
  frameKind,
  sharedPayloadFlag,
  writeFrameHeader,
} from './frames.js';
import type { Interpreter } from './interpreter.js';
import { OutputLines } from './output-lines.js';
import { readError } from './result-list.js';
import { SharedFile } from './shared-file.js';

/** Exit code of host.py for an interpreter that cannot host models. */
const unusableExitCode = 3;
/** After the exit: how long its last words may still be on their way. */
const lastWordsMs = 100;

export interface PythonProcessOptions {
  readonly interpreter: Interpreter;
  /** Names the process in errors and logs. */
  readonly instanceName: string;
  /** How an error says which interpreter to use instead. */
  readonly interpreterHint: string;
  /** Added to the environment, unless the server's own has them. */
  readonly defaultVariables: Readonly<Record<string, string>>;
  readonly hostFile: string;
  /** How long the interpreter may take to come up. */
  readonly startTimeoutMs: number;
  readonly onOutputLine: (line: string) => void;
}

interface Question {
  readonly resolve: (payload: Buffer) => void;
  readonly reject: (error: InferenceServerError) => void;
}

export type FrameHandler = (kind: number, id: number, payload: Buffer) => void;

/**
 * The process of one model instance. It ends with this thread, whatever it does: the kernel kills
 * it when the thread that started it ends (PR_SET_PDEATHSIG), and where there is no such thing it
 * ends itself when its channel closes.
 */
export class PythonProcess {
  readonly #options: PythonProcessOptions;
  readonly #child: ChildProcess;
  readonly #channel: Socket;
  /** For large payloads; undefined where the system has no place for it. */
  #shared: SharedFile | undefined;
  readonly #errorLines: OutputLines;
  readonly #questions = new Map<number, Question>();
  readonly #requestWriter = new ByteWriter();
  readonly #exited: Promise<void>;
  #lastId = 0;
  #hasHello = false;
  #death: InferenceServerError | undefined;
  /** Frames that answer no question. */
  onFrame: FrameHandler = () => {};
  /** Called once, when the process ends without {@link finalize} or {@link kill}. */
  onDeath: (error: InferenceServerError) => void = () => {};
  #isEnding = false;
  #isServing = false;

  private constructor(options: PythonProcessOptions) {
    this.#options = options;
    const { command, variables } = options.interpreter;
    const shared = SharedFile.open();
    this.#shared = shared;
    const argv = [options.hostFile, String(process.pid), shared === undefined ? '' : 'shared'];
    this.#child = spawn(command, argv, {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', shared?.fd ?? 'ignore'],
      env: {
        ...options.defaultVariables,
        ...process.env,
        ...variables,
        // What a model prints reaches the log when it is printed.
        PYTHONUNBUFFERED: '1',
      },
      // A process group of its own, so that what a model started ends with it.
      detached: true,
    });
    const channel = this.#child.stdio[3];
    if (!(channel instanceof Socket)) throw internal('the channel is no socket; this is a bug');
    this.#channel = channel;
    const splitter = new FrameSplitter(
      (kind, id, payload) => this.#receive(kind, id, payload),
      (target) => this.#shared?.read(target),
    );
    channel.on('data', (chunk: Buffer) => splitter.push(chunk));
    // A broken channel shows as the exit of the process.
    channel.on('error', () => {});
    const outputLines = new OutputLines(options.onOutputLine, Date.now);
    this.#errorLines = new OutputLines(options.onOutputLine, Date.now);
    this.#child.stdout?.on('data', (chunk: Buffer) => outputLines.push(chunk));
    this.#child.stderr?.on('data', (chunk: Buffer) => this.#errorLines.push(chunk));
    this.#exited = new Promise((resolve) => {
      this.#child.on('error', (error) => {
        if (this.#child.pid !== undefined) return;
        this.#die(this.#spawnFailure(error));
        resolve();
      });
      this.#child.on('exit', (code, signal) => {
        this.#killGroup();
        const closed = new Promise((onClosed) => this.#child.once('close', onClosed));
        void within(closed, lastWordsMs).then(() => {
          outputLines.end();
          this.#errorLines.end();
          this.#die(this.#exitFailure(code, signal));
          resolve();
        });
      });
    });
  }

  /** Rejects with a load error when the interpreter does not come up in time. */
  static async start(options: PythonProcessOptions): Promise<PythonProcess> {
    const started = new PythonProcess(options);
    await started.#awaitHello();
    return started;
  }

  /** Sends a question and resolves with the payload of its answer. */
  ask(kind: number, payload: readonly Buffer[]): Promise<Buffer> {
    return this.#askPieces(kind, this.newId(), [Buffer.alloc(frameHeaderBytes), ...payload]);
  }

  /** {@link ask} with JSON both ways. */
  async askJson(kind: number, question: unknown): Promise<unknown> {
    const answer = await this.ask(kind, [Buffer.from(JSON.stringify(question))]);
    return JSON.parse(answer.toString('utf8'));
  }

  /**
   * {@link ask} for the hot path: `write` puts the payload into memory that is used again, after
   * the header that it must leave alone, and returns all pieces to send. The memory is free when
   * the answer is there: Python answers after it has read the whole frame.
   */
  askWritten(
    kind: number,
    id: number,
    write: (writer: ByteWriter) => readonly Buffer[],
  ): Promise<Buffer> {
    const writer = this.#requestWriter;
    writer.reset();
    writer.skip(frameHeaderBytes);
    return this.#askPieces(kind, id, write(writer));
  }

  newId(): number {
    this.#lastId = (this.#lastId + 1) >>> 0;
    return this.#lastId;
  }

  /** From now on an error reaches clients: what the process printed stays out of it. */
  beginServing(): void {
    this.#isServing = true;
  }

  /** Sends a frame whose payload was written behind {@link frameHeaderBytes} of `writer`. */
  send(kind: number, id: number, writer: ByteWriter): void {
    if (this.#death === undefined) this.#sendPieces(kind, id, [writer.bytes()]);
  }

  /** Ends the process after it has finalized its model, or after `limitMs` without that. */
  async finalize(limitMs: number): Promise<void> {
    this.#isEnding = true;
    if (this.#death === undefined) {
      const finalized = this.ask(frameKind.finalize, []).then(
        () => this.#exited,
        // A model that fails in finalize is unloaded all the same; it was asked and has answered.
        (error: InferenceServerError) => this.#options.onOutputLine(`finalize: ${error.message}`),
      );
      await within(finalized, limitMs);
    }
    await this.kill();
  }

  /** Ends the process and what it started, at once. */
  async kill(): Promise<void> {
    this.#isEnding = true;
    const { pid, exitCode, signalCode } = this.#child;
    if (pid === undefined) return;
    // The number of a process that has ended may be another one's by now.
    if (exitCode === null && signalCode === null) {
      this.#killGroup();
      this.#child.kill('SIGKILL');
    }
    await this.#exited;
    this.#channel.destroy();
  }

  #askPieces(kind: number, id: number, pieces: readonly Buffer[]): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      if (this.#death !== undefined) {
        reject(this.#death);
        return;
      }
      this.#questions.set(id, { resolve, reject });
      this.#sendPieces(kind, id, pieces);
    });
  }

  /** The first piece starts with room for the header. */
  #sendPieces(kind: number, id: number, pieces: readonly Buffer[]): void {
    let byteLength = -frameHeaderBytes;
    for (const piece of pieces) byteLength += piece.length;
    const [first] = pieces;
    if (first === undefined) return;
    if (kind === frameKind.execute && this.#isWrittenShared(pieces, byteLength)) {
      writeFrameHeader(first, kind + sharedPayloadFlag, id, byteLength);
      this.#channel.write(first.subarray(0, frameHeaderBytes));
      return;
    }
    writeFrameHeader(first, kind, id, byteLength);
    if (pieces.length === 1) {
      this.#channel.write(first);
      return;
    }
    this.#channel.cork();
    for (const piece of pieces) this.#channel.write(piece);
    this.#channel.uncork();
  }

  #isWrittenShared([first, ...rest]: readonly Buffer[], byteLength: number): boolean {
    if (this.#shared === undefined || first === undefined) return false;
    return this.#shared.write([first.subarray(frameHeaderBytes), ...rest], byteLength);
  }

  #receive(kind: number, id: number, payload: Buffer): void {
    switch (kind) {
      case frameKind.executed:
      case frameKind.done:
        this.#settle(id)?.resolve(payload);
        return;
      case frameKind.failed: {
        const { code, message } = readError(payload);
        this.#settle(id)?.reject(new InferenceServerError(code, message));
        return;
      }
      case frameKind.hello:
        this.#hasHello = true;
        this.#settle(0)?.resolve(payload);
        return;
      default:
        this.onFrame(kind, id, payload);
    }
  }

  #settle(id: number): Question | undefined {
    const question = this.#questions.get(id);
    this.#questions.delete(id);
    return question;
  }

  async #awaitHello(): Promise<void> {
    const hello = new Promise<Buffer>((resolve, reject) => {
      if (this.#death !== undefined) reject(this.#death);
      else this.#questions.set(0, { resolve, reject });
    });
    await within(hello, this.#options.startTimeoutMs);
    if (this.#hasHello) return;
    await this.kill();
    throw internal(
      `${this.#interpreterName()} did not come up within ${this.#options.startTimeoutMs / 1000} s`,
    );
  }

  #die(error: InferenceServerError): void {
    if (this.#death !== undefined) return;
    this.#death = error;
    this.#shared?.close();
    this.#shared = undefined;
    const questions = [...this.#questions.values()];
    this.#questions.clear();
    if (!this.#isEnding && this.#hasHello) this.onDeath(error);
    for (const { reject } of questions) reject(error);
  }

  #killGroup(): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // The group is empty.
    }
  }

  #interpreterName(): string {
    return `Python interpreter '${this.#options.interpreter.command}'`;
  }

  #spawnFailure(error: Error): InferenceServerError {
    const code = 'code' in error ? ` (${String(error.code)})` : '';
    return internal(
      `cannot start ${this.#interpreterName()}${code}: install Python 3.8 or later with numpy, ` +
        `or name another interpreter with ${this.#options.interpreterHint}`,
      error,
    );
  }

  #exitFailure(code: number | null, signal: string | null): InferenceServerError {
    const { tail } = this.#errorLines;
    if (!this.#hasHello && code === unusableExitCode) {
      return internal(`${tail}, or name another interpreter with ${this.#options.interpreterHint}`);
    }
    const how = signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`;
    const words = tail === '' || this.#isServing ? '' : `; its last output: ${tail}`;
    if (!this.#hasHello) return internal(`${this.#interpreterName()} ${how}${words}`);
    const { instanceName } = this.#options;
    return unavailable(
      `Stub process '${instanceName}' is not healthy: its Python process ${how}${words}`,
    );
  }
}

/** Waits for `promise`, but not longer than `limitMs`; rejects where it does. */
async function within(promise: Promise<unknown>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs);
  });
  try {
    await Promise.race([promise, limit]);
  } finally {
    clearTimeout(timer);
  }
}
