import type { Clock } from '../clock.js';
import { cancelled, InferenceServerError, invalidArg } from '../errors.js';
import type { InferenceRequest, SequenceFlags } from '../inference/infer-request.js';
import type {
  InferenceHandle,
  InferenceResponse,
  ResponseHandler,
} from '../inference/infer-response.js';
import { matchesDims } from '../inference/shape.js';
import type { Tensor } from '../inference/tensor.js';
import { type EnsemblePlan, neededSteps, type PlannedStep } from './ensemble-plan.js';
import type { PendingRequest } from './pending-request.js';
import { requestIdPrefix } from './request-queue.js';
import { sequenceOf, sequenceParameters } from './sequence-parameters.js';
import type { StepLimiter } from './step-limiter.js';

/** Runs one request on a member; the server's own `infer`. */
export type InferStep = (request: InferenceRequest, handler: ResponseHandler) => InferenceHandle;

/** What all runs of an ensemble share. */
export interface EnsembleEnvironment {
  readonly plan: EnsemblePlan;
  /** Of the ensemble. */
  readonly modelVersion: string;
  readonly infer: InferStep;
  readonly clock: Clock;
  /** For a request that asks for all outputs, which is nearly every one. */
  readonly allOutputs: WantedOutputs;
  /** One a step. */
  readonly limiters: readonly StepLimiter[];
  /** Told of each run that succeeded, before its request completes. */
  readonly onExecuted: (pending: PendingRequest) => void;
}

/** What a request's choice of outputs makes of a plan. */
export interface WantedOutputs {
  readonly outputs: EnsemblePlan['outputs'];
  /** By step: whether it must run. */
  readonly needed: readonly boolean[];
  /** By tensor: how often it is read in one pass. */
  readonly reads: readonly number[];
}

/** `requestedOutputs` empty is all. */
export function wantedOutputs(
  plan: EnsemblePlan,
  requestedOutputs: readonly string[],
): WantedOutputs {
  const outputs =
    requestedOutputs.length === 0
      ? plan.outputs
      : plan.outputs.filter((output) => requestedOutputs.includes(output.name));
  const needed = neededSteps(plan, requestedOutputs);
  const reads = plan.tensorNames.map((_, tensor) => {
    const isAnswered = outputs.some((output) => output.tensor === tensor);
    let count = isAnswered ? 1 : 0;
    for (const { index, inputs } of plan.steps) {
      // A step may read one tensor by several of its inputs.
      if (needed[index] === true) count += inputs.filter((one) => one.tensor === tensor).length;
    }
    return count;
  });
  return { outputs, needed, reads };
}

/** A tensor of the ensemble in one pass; without `tensor` where its writer left it out. */
interface TensorValue {
  readonly tensor: Tensor | undefined;
  /** 0 where its writer does not batch. */
  readonly batchSize: number;
  /** Flags that the writer's response carried; they replace the request's for what reads it. */
  readonly sequence: SequenceFlags | undefined;
  /** Reads to come; the value is dropped at 0. */
  reads: number;
}

/** A step's request under way. */
interface StepCall {
  handle: InferenceHandle | undefined;
  isEnded: boolean;
}

/*
 *   event                      | what happens
 *   ---------------------------+-----------------------------------------------------------------
 *   start                      | inputs are written in pass 0; steps whose inputs are there start
 *   a step responds            | its outputs are written: in the pass that it read, or in a new one
 *                              | for each response of a decoupled step; then as above. Where all
 *                              | requested outputs of the next pass are there, they are answered
 *   a step ends                | nothing under way any more: complete (or fail where a model that
 *                              | is not decoupled never answered)
 *   a step fails               | the request fails with that error; other steps are cancelled
 *   cancel                     | the request fails with CANCELLED; steps are cancelled
 *   pause, or a step waits for | steps are paused, so that decoupled ones produce no more
 *   its limiter                |
 *
 *   After the end every event of a step is ignored.
 */

/** One request on its way through an ensemble. Tensors are handed on, never copied. */
export class EnsembleRun {
  readonly #environment: EnsembleEnvironment;
  readonly #pending: PendingRequest;
  readonly #wanted: WantedOutputs;
  /** Indexed by tensor, then by pass. */
  readonly #values: (TensorValue | undefined)[][];
  readonly #calls = new Set<StepCall>();
  readonly #waits = new Set<() => void>();
  /** Passes that each decoupled step has begun. */
  readonly #passes: number[];
  #nextAnswer = 0;
  /** Steps that end while their siblings are still being started do not end the run. */
  #isStarting = true;
  #hasEnded = false;

