import { internal, invalidArg } from '../errors.js';
import { fromErrorMessage } from '../execution/error-transfer.js';
import type {
  ComputeStamps,
  ErrorMessage,
  RequestMessage,
  RequestResult,
  ResponseMessage,
} from '../execution/messages.js';
import type {
  ExecuteOutcome,
  ExecuteReply,
  ExecuteTask,
  ModelInstances,
} from '../execution/model-instances.js';
import { RaggedBatch } from '../execution/ragged-batch.js';
import {
  type PackedTensorList,
  packMerged,
  packTensorLists,
  splitRows,
  unpackTensorList,
  unpackTensors,
} from '../execution/tensor-transfer.js';
import { noParameters } from '../inference/infer-request.js';
import type { InferenceResponse } from '../inference/infer-response.js';
import { RecycledBuffers } from '../inference/recycled-buffers.js';
import type { Tensor } from '../inference/tensor.js';
import type { ModelConfig } from '../model-config/model-config.js';
import type { PendingRequest } from '../scheduling/pending-request.js';
import type { BatchExecutor } from '../scheduling/scheduler.js';
import { BundleSize } from './bundle-size.js';
import type { ExecutionRecorder } from './execution-recorder.js';
import { OutputBuffers, outputBytesOf } from './output-buffers.js';
import { OutputForm } from './output-form.js';
import {
  callsOf,
  hasTextInput,
  rowsOf,
  stampRequest,
  textRequests,
  unstartedOf,
} from './request-batch.js';
import { RequestHeads } from './request-heads.js';
import { StreamedBatch } from './streamed-batch.js';

const noSpare = {};
const noNames: readonly string[] = [];
const noTensors: PackedTensorList = { tensors: [], byteOffset: 0 };

/** Runs the batches of one model version on its instances and settles their requests. */
export class ModelExecutor implements BatchExecutor {
  readonly #instances: ModelInstances;
  readonly #recorder: ExecutionRecorder;
  readonly #modelName: string;
  readonly #modelVersion: string;
  readonly #label: string;
  readonly #isDecoupled: boolean;
  readonly #isBatching: boolean;
  /** Requests that come together are no batch. */
  readonly #executesEach: boolean;
  readonly #bundleSize = new BundleSize();
  /** Requests of a batch may differ in shape: the instance's thread joins them. */
  readonly #isRagged: boolean;
  /** A sequence's next request must not start before its former one has given its state back. */
  readonly #settlesFirst: boolean;
  readonly #form: OutputForm;
  readonly #buffers = new RecycledBuffers();
  /** Undefined where somebody keeps outputs: the response cache, a sequence's state. */
  readonly #outputBuffers: OutputBuffers | undefined;
  /** What the responses of the reply at hand call when they have been sent. */
  #release: (() => void) | undefined;
  #lastExecutionId = 0;
  /** Of the batch handed over last. */
  #lastRows = 0;
  #onIdle: () => void = () => {};
  #onReturned: (requests: readonly PendingRequest[]) => void = () => {};

  constructor(
    instances: ModelInstances,
    version: string,
    config: ModelConfig,
    recorder: ExecutionRecorder,
  ) {
    this.#instances = instances;
    this.#recorder = recorder;
    this.#modelName = config.name;
    this.#modelVersion = version;
    this.#label = `model '${config.name}' version ${version}`;
    this.#isDecoupled = config.model_transaction_policy?.decoupled === true;
    this.#isBatching = config.max_batch_size > 0;
    const hasBatcher =
      config.dynamic_batching !== undefined || config.sequence_batching !== undefined;
    this.#executesEach = !(this.#isBatching && hasBatcher);
    this.#isRagged = RaggedBatch.of(config) !== undefined;
    this.#settlesFirst = config.sequence_batching !== undefined;
    this.#form = new OutputForm(config);
    const keepsOutputs =
      config.sequence_batching !== undefined || config.response_cache?.enable === true;
    this.#outputBuffers = keepsOutputs || this.#isDecoupled ? undefined : new OutputBuffers();
  }

  get idleInstances(): number {
    return this.#instances.idleInstances;
  }

  /**
   * A batch that is no smaller than the one before it. Fewer rows would make batches smaller and
   * smaller; none would leave the instance without work while the main thread is told that it is
   * idle, packs the next batch and wakes it.
   */
  get aheadRowsMin(): number {
    return this.#instances.canRunAhead && !this.#settlesFirst
      ? this.#lastRows
      : Number.POSITIVE_INFINITY;
  }

  get bundleSizeMax(): number {
    const takesBundles = this.#executesEach && this.#instances.takesBundles && !this.#isDecoupled;
    return takesBundles ? this.#bundleSize.sizeMax : 1;
  }

