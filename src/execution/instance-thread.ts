import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { thrownText } from './error-transfer.js';
import type { InstanceCommand, InstanceNotice, InstanceReply, InstanceTask } from './messages.js';
import {
  enterNativeCall,
  leaveNativeCall,
  type NativeCallFlag,
  NativeCalls,
} from './native-calls.js';
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
}

export interface InstanceThreadEvents {
  onNotice(notice: InstanceNotice): void;
  /** Called at most once, and not after `destroy`; `reason` is written for a client. */
  onDeath(reason: string): void;
}

/**
 * The thread of one model instance, from its creation to its end; it is never started again.
 *
 * Two channels lead to it: Piscina's for tasks, and a port for what goes around them. The port is
 * also the only sign of a thread that dies between two tasks.
 */
export class InstanceThread {
  readonly #piscina: Piscina;
  readonly #events: InstanceThreadEvents;
  readonly #port: MessagePort;
  /** Present where the thread is not interruptible. */
  readonly #nativeCall: NativeCallFlag | undefined;
  #portForThread: MessagePort | undefined;
  #isAlive = true;
  #lastError: unknown;
  /** The task under way: how to give it up, and when the thread is through with it. */
  #running: { reject(error: Error): void; readonly returned: Promise<unknown> } | undefined;
  #ending: Promise<void> | undefined;

  constructor(options: InstanceThreadOptions, events: InstanceThreadEvents) {
    this.#events = events;
    this.#nativeCall = options.isInterruptible ? undefined : NativeCalls.shared().newFlag();
    this.#piscina = new Piscina({
      filename: options.workerFile,
      // No minimum: Piscina would put a new thread without a model in the place of a dead one.
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      // A thread that blocks in Atomics.wait between tasks hears no port: no cancellation, no
      // answers for streams. Round trips took 144 µs with 'async', 154 with 'disabled' and 177
      // with 'sync' (add_sub, batch of 16, 2 cores).
      atomics: 'async',
      recordTiming: false,
      workerData: this.#nativeCall,
      ...(options.heapMiBMax > 0 && {
        resourceLimits: { maxOldGenerationSizeMb: options.heapMiBMax },
      }),
    });
    this.#piscina.on('error', (error) => {
      this.#lastError = error;
    });
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.#portForThread = port2;
    const received = new ReceivedResponses();
    port1.on('message', (notice: InstanceNotice) => {
      if (!this.#isAlive) return;
      const bytes = received.add(notice);
      if (bytes > 0) this.post({ type: 'received', bytes }, []);
      events.onNotice(notice);
    });
    port1.on('close', () => {
      // A running task is rejected a little later, with a reason that tells more.
      if (this.#running === undefined) this.#die(this.#lastError ?? new Error('thread ended'));
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
   * Runs one task; call only when the former one has been answered. Rejects when the thread dies
   * before it answers, with an error whose message is the reason (`onDeath` was called by then), or
   * when `destroy` is called.
   */
  run(
    task: InstanceTask,
    transfer: readonly (ArrayBuffer | MessagePort)[],
  ): Promise<InstanceReply> {
    return new Promise((resolve, reject) => {
      enterNativeCall(this.#nativeCall);
      const returned = this.#piscina.run(task, { transferList: [...transfer] }).then(
        (reply) => {
          this.#running = undefined;
          // The worker file's default export answers with this type.
          resolve(reply as InstanceReply);
        },
        (error: unknown) => {
          this.#running = undefined;
          leaveNativeCall(this.#nativeCall);
          this.#die(error);
          reject(new Error(deathReason(error), { cause: error }));
        },
      );
      this.#running = { reject, returned };
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

  async #end(): Promise<void> {
    this.#isAlive = false;
    const running = this.#running;
    if (running !== undefined) {
      running.reject(new Error('its thread was ended'));
      if (this.#nativeCall !== undefined) await running.returned;
    }
    this.#port.close();
    this.#portForThread?.close();
    await this.#piscina.destroy();
    if (this.#nativeCall !== undefined) NativeCalls.shared().forget(this.#nativeCall);
  }

  #die(error: unknown): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    this.#events.onDeath(deathReason(error));
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