  constructor(environment: EnsembleEnvironment, pending: PendingRequest) {
    const { plan } = environment;
    const { requestedOutputs } = pending.request;
    this.#environment = environment;
    this.#pending = pending;
    this.#wanted =
      requestedOutputs.length === 0
        ? environment.allOutputs
        : wantedOutputs(plan, requestedOutputs);
    this.#values = plan.tensorNames.map(() => []);
    this.#passes = plan.steps.map(() => 0);
  }

  start(): void {
    const { plan, clock } = this.#environment;
    const pending = this.#pending;
    pending.state = 'executing';
    pending.onCancel = () => this.#fail(cancelled('request was cancelled'), 'CANCELED');
    if (pending.isCancelled) {
      pending.onCancel();
      return;
    }
    pending.onFlow = () => this.#applyFlow();
    pending.timing.computeStartNs = clock.nowNs();
    pending.timing.computeInputEndNs = pending.timing.computeStartNs;
    const written: number[] = [];
    for (const [name, tensor] of plan.inputs) {
      const input = pending.modelInputs.find((candidate) => candidate.name === name);
      this.#write(tensor, 0, input, plan.isBatching ? pending.rows : 0, undefined);
      written.push(tensor);
    }
    this.#advance(written, 0);
    this.#isStarting = false;
    this.#completeIfIdle();
  }

