import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { thrownText } from './error-transfer.js';
import type {
  InstanceCommand,
  InstanceNotice,
  InstanceReply,
  InstanceTask,
  ServingReply,
  StartTask,
} from './messages.js';
import {
  enterNativeCall,
  forgetNativeCalls,
  type NativeCallFlag,
  NativeCalls,
} from './native-calls.js';
import { type PortReply, ReplyDecoder, TaskEncoder } from './repeated-messages.js';
import { ReceivedResponses } from './response-window.js';

export interface InstanceThreadOptions {
  readonly workerFile: string;
  /** 0 is Node's own default. */
  readonly heapMiBMax: number;
  /**
   * False where the thread runs native code that can't be torn down: onnxruntime-node throws a C++
   * exception that nobody catches when its thread is ended during a call, and the whole process
   * aborts. Such a thread is ended when its call has returned.
   */
  readonly isInterruptible: boolean;
  /** The thread has started a process, and has to see its end. */
  readonly hasProcess: boolean;
}

/**
 * A thread that runs native code makes few objects, and would keep what its start took: with this a
 * small ONNX model takes 10.9 MB instead of 11.8.
 */
const nativeYoungMiBMax = 3;

/** How long a thread may take to end its process. One that is stuck is ended all the same. */
const processEndMsMax = 2000;

export interface InstanceThreadEvents {
  onNotice(notice: InstanceNotice): void;
  /** Called at most once, and not after `destroy`; `reason` is written for a client. */
  onDeath(reason: string): void;
}

interface RunningTask {
  resolve(reply: InstanceReply): void;
  reject(error: Error): void;
}

/**
 * The thread of one model instance, from its creation to its end; it is never started again.
 *
 * Piscina owns the thread and runs the tasks of its start. The last of them, `serve`, runs until
 * the thread ends and tells why it did. Meanwhile tasks go over a port of the instance's own, which
 * spares what Piscina does for each: with executions as Piscina's tasks a perceptron answered
 * 23.0 k requests/s instead of 27.5 k (64 callers, 2 cores), add_sub 73.3 k instead of 76.4 k, and
 * add_sub for one caller 5.2 k instead of 5.9 k.
 */
export class InstanceThread {
  readonly #piscina: Piscina;
  readonly #events: InstanceThreadEvents;
  readonly #port: MessagePort;
  readonly #hasProcess: boolean;
  #isPortClosed = false;
  /** Present where the thread is not interruptible. */
  readonly #nativeCall: NativeCallFlag | undefined;
  readonly #tasks = new TaskEncoder();
  #portForThread: MessagePort | undefined;
  #isAlive = true;
  #isServing = false;
  #lastError: unknown;
  /** Tasks under way, in the order in which they are answered. */
  readonly #running: RunningTask[] = [];
  /** Called when nothing runs any more. */
  #onReturned: () => void = () => {};
  #ending: Promise<void> | undefined;

