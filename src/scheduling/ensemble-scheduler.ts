import type { Clock } from '../clock.js';
import { unavailable } from '../errors.js';
import type { EnsemblePlan } from './ensemble-plan.js';
import {
  type EnsembleEnvironment,
  EnsembleRun,
  type InferStep,
  wantedOutputs,
} from './ensemble-run.js';
import { InFlightRequests } from './in-flight-requests.js';
import type { PendingRequest } from './pending-request.js';
import { requestIdPrefix } from './request-queue.js';
import type { Scheduler } from './scheduler.js';
import { StepLimiter } from './step-limiter.js';

/**
 * Runs requests through an ensemble's steps. Nothing waits here: each step's request waits in the
 * queue of the model that it runs on.
 */
export class EnsembleScheduler implements Scheduler {
  readonly #environment: EnsembleEnvironment;
  readonly #inFlight = new InFlightRequests();
  #isOpen = true;

  /** `onExecuted` is told of each request that succeeded, with its stamps set. */
  constructor(
    plan: EnsemblePlan,
    modelVersion: string,
    infer: InferStep,
    clock: Clock,
    onExecuted: (pending: PendingRequest) => void,
  ) {
    const limiters = plan.steps.map(() => new StepLimiter(plan.inflightRequestsMax));
    const allOutputs = wantedOutputs(plan, []);
    this.#environment = { plan, modelVersion, infer, clock, allOutputs, limiters, onExecuted };
  }

  get queuedRequests(): number {
    return 0;
  }

  get inFlightRequests(): number {
    return this.#inFlight.count;
  }

  enqueue(pending: PendingRequest): void {
    const { plan, clock } = this.#environment;
    if (!this.#isOpen) {
      throw unavailable(
        `${requestIdPrefix(pending)}model '${plan.name}' is stopping and takes no new requests`,
      );
    }
    this.#inFlight.accept(pending);
    pending.timing.queueStartNs = clock.nowNs();
    new EnsembleRun(this.#environment, pending).start();
  }

  drain(): Promise<void> {
    this.#isOpen = false;
    return this.#inFlight.whenEmpty();
  }

  /** Nothing is queued here; steps under way belong to their models. */
  destroy(): void {
    this.#isOpen = false;
  }
}