  /** Starts what the tensors just written make possible, and answers. */
  #advance(written: readonly number[], pass: number): void {
    const { plan } = this.#environment;
    const started: number[] = [];
    for (const tensor of written) {
      for (const index of plan.readers[tensor] ?? []) {
        const step = plan.steps[index];
        if (step === undefined || this.#wanted.needed[index] !== true) continue;
        if (started.includes(index)) continue;
        if (!step.inputs.every((input) => this.#values[input.tensor]?.[pass] !== undefined)) {
          continue;
        }
        started.push(index);
        this.#startStep(step, pass);
        if (this.#hasEnded) return;
      }
    }
    this.#answer();
  }

  #startStep(step: PlannedStep, pass: number): void {
    const request = this.#stepRequest(step, pass);
    const limiter = this.#environment.limiters[step.index];
    if (limiter === undefined || limiter.tryTake()) {
      this.#call(step, pass, request, limiter);
      return;
    }
    const giveUp = limiter.wait(() => {
      this.#waits.delete(giveUp);
      this.#call(step, pass, request, limiter);
      this.#applyFlow();
    });
    this.#waits.add(giveUp);
    this.#applyFlow();
  }

  #call(
    step: PlannedStep,
    pass: number,
    request: InferenceRequest,
    limiter: StepLimiter | undefined,
  ): void {
    const call: StepCall = { handle: undefined, isEnded: false };
    this.#calls.add(call);
    const end = (): void => {
      call.isEnded = true;
      this.#calls.delete(call);
      limiter?.release();
    };
    const handle = this.#environment.infer(request, {
      respond: (response) => this.#receive(step, pass, response),
      complete: () => {
        end();
        this.#completeIfIdle();
      },
      fail: (error) => {
        end();
        this.#fail(error, 'OTHER');
      },
    });
    // The handler may have been called before `infer` returned, and may have ended the run.
    if (call.isEnded) return;
    call.handle = handle;
    if (this.#hasEnded) handle.cancel();
    else if (this.#isHeld) handle.pause();
  }

  #stepRequest(step: PlannedStep, pass: number): InferenceRequest {
    const { request } = this.#pending;
    const inputs: Tensor[] = [];
    let { sequence } = request;
    for (const { name, tensor: index, dims } of step.inputs) {
      const value = this.#read(index, pass);
      if (value === undefined) continue;
      sequence = value.sequence ?? sequence;
      const { tensor, batchSize } = value;
      // Left out by the client or by its writer: the member must do without.
      if (tensor === undefined) continue;
      inputs.push({
        name,
        datatype: tensor.datatype,
        shape: shapeFor(dims, step.isBatching, batchSize, tensor.shape),
        encoding: tensor.encoding,
        bytes: tensor.bytes,
      });
    }
    return {
      modelName: step.modelName,
      modelVersion: step.modelVersion,
      id: request.id,
      parameters: request.parameters,
      priority: request.priority,
      timeoutUs: request.timeoutUs,
      sequence,
      inputs,
      requestedOutputs: step.outputNames,
      prefersJsonText: request.prefersJsonText && step.feedsOnlyOutputs,
      call: request.call,
    };
  }

  #receive(step: PlannedStep, readPass: number, response: InferenceResponse): void {
    if (this.#hasEnded) return;
    let pass = readPass;
    if (step.isDecoupled) {
      pass = this.#passes[step.index] ?? 0;
      this.#passes[step.index] = pass + 1;
    }
    const sequence = sequenceOf(response.parameters, this.#pending.request.sequence);
    const written: number[] = [];
    for (const [name, tensor] of step.outputs) {
      const output = response.outputs.find((candidate) => candidate.name === name);
      const batchSize = step.isBatching ? (output?.shape[0] ?? 0) : 0;
      this.#write(tensor, pass, output, batchSize, sequence);
      written.push(tensor);
    }
    this.#advance(written, pass);
  }

  #write(
    index: number,
    pass: number,
    tensor: Tensor | undefined,
    batchSize: number,
    sequence: SequenceFlags | undefined,
  ): void {
    const reads = this.#wanted.reads[index] ?? 0;
    const values = this.#values[index];
    if (values !== undefined && reads > 0) values[pass] = { tensor, batchSize, sequence, reads };
  }

  /** Each input that reads the tensor calls this once a pass; the last read drops the value. */
  #read(index: number, pass: number): TensorValue | undefined {
    const values = this.#values[index];
    const value = values?.[pass];
    if (values === undefined || value === undefined) return undefined;
    value.reads -= 1;
    if (value.reads === 0) values[pass] = undefined;
    return value;
  }

  /** Answers pass after pass, so that the order is that of the decoupled step's responses. */
  #answer(): void {
    const outputs = this.#wanted.outputs;
    while (!this.#hasEnded) {
      const pass = this.#nextAnswer;
      if (!outputs.every(({ tensor }) => this.#values[tensor]?.[pass] !== undefined)) return;
      this.#nextAnswer += 1;
      this.#respond(pass);
    }
  }

  #respond(pass: number): void {
    const { plan, modelVersion } = this.#environment;
    const { request } = this.#pending;
    const outputs: Tensor[] = [];
    let { sequence } = request;
    for (const { name, tensor: index, dims } of this.#wanted.outputs) {
      const value = this.#read(index, pass);
      sequence = value?.sequence ?? sequence;
      if (value?.tensor === undefined) continue;
      const { tensor, batchSize } = value;
      outputs.push({
        name,
        datatype: tensor.datatype,
        shape: shapeFor(dims, plan.isBatching, batchSize, tensor.shape),
        encoding: tensor.encoding,
        bytes: tensor.bytes,
      });
    }
    this.#pending.respond({
      modelName: plan.name,
      modelVersion,
      id: request.id,
      parameters: sequenceParameters(sequence),
      outputs,
    });
  }

  get #isHeld(): boolean {
    return this.#pending.isPaused || this.#waits.size > 0;
  }

  #applyFlow(): void {
    const isHeld = this.#isHeld;
    for (const { handle } of this.#calls) {
      if (isHeld) handle?.pause();
      else handle?.resume();
    }
  }

  #completeIfIdle(): void {
    if (this.#hasEnded || this.#isStarting || this.#calls.size > 0 || this.#waits.size > 0) return;
    const { plan, clock, onExecuted } = this.#environment;
    if (!plan.isDecoupled && this.#nextAnswer === 0) {
      const text =
        `${requestIdPrefix(this.#pending)}unexpected deadlock, at least one output is not set ` +
        'while no more ensemble steps can be made';
      this.#fail(invalidArg(text), 'OTHER');
      return;
    }
    this.#hasEnded = true;
    this.#pending.timing.computeOutputStartNs = clock.nowNs();
    this.#pending.timing.computeEndNs = this.#pending.timing.computeOutputStartNs;
    onExecuted(this.#pending);
    this.#pending.complete();
  }

  #fail(error: InferenceServerError, outcome: 'OTHER' | 'CANCELED'): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    for (const giveUp of this.#waits) giveUp();
    this.#waits.clear();
    for (const { handle } of this.#calls) handle?.cancel();
    const { name } = this.#environment.plan;
    this.#pending.fail(
      outcome === 'CANCELED'
        ? error
        : new InferenceServerError(error.code, `in ensemble '${name}', ${error.message}`, error),
      outcome,
    );
  }
}

/**
 * A tensor's shape for a reader, where writer and reader differ in batching: a first dimension of 1
 * is added for a reader that batches, or taken away for one that does not.
 */
function shapeFor(
  dims: readonly number[],
  isReaderBatching: boolean,
  writtenBatchSize: number,
  shape: readonly number[],
): readonly number[] {
  if (isReaderBatching === writtenBatchSize > 0) return shape;
  if (isReaderBatching) return matchesDims(shape, dims) ? [1, ...shape] : shape;
  return writtenBatchSize === 1 && !matchesDims(shape, dims) ? shape.slice(1) : shape;
}