  onIdle(listener: () => void): void {
    this.#onIdle = listener;
    this.#instances.onIdle(listener);
  }

  onReturned(listener: (requests: readonly PendingRequest[]) => void): void {
    this.#onReturned = listener;
  }

  execute(batch: readonly PendingRequest[]): void {
    this.#lastExecutionId += 1;
    this.#lastRows = rowsOf(batch);
    const executionId = this.#lastExecutionId;
    let task: ExecuteTask;
    try {
      for (const pending of batch) pending.state = 'executing';
      task = this.#toTask(executionId, batch);
    } catch (error) {
      const failure = internal(`${this.#label}: the batch can't be put together`, error);
      for (const pending of batch) pending.fail(failure, 'OTHER');
      return;
    }
    const stream =
      task.type === 'execute-requests' && this.#instances.batchForm === 'requests'
        ? this.#openStream(executionId, batch)
        : undefined;
    void this.#instances
      .execute(task, stream, callsOf(batch))
      .then((reply) => this.#finish(batch, reply, stream));
  }

  #toTask(executionId: number, batch: readonly PendingRequest[]): ExecuteTask {
    if (this.#instances.batchForm === 'merged' && !this.#isRagged && !batch.some(hasTextInput)) {
      const { buffer, tensors } = packMerged(
        batch.map((pending) => pending.modelInputs),
        this.#buffers.take,
      );
      return {
        type: 'execute-merged',
        executionId,
        buffer,
        inputs: tensors,
        requestedOutputs: this.#requestedUnion(batch),
        textRequests: textRequests(batch),
        ...this.#spare(),
      };
    }
    const { buffer, lists } = packTensorLists(
      batch.map((pending) => pending.modelInputs),
      this.#buffers.take,
    );
    const heads = new RequestHeads((names) => this.#form.withStates(names));
    const requests = batch.map(({ request }, index): RequestMessage => {
      const { tensors, byteOffset } = lists[index] ?? noTensors;
      return { head: heads.of(request, tensors), id: request.id, byteOffset };
    });
    const executesEach = batch.length > 1 && this.#executesEach;
    return {
      type: 'execute-requests',
      executionId,
      buffer,
      executesEach,
      requests,
      ...this.#spare(),
    };
  }

  #spare(): { readonly spare?: ArrayBuffer } {
    const spare = this.#outputBuffers?.spareFor(this.#lastRows);
    return spare === undefined ? noSpare : { spare };
  }

