import type { MergedModelInstance } from '../src/backends/backend.js';
import { nowNs } from '../src/clock.js';
import { toErrorMessage } from '../src/execution/error-transfer.js';
import type {
  ComputeStamps,
  MergedExecuteTask,
  RequestResult,
  RequestsExecuteTask,
  ServingReply,
  TextRequest,
} from '../src/execution/messages.js';
import type { RaggedBatch } from '../src/execution/ragged-batch.js';
import {
  allocateFrom,
  checkTensorBytes,
  type PackedTensorList,
  packMerged,
  packTensorLists,
  packTensors,
  splitRows,
  unpackTensorList,
  unpackTensors,
  wholeBuffer,
} from '../src/execution/tensor-transfer.js';
import { largeBytesMin } from '../src/inference/recycled-buffers.js';
import type { Tensor } from '../src/inference/tensor.js';
import type { TensorTextCodec } from './tensor-text-codec.js';

type ExecuteReply = Extract<
  ServingReply,
  { readonly type: 'executed-merged' | 'executed-requests' }
>;

export interface MergedModel {
  readonly instance: MergedModelInstance;
  /** `model 'm' version 1`, as messages name it. */
  readonly label: string;
  readonly hasBatchDimension: boolean;
  /** Joins and splits batches of requests that differ in shape; undefined for most models. */
  readonly ragged: RaggedBatch | undefined;
}

/** Executions of an instance that works on whole tensors. */
export class MergedExecution {
  readonly #instance: MergedModelInstance;
  readonly #label: string;
  readonly #hasBatchDimension: boolean;
  readonly #ragged: RaggedBatch | undefined;
  readonly #texts: TensorTextCodec;

  constructor(model: MergedModel, texts: TensorTextCodec) {
    this.#instance = model.instance;
    this.#label = model.label;
    this.#hasBatchDimension = model.hasBatchDimension;
    this.#ragged = model.ragged;
    this.#texts = texts;
  }