  constructor(options: InstanceThreadOptions, events: InstanceThreadEvents) {
    this.#events = events;
    this.#hasProcess = options.hasProcess;
    this.#nativeCall = options.isInterruptible ? undefined : NativeCalls.shared().newFlag();
    this.#piscina = new Piscina({
      filename: options.workerFile,
      // No minimum: Piscina would put a new thread without a model in the place of a dead one.
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      // A thread that blocks in Atomics.wait between tasks hears no port.
      atomics: 'disabled',
      recordTiming: false,
      workerData: this.#nativeCall,
      resourceLimits: {
        ...(options.heapMiBMax > 0 && { maxOldGenerationSizeMb: options.heapMiBMax }),
        // Threads of JavaScript models are interruptible: how many objects those make is theirs.
        ...(!options.isInterruptible && { maxYoungGenerationSizeMb: nativeYoungMiBMax }),
      },
    });
    this.#piscina.on('error', (error) => {
      this.#lastError = error;
    });
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.#portForThread = port2;
    const received = new ReceivedResponses();
    const replies = new ReplyDecoder();
    port1.on('message', (given: PortReply) => {
      const message = replies.decode(given);
      if (isReply(message)) {
        this.#takeReply(message);
        return;
      }
      if (!this.#isAlive) return;
      const bytes = received.add(message);
      if (bytes > 0) this.post({ type: 'received', bytes }, []);
      events.onNotice(message);
    });
    port1.on('close', () => {
      this.#isPortClosed = true;
      // A task of Piscina's is rejected a little later, with a reason that tells more.
      if (this.#isServing || this.#running.length > 0) return;
      this.#die(this.#lastError ?? new Error('thread ended'));
    });
    port1.unref();
  }

  /** Hands the thread its port; at most once. */
  takePort(): MessagePort {
    const port = this.#portForThread;
    if (port === undefined) throw new Error('the port is taken twice; this is a bug');
    this.#portForThread = undefined;
    return port;
  }

  /**
   * Runs one task after those before it. Rejects when the thread dies before it answers, with an
   * error whose message is the reason (`onDeath` was called by then), or when `destroy` is called.
   */
  run(
    task: InstanceTask,
    transfer: readonly (ArrayBuffer | MessagePort)[],
  ): Promise<InstanceReply> {
    if (!this.#isAlive) return Promise.reject(new Error('its thread was ended'));
    return new Promise((resolve, reject) => {
      enterNativeCall(this.#nativeCall);
      if (isStartTask(task)) this.#start(task, transfer);
      else this.#port.postMessage(this.#tasks.encode(task), transfer);
      this.#running.push({ resolve, reject });
    });
  }

  post(command: InstanceCommand, transfer: readonly ArrayBuffer[]): void {
    if (this.#isAlive) this.#port.postMessage(command, [...transfer]);
  }

  /**
   * Gives up what runs, and ends the thread as soon as it can be ended. Idempotent; resolves when
   * it has ended.
   */
  destroy(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  #start(task: StartTask, transfer: readonly (ArrayBuffer | MessagePort)[]): void {
    this.#piscina.run(task, { transferList: [...transfer] }).then(
      // The worker file's default export answers with this type.
      (reply: InstanceReply) => {
        if (reply.type === 'initialized') this.#serve();
        this.#takeReply(reply);
      },
      (error: unknown) => this.#lose(error),
    );
  }

  #serve(): void {
    this.#isServing = true;
    this.#piscina.run({ type: 'serve' } satisfies StartTask).then(
      () => {
        this.#isServing = false;
      },
      (error: unknown) => this.#lose(error),
    );
  }

  #takeReply(reply: InstanceReply): void {
    this.#running.shift()?.resolve(reply);
    if (this.#running.length === 0) this.#onReturned();
  }

  /** The thread is gone, and what it ran with it. */
  #lose(error: unknown): void {
    this.#isServing = false;
    forgetNativeCalls(this.#nativeCall);
    this.#die(error);
    const reason = new Error(deathReason(error), { cause: error });
    for (const task of this.#running.splice(0)) task.reject(reason);
    this.#onReturned();
  }

  async #end(): Promise<void> {
    this.#isAlive = false;
    if (this.#running.length > 0) {
      const returned = new Promise<void>((resolve) => {
        this.#onReturned = resolve;
      });
      for (const task of this.#running) task.reject(new Error('its thread was ended'));
      if (this.#nativeCall !== undefined) await returned;
    }
    if (this.#hasProcess) await this.#endProcess();
    this.#port.close();
    this.#portForThread?.close();
    await this.#piscina.destroy();
    if (this.#nativeCall !== undefined) NativeCalls.shared().forget(this.#nativeCall);
  }

  /** Resolves when the thread has closed its port, or can't have a process, or takes too long. */
  async #endProcess(): Promise<void> {
    if (this.#isPortClosed || this.#portForThread !== undefined) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, processEndMsMax);
      this.#port.once('close', () => {
        clearTimeout(timer);
        resolve();
      });
      this.#port.postMessage({ type: 'give-up' } satisfies InstanceCommand);
    });
  }

  #die(error: unknown): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    this.#events.onDeath(deathReason(error));
  }
}

function isStartTask(task: InstanceTask): task is StartTask {
  return task.type === 'initialize' || task.type === 'auto-complete' || task.type === 'serve';
}

function isReply(message: InstanceNotice | ServingReply): message is ServingReply {
  switch (message.type) {
    case 'executed-merged':
    case 'executed-requests':
    case 'ready':
    case 'finalized':
    case 'failed':
      return true;
    case 'response':
    case 'infer':
    case 'infer-cancel':
    case 'control':
    case 'log':
    case 'metric':
    case 'broken':
      return false;
  }
}

function deathReason(error: unknown): string {
  const text = thrownText(error);
  const exitCode = /^worker exited with code: (\d+)$/.exec(text)?.[1];
  if (exitCode !== undefined) return `its thread ended with exit code ${exitCode}`;
  if (error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY') {
    return 'its thread ran out of memory';
  }
  return text === 'thread ended' ? 'its thread ended' : `its thread ended: ${text}`;
}