  #requestedUnion(batch: readonly PendingRequest[]): readonly string[] {
    const [first] = batch;
    if (first === undefined || first.request.requestedOutputs.length === 0) return noNames;
    if (batch.length === 1) return this.#form.withStates(first.request.requestedOutputs);
    const union = new Set<string>();
    for (const { request } of batch) {
      if (request.requestedOutputs.length === 0) return noNames;
      for (const name of request.requestedOutputs) union.add(name);
    }
    return this.#form.withStates([...union]);
  }

  #openStream(executionId: number, batch: readonly PendingRequest[]): StreamedBatch {
    return new StreamedBatch(executionId, batch, {
      isDecoupled: this.#isDecoupled,
      send: (command) => this.#instances.command(command),
      respond: (pending, message, buffer) => this.#respond(pending, message, buffer, 0),
      recorder: this.#recorder,
    });
  }

  #finish(
    batch: readonly PendingRequest[],
    reply: ExecuteOutcome,
    stream: StreamedBatch | undefined,
  ): void {
    const unstarted = unstartedOf(batch, reply);
    if (unstarted.length > 0) this.#giveBack(unstarted);
    // The instance works on the next batch while the answers of this one are written.
    if (!this.#settlesFirst && (this.#instances.idleInstances > 0 || this.#instances.canRunAhead)) {
      this.#onIdle();
    }
    if ('recycled' in reply && reply.recycled !== undefined) this.#buffers.give(reply.recycled);
    switch (reply.type) {
      case 'executed-merged':
        this.#finishMerged(batch, reply);
        return;
      case 'executed-requests':
        this.#record(batch, reply);
        this.#release = this.#lend(batch, reply);
        for (let index = 0; index < batch.length; index += 1) {
          const pending = batch[index];
          const result = reply.results[index];
          if (pending !== undefined) this.#finishOne(pending, index, result, reply.buffer, stream);
        }
        this.#release = undefined;
        return;
      case 'failed':
        this.#failAll(batch, reply.error);
        return;
      case 'unstarted':
        return;
    }
  }

  #lend(
    batch: readonly PendingRequest[],
    reply: Exclude<ExecuteReply, { readonly type: 'failed' }>,
  ): (() => void) | undefined {
    return this.#outputBuffers?.lend(
      reply.buffer,
      outputBytesOf(reply),
      rowsOf(batch),
      batch.length,
    );
  }

  #giveBack(requests: readonly PendingRequest[]): void {
    for (const pending of requests) {
      pending.onCancel = undefined;
      pending.onFlow = undefined;
    }
    this.#onReturned(requests);
  }

  #finishMerged(
    batch: readonly PendingRequest[],
    reply: Extract<ExecuteReply, { readonly type: 'executed-merged' }>,
  ): void {
    const outputs = unpackTensors(reply.outputs, reply.buffer);
    let split: readonly (readonly Tensor[])[];
    try {
      split = this.#isBatching
        ? splitRows(
            outputs,
            batch.map((pending) => pending.rows),
            this.#label,
          )
        : [outputs];
    } catch (error) {
      // The instance's outputs are not its requests' rows: nobody gets another's.
      const failure = error instanceof Error ? error : internal('unprintable error');
      this.#failAll(batch, { code: 'INTERNAL', message: failure.message });
      return;
    }
    this.#stamp(batch, reply.stamps);
    this.#recorder.executed(rowsOf(batch), reply.stamps);
    this.#release = this.#lend(batch, reply);
    for (let index = 0; index < batch.length; index += 1) {
      const pending = batch[index];
      if (pending === undefined) continue;
      pending.respond(this.#toResponse(pending, split[index] ?? [], noParameters));
      pending.complete();
    }
    this.#release = undefined;
  }

  #finishOne(
    pending: PendingRequest,
    index: number,
    result: RequestResult | undefined,
    buffer: ArrayBuffer,
    stream: StreamedBatch | undefined,
  ): void {
    if (pending.state === 'settled') return;
    if (result === undefined) {
      pending.fail(internal(`${this.#label}: gave no response`), 'BACKEND');
      return;
    }
    switch (result.type) {
      case 'response':
        this.#respond(pending, result.response, buffer, result.byteOffset);
        stream?.recordSingle(index, pending, false);
        pending.complete();
        return;
      case 'error':
        stream?.recordSingle(index, pending, true);
        pending.fail(fromErrorMessage(result.error), 'SUCCESS');
        return;
      case 'streamed':
        // Its notices settle it, or the end of its instance does.
        return;
      case 'unstarted':
        return;
      case 'rescheduled':
        if (pending.onReschedule === undefined) {
          pending.fail(
            invalidArg(
              `${this.#label}: it asked for its request to be executed again, which needs ` +
                'sequence_batching with iterative_sequence',
            ),
            'BACKEND',
          );
        } else pending.reschedule();
        return;
    }
  }

  #failAll(batch: readonly PendingRequest[], error: ErrorMessage): void {
    const failure = fromErrorMessage(error);
    for (const pending of batch) {
      if (pending.state !== 'settled') pending.fail(failure, 'BACKEND');
    }
  }

  #record(
    batch: readonly PendingRequest[],
    { results, stamps, eachStamps }: Extract<ExecuteReply, { readonly type: 'executed-requests' }>,
  ): void {
    if (eachStamps === undefined) {
      this.#stamp(batch, stamps);
      this.#recorder.executed(rowsOf(batch), stamps);
      if (this.#executesEach) this.#bundleSize.observe(stamps[2] - stamps[1]);
      return;
    }
    for (const [index, pending] of batch.entries()) {
      const own = eachStamps[index];
      if (own === undefined || results[index]?.type === 'unstarted') continue;
      stampRequest(pending, own);
      this.#recorder.executed(pending.rows, own);
      this.#bundleSize.observe(own[2] - own[1]);
    }
  }

  #stamp(batch: readonly PendingRequest[], stamps: ComputeStamps): void {
    for (const pending of batch) stampRequest(pending, stamps);
  }

  #respond(
    pending: PendingRequest,
    message: ResponseMessage,
    buffer: ArrayBuffer,
    byteOffset: number,
  ): void {
    const outputs = unpackTensorList(message.outputs, buffer, byteOffset);
    const parameters = message.parameters.length === 0 ? noParameters : new Map(message.parameters);
    pending.respond(this.#toResponse(pending, outputs, parameters));
  }

  #toResponse(
    pending: PendingRequest,
    outputs: readonly Tensor[],
    parameters: InferenceResponse['parameters'],
  ): InferenceResponse {
    const { request } = pending;
    const response = {
      modelName: this.#modelName,
      modelVersion: this.#modelVersion,
      id: request.id,
      parameters,
      outputs: this.#form.toClient(outputs, request.requestedOutputs),
    };
    return this.#release === undefined ? response : { ...response, release: this.#release };
  }
}