  /** At once where the instance answers at once. */
  execute(task: MergedExecuteTask): ExecuteReply | Promise<ExecuteReply> {
    const startNs = nowNs();
    const inputs = unpackTensors(task.inputs, task.buffer);
    const inputEndNs = nowNs();
    const outputs = this.#instance.execute(inputs, task.requestedOutputs, task.spare);
    return outputs instanceof Promise
      ? outputs.then((given) => this.#reply(task, given, startNs, inputEndNs))
      : this.#reply(task, outputs, startNs, inputEndNs);
  }

  #reply(
    task: MergedExecuteTask,
    outputs: readonly Tensor[],
    startNs: number,
    inputEndNs: number,
  ): ExecuteReply | Promise<ExecuteReply> {
    const outputStartNs = nowNs();
    for (const output of outputs) checkTensorBytes(output, this.#label);
    const { textRequests } = task;
    if (textRequests !== undefined && outputs.some((output) => this.#texts.isLarge(output))) {
      return this.#textReply(textRequests, outputs, [startNs, inputEndNs, outputStartNs]);
    }
    const whole = this.#instance.sharesNoMemory ? wholeBuffer(outputs) : undefined;
    const { buffer, tensors } =
      whole ?? packTensors(outputs, allocateFrom(unusedSpare(task, outputs)));
    const isRecyclable = this.#instance.sharesNoMemory && task.buffer.byteLength >= largeBytesMin;
    return {
      type: 'executed-merged',
      buffer,
      recycled: isRecyclable ? task.buffer : undefined,
      outputs: tensors,
      stamps: [startNs, inputEndNs, outputStartNs, nowNs()],
    };
  }

  async #textReply(
    textRequests: readonly TextRequest[],
    outputs: readonly Tensor[],
    stamps: readonly [number, number, number],
  ): Promise<ExecuteReply> {
    const rows = textRequests.map((request) => request.rows);
    const split = this.#split(outputs, rows);
    const responses = split.map((own, index) =>
      textRequests[index]?.prefersJsonText ? this.#texts.encodeLarge(own) : own,
    );
    const { buffer, lists } = packTensorLists(await Promise.all(responses));
    const results = lists.map(plainResult);
    return executedRequests(buffer, results, [...stamps, nowNs()]);
  }

  /**
   * Requests with inputs that are still JSON text or that differ in shape, for an instance that
   * works on whole tensors: each is decoded, failing alone where its text is wrong, and the sound
   * ones are joined.
   */
  async executeTexts(task: RequestsExecuteTask): Promise<ExecuteReply> {
    const startNs = nowNs();
    const results: RequestResult[] = [];
    const sound: { readonly index: number; readonly inputs: readonly Tensor[] }[] = [];
    for (const [index, request] of task.requests.entries()) {
      try {
        const inputs = await this.#texts.decode(
          unpackTensorList(request.head.inputs, task.buffer, request.byteOffset),
        );
        sound.push({ index, inputs });
      } catch (error) {
        results[index] = { type: 'error', error: toErrorMessage(error) };
      }
    }
    if (sound.length === 0) {
      const stamps = [startNs, startNs, startNs, nowNs()] as const;
      return executedRequests(new ArrayBuffer(0), results, stamps);
    }
    const lists = sound.map(({ inputs }) => inputs);
    const joined = this.#ragged === undefined ? joinRows(lists) : this.#ragged.merge(lists);
    const inputEndNs = nowNs();
    const requested = requestedUnion(sound.map(({ index }) => task.requests[index]));
    const outputs = await this.#instance.execute(joined, requested, undefined);
    const outputStartNs = nowNs();
    for (const output of outputs) checkTensorBytes(output, this.#label);
    const rows = lists.map((inputs) => inputs[0]?.shape[0] ?? 1);
    const split =
      this.#ragged === undefined
        ? this.#split(outputs, rows)
        : this.#ragged.split(outputs, lists, this.#label);
    const responses = await Promise.all(
      split.map((own, at) =>
        task.requests[sound[at]?.index ?? 0]?.head.prefersJsonText
          ? this.#texts.encodeLarge(own)
          : own,
      ),
    );
    const { buffer, lists: packed } = packTensorLists(responses);
    for (const [at, list] of packed.entries()) results[sound[at]?.index ?? 0] = plainResult(list);
    const stamps = [startNs, inputEndNs, outputStartNs, nowNs()] as const;
    return executedRequests(buffer, results, stamps);
  }

  #split(outputs: readonly Tensor[], rows: readonly number[]): readonly (readonly Tensor[])[] {
    // Without a batch dimension an execution has one request, and its outputs are all its own.
    return this.#hasBatchDimension ? splitRows(outputs, rows, this.#label) : [outputs];
  }
}

function executedRequests(
  buffer: ArrayBuffer,
  results: readonly RequestResult[],
  stamps: ComputeStamps,
): ExecuteReply {
  const type = 'executed-requests';
  return { type, buffer, recycled: undefined, results, stamps, eachStamps: undefined };
}

function joinRows(requests: readonly (readonly Tensor[])[]): readonly Tensor[] {
  const { buffer, tensors } = packMerged(requests);
  return unpackTensors(tensors, buffer);
}

/** The spare buffer of `task`, unless an output lies in it. */
function unusedSpare(
  { spare }: MergedExecuteTask,
  outputs: readonly Tensor[],
): ArrayBuffer | undefined {
  return outputs.some(({ bytes }) => bytes.buffer === spare) ? undefined : spare;
}

function plainResult({ tensors, byteOffset }: PackedTensorList): RequestResult {
  return { type: 'response', response: { outputs: tensors, parameters: [] }, byteOffset };
}

/** Every output that one of `requests` asks for; empty where one asks for all. */
function requestedUnion(
  requests: readonly (RequestsExecuteTask['requests'][number] | undefined)[],
): readonly string[] {
  const union = new Set<string>();
  for (const request of requests) {
    if (request === undefined || request.head.requestedOutputs.length === 0) return [];
    for (const name of request.head.requestedOutputs) union.add(name);
  }
  return [...union];
}
