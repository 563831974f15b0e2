import type { ModelCall } from '../inference/model-call.js';
import type { Instance } from './instance.js';
import type { BatchForm } from './messages.js';
import type {
  ExecuteOutcome,
  ExecuteReply,
  ExecuteTask,
  ModelInstances,
  StreamCommand,
  StreamListener,
} from './model-instances.js';

/** What an instance's place in its pool answers and hears. */
export interface InstanceSeat {
  readonly batchForm: BatchForm;
  readonly takesBundles: boolean;
  /** Not while it runs, is being replaced, or answers whether the model is ready. */
  isIdle(): boolean;
  /** No longer idle, as far as the pool knows. */
  take(): void;
  onIdle(listener: () => void): void;
  /** Why an instance that has been given up takes no execution. */
  refusal(): ExecuteReply;
}

/**
 * One instance of a pool as if it were alone. Where it has been given up, executions are accepted
 * and fail at once, so that no request waits for nothing.
 */
export class SingleInstance implements ModelInstances {
  readonly #instance: Instance;
  readonly #seat: InstanceSeat;

  constructor(instance: Instance, seat: InstanceSeat) {
    this.#instance = instance;
    this.#seat = seat;
  }

  get batchForm(): BatchForm {
    return this.#seat.batchForm;
  }

  get takesBundles(): boolean {
    return this.#seat.takesBundles;
  }

  get idleInstances(): number {
    return this.#seat.isIdle() || this.#instance.state === 'failed' ? 1 : 0;
  }

  readonly canRunAhead = false;

  execute(
    task: ExecuteTask,
    listener: StreamListener | undefined,
    answering: readonly ModelCall[],
  ): Promise<ExecuteOutcome> {
    if (!this.#seat.isIdle()) return Promise.resolve(this.#seat.refusal());
    this.#seat.take();
    return this.#instance.execute(task, listener, answering);
  }

  command(command: StreamCommand): void {
    this.#instance.command(command);
  }

  onIdle(listener: () => void): void {
    this.#seat.onIdle(listener);
  }
}
