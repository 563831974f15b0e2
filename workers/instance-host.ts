import type {
  Backend,
  ExecutionResponse,
  ExecutionResult,
  MergedModelInstance,
  ModelInstance,
  RequestsModelInstance,
} from '../src/backends/backend.js';
import { nowNs } from '../src/clock.js';
import { internal } from '../src/errors.js';
import { toErrorMessage } from '../src/execution/error-transfer.js';
import type {
  ErrorMessage,
  InstanceReply,
  InstanceTask,
  MergedExecuteTask,
  RequestResult,
  RequestsExecuteTask,
  TensorMessage,
} from '../src/execution/messages.js';
import { RaggedBatch } from '../src/execution/ragged-batch.js';
import {
  checkTensorBytes,
  largeBytesMin,
  packMerged,
  packTensorLists,
  packTensors,
  splitRows,
  unpackTensors,
  wholeBuffer,
} from '../src/execution/tensor-transfer.js';
import type { Tensor } from '../src/inference/tensor.js';
import { HostChannel } from './host-channel.js';
import { HostedRequest, type ResponseSink, toResponseMessage } from './hosted-request.js';
import type { TensorTextCodec } from './tensor-text-codec.js';

type ExecuteReply = Extract<
  InstanceReply,
  { readonly type: 'executed-merged' | 'executed-requests' | 'failed' }
>;

interface Loaded {
  readonly instance: ModelInstance;
  readonly channel: HostChannel;
  /** `model 'm' version 1`, as messages name it. */
  readonly label: string;
  readonly hasBatchDimension: boolean;
  /** Joins and splits batches of requests that differ in shape; undefined for most models. */
  readonly ragged: RaggedBatch | undefined;
}

/** The worker side of an instance: owns the loaded model and answers the tasks sent to it. */
export class InstanceHost implements ResponseSink {
  readonly #loadBackend: (name: string) => Promise<Backend>;
  readonly #texts: TensorTextCodec;
  /** Requests that may still send, by execution and index. */
  readonly #open = new Map<string, HostedRequest>();
  #loaded: Loaded | undefined;

  constructor(loadBackend: (name: string) => Promise<Backend>, texts: TensorTextCodec) {
    this.#loadBackend = loadBackend;
    this.#texts = texts;
  }

  /** Never rejects: what goes wrong is the reply. */
  async answer(task: InstanceTask): Promise<InstanceReply> {
    try {
      return await this.#answer(task);
    } catch (error) {
      return { type: 'failed', error: toErrorMessage(error), isFatal: false };
    }
  }

  sendResponse(
    request: HostedRequest,
    response: ExecutionResponse | undefined,
    error: ErrorMessage | undefined,
    isFinal: boolean,
  ): void {
    const { channel, label } = this.#running();
    for (const output of response?.outputs ?? []) checkTensorBytes(output, label);
    const { buffer, tensors } = packTensors(response?.outputs ?? []);
    const { executionId, requestIndex } = request;
    if (isFinal) this.#open.delete(streamKey(request));
    channel.notify(
      {
        type: 'response',
        executionId,
        requestIndex,
        buffer,
        response: response && toResponseMessage(response, tensors),
        error,
        isFinal,
      },
      [buffer],
    );
  }

  async untilRoom(): Promise<void> {
    await this.#loaded?.channel.untilRoom();
  }

