import { InstanceThread } from './instance-thread.js';
import type { InstanceCommand, InstanceNotice, InstanceReply, InstanceTask } from './messages.js';
import { type InstanceWork, ModelCalls } from './model-calls.js';
import type { HostServices, InstancePoolOptions, ResponseNotice } from './model-instances.js';

/** Backends whose threads run native code that must return before the thread may end. */
export const nativeBackends: ReadonlySet<string> = new Set(['onnxruntime']);

/** Backends whose threads start a process, which must end before them. */
const processBackends: ReadonlySet<string> = new Set([
  'python',
  'pytorch',
  'tensorflow',
  'tensorrt',
]);

export interface ThreadSlotEvents {
  onResponse(notice: ResponseNotice): void;
  /** The thread can't go on, by its own word. */
  onBroken(error: Extract<InstanceNotice, { readonly type: 'broken' }>['error']): void;
  /** The thread has died; `reason` is written for a client. */
  onDeath(reason: string): void;
}

/**
 * The thread that an instance has at the moment, and the end of those it had before. What the model
 * asks of the server goes to the services from here.
 */
export class ThreadSlot {
  readonly #options: InstancePoolOptions;
  readonly #services: HostServices;
  readonly #work: InstanceWork;
  readonly #events: ThreadSlotEvents;
  #thread: InstanceThread | undefined;
  #calls: ModelCalls | undefined;
  #ended: Promise<void> = Promise.resolve();

  constructor(
    options: InstancePoolOptions,
    services: HostServices,
    work: InstanceWork,
    events: ThreadSlotEvents,
  ) {
    this.#options = options;
    this.#services = services;
    this.#work = work;
    this.#events = events;
  }

  /** The thread, a new one where there is none. */
  open(): InstanceThread {
    this.#thread ??= this.#newThread();
    return this.#thread;
  }

  /** Rejects when there is no thread, or it dies or is ended before it answers. */
  run(task: InstanceTask, transfer: readonly ArrayBuffer[]): Promise<InstanceReply> {
    if (this.#thread === undefined) return Promise.reject(new Error('it has no thread'));
    return this.#thread.run(task, transfer);
  }

  post(command: InstanceCommand): void {
    this.#thread?.post(command, []);
  }

  /** Nobody waits for the calls to other models any more. */
  cancelCalls(): void {
    this.#calls?.cancelAll();
  }

  /** Gives up what runs and ends the thread. Resolves when it, and every one before, has ended. */
  async end(): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    const former = this.#ended;
    this.#ended = Promise.all([former, thread?.destroy()]).then(() => undefined);
    await this.#ended;
  }

  #newThread(): InstanceThread {
    const { workerFile, heapMiBMax, backend } = this.#options;
    const isInterruptible = !nativeBackends.has(backend);
    const thread = new InstanceThread(
      { workerFile, heapMiBMax, isInterruptible, hasProcess: processBackends.has(backend) },
      {
        onNotice: (notice) => this.#onNotice(notice),
        onDeath: (reason) => this.#events.onDeath(reason),
      },
    );
    this.#calls = new ModelCalls(
      this.#services,
      (command, transfer) => thread.post(command, transfer),
      this.#work,
    );
    return thread;
  }

  #onNotice(notice: InstanceNotice): void {
    switch (notice.type) {
      case 'response':
        this.#events.onResponse(notice);
        return;
      case 'infer':
        this.#calls?.infer(notice);
        return;
      case 'infer-cancel':
        this.#calls?.cancel(notice.callId);
        return;
      case 'control':
        void this.#calls?.control(notice);
        return;
      case 'log':
        this.#services.log(notice.level, notice.message);
        return;
      case 'metric':
        this.#services.updateMetric(notice.update);
        return;
      case 'broken':
        this.#events.onBroken(notice.error);
        return;
    }
  }
}