  async #answer(task: InstanceTask): Promise<InstanceReply> {
    switch (task.type) {
      case 'auto-complete': {
        const backend = await this.#loadBackend(task.backend);
        return {
          type: 'completed-config',
          config: await backend.autoComplete(task.instance, task.config),
        };
      }
      case 'initialize':
        return this.#initialize(task);
      case 'execute-merged': {
        const { instance } = this.#running();
        if (instance.batchForm !== 'merged') throw wrongForm(task.type);
        return this.#executeMerged(task, instance);
      }
      case 'execute-requests': {
        const { instance } = this.#running();
        return instance.batchForm === 'merged'
          ? this.#executeTexts(task, instance)
          : this.#executeRequests(task, instance);
      }
      case 'is-ready': {
        const { instance } = this.#running();
        return { type: 'ready', isReady: (await instance.isReady?.()) ?? true };
      }
      case 'finalize': {
        const { instance, channel } = this.#running();
        await instance.unload();
        channel.close();
        return { type: 'finalized' };
      }
    }
  }

  async #initialize(
    task: Extract<InstanceTask, { readonly type: 'initialize' }>,
  ): Promise<InstanceReply> {
    const { instance: description, config, port } = task;
    const channel = new HostChannel(port, description.logVerboseLevel, (command) => {
      const request = this.#open.get(`${command.executionId}:${command.requestIndex}`);
      if (command.type === 'cancel') request?.cancel();
      else request?.setPaused(command.type === 'pause');
    });
    const backend = await this.#loadBackend(task.backend);
    const instance = await backend.load(description, config, channel);
    this.#loaded = {
      instance,
      channel,
      label: `model '${description.modelName}' version ${description.modelVersion}`,
      hasBatchDimension: config.max_batch_size > 0,
      ragged: RaggedBatch.of(config),
    };
    return {
      type: 'initialized',
      batchForm: instance.batchForm,
      answersReadiness: instance.isReady !== undefined,
    };
  }

  async #executeMerged(
    task: MergedExecuteTask,
    instance: MergedModelInstance,
  ): Promise<ExecuteReply> {
    const { label } = this.#running();
    const startNs = nowNs();
    const inputs = unpackTensors(task.inputs, task.buffer);
    const inputEndNs = nowNs();
    const outputs = await instance.execute(inputs, task.requestedOutputs);
    const outputStartNs = nowNs();
    for (const output of outputs) checkTensorBytes(output, label);
    const { textRequests } = task;
    if (textRequests !== undefined && outputs.some((output) => this.#texts.isLarge(output))) {
      const rows = textRequests.map((request) => request.rows);
      const split = this.#split(outputs, rows);
      const responses = split.map((own, index) =>
        textRequests[index]?.prefersJsonText ? this.#texts.encodeLarge(own) : own,
      );
      const { buffer, lists } = packTensorLists(await Promise.all(responses));
      const results = lists.map(plainResult);
      const stamps = [startNs, inputEndNs, outputStartNs, nowNs()] as const;
      return { type: 'executed-requests', buffer, results, stamps };
    }
    const whole = instance.sharesNoMemory ? wholeBuffer(outputs) : undefined;
    const { buffer, tensors } = whole ?? packTensors(outputs);
    const isRecyclable = instance.sharesNoMemory && task.buffer.byteLength >= largeBytesMin;
    return {
      type: 'executed-merged',
      buffer,
      recycled: isRecyclable ? task.buffer : undefined,
      outputs: tensors,
      stamps: [startNs, inputEndNs, outputStartNs, nowNs()],
    };
  }

  /**
   * Requests with inputs that are still JSON text or that differ in shape, for an instance that
   * works on whole tensors: each is decoded, failing alone where its text is wrong, and the sound
   * ones are joined.
   */
  async #executeTexts(
    task: RequestsExecuteTask,
    instance: MergedModelInstance,
  ): Promise<ExecuteReply> {
    const { label, ragged } = this.#running();
    const startNs = nowNs();
    const results: RequestResult[] = [];
    const sound: { readonly index: number; readonly inputs: readonly Tensor[] }[] = [];
    for (const [index, request] of task.requests.entries()) {
      try {
        const inputs = await this.#texts.decode(unpackTensors(request.inputs, task.buffer));
        sound.push({ index, inputs });
      } catch (error) {
        results[index] = { type: 'error', error: toErrorMessage(error) };
      }
    }
    if (sound.length === 0) {
      const stamps = [startNs, startNs, startNs, nowNs()] as const;
      return { type: 'executed-requests', buffer: new ArrayBuffer(0), results, stamps };
    }
    const lists = sound.map(({ inputs }) => inputs);
    const joined = ragged === undefined ? joinRows(lists) : ragged.merge(lists);
    const inputEndNs = nowNs();
    const requested = requestedUnion(sound.map(({ index }) => task.requests[index]));
    const outputs = await instance.execute(joined, requested);
    const outputStartNs = nowNs();
    for (const output of outputs) checkTensorBytes(output, label);
    const rows = lists.map((inputs) => inputs[0]?.shape[0] ?? 1);
    const split =
      ragged === undefined ? this.#split(outputs, rows) : ragged.split(outputs, lists, label);
    const responses = await Promise.all(
      split.map((own, at) =>
        task.requests[sound[at]?.index ?? 0]?.prefersJsonText ? this.#texts.encodeLarge(own) : own,
      ),
    );
    const { buffer, lists: packed } = packTensorLists(responses);
    for (const [at, list] of packed.entries()) results[sound[at]?.index ?? 0] = plainResult(list);
    const stamps = [startNs, inputEndNs, outputStartNs, nowNs()] as const;
    return { type: 'executed-requests', buffer, results, stamps };
  }

  async #executeRequests(
    task: RequestsExecuteTask,
    instance: RequestsModelInstance,
  ): Promise<ExecuteReply> {
    const startNs = nowNs();
    const results: RequestResult[] = [];
    const requests: HostedRequest[] = [];
    for (const [index, message] of task.requests.entries()) {
      try {
        const inputs = await this.#texts.decode(unpackTensors(message.inputs, task.buffer));
        const request = new HostedRequest(message, inputs, task.executionId, index, this);
        requests.push(request);
        this.#open.set(streamKey(request), request);
      } catch (error) {
        results[index] = { type: 'error', error: toErrorMessage(error) };
      }
    }
    const inputEndNs = nowNs();
    let answers: readonly ExecutionResult[];
    try {
      answers = requests.length === 0 ? [] : await instance.execute(requests);
      if (answers.length !== requests.length) {
        throw internal(
          `${this.#running().label}: execute gave ${answers.length} responses, ` +
            `expected ${requests.length}, one for each request`,
        );
      }
    } catch (error) {
      for (const request of requests) this.#open.delete(streamKey(request));
      throw error;
    }
    const outputStartNs = nowNs();
    const lists: (readonly Tensor[])[] = [];
    const answered: { readonly index: number; readonly response: ExecutionResponse }[] = [];
    for (const [at, request] of requests.entries()) {
      const answer = answers[at];
      if (answer === undefined) continue;
      if (answer.type === 'streamed') {
        results[request.requestIndex] = answer;
        continue;
      }
      this.#open.delete(streamKey(request));
      request.hasEnded = true;
      if (answer.type === 'error') {
        results[request.requestIndex] = answer;
        continue;
      }
      try {
        for (const output of answer.response.outputs) {
          checkTensorBytes(output, this.#running().label);
        }
        const { outputs } = answer.response;
        lists.push(request.prefersJsonText ? await this.#texts.encodeLarge(outputs) : outputs);
        answered.push({ index: request.requestIndex, response: answer.response });
      } catch (error) {
        results[request.requestIndex] = { type: 'error', error: toErrorMessage(error) };
      }
    }
    const packed = packTensorLists(lists);
    for (const [at, { index, response }] of answered.entries()) {
      const outputs = packed.lists[at] ?? [];
      results[index] = { type: 'response', response: toResponseMessage(response, outputs) };
    }
    const stamps = [startNs, inputEndNs, outputStartNs, nowNs()] as const;
    return { type: 'executed-requests', buffer: packed.buffer, results, stamps };
  }

  #split(outputs: readonly Tensor[], rows: readonly number[]): readonly (readonly Tensor[])[] {
    const { label, hasBatchDimension } = this.#running();
    // Without a batch dimension an execution has one request, and its outputs are all its own.
    return hasBatchDimension ? splitRows(outputs, rows, label) : [outputs];
  }

  #running(): Loaded {
    if (this.#loaded === undefined) throw internal('the instance has no model; this is a bug');
    return this.#loaded;
  }
}

function joinRows(requests: readonly (readonly Tensor[])[]): readonly Tensor[] {
  const { buffer, tensors } = packMerged(requests);
  return unpackTensors(tensors, buffer);
}

function streamKey(request: HostedRequest): string {
  return `${request.executionId}:${request.requestIndex}`;
}

function plainResult(outputs: readonly TensorMessage[]): RequestResult {
  return { type: 'response', response: { outputs, parameters: [] } };
}

/** Every output that one of `requests` asks for; empty where one asks for all. */
function requestedUnion(
  requests: readonly (RequestsExecuteTask['requests'][number] | undefined)[],
): readonly string[] {
  const union = new Set<string>();
  for (const request of requests) {
    if (request === undefined || request.requestedOutputs.length === 0) return [];
    for (const name of request.requestedOutputs) union.add(name);
  }
  return [...union];
}

function wrongForm(type: string): Error {
  return internal(`'${type}' sent to an instance of the other form; this is a bug`);
}
