import type {
  Backend,
  ExecutionResponse,
  ModelInstance,
  RequestsModelInstance,
  TimedResult,
} from '../src/backends/backend.js';
import { nowNs } from '../src/clock.js';
import { internal } from '../src/errors.js';
import { toErrorMessage } from '../src/execution/error-transfer.js';
import type {
  ComputeStamps,
  ErrorMessage,
  InstanceReply,
  RequestResult,
  RequestsExecuteTask,
  ResponseMessage,
  ServingReply,
  ServingTask,
  StartTask,
} from '../src/execution/messages.js';
import { RaggedBatch } from '../src/execution/ragged-batch.js';
import {
  allocateFrom,
  checkTensorBytes,
  type PackedTensorList,
  packTensorLists,
  packTensors,
  unpackTensorList,
} from '../src/execution/tensor-transfer.js';
import { largeBytesMin } from '../src/inference/recycled-buffers.js';
import type { Tensor } from '../src/inference/tensor.js';
import type { ModelConfig } from '../src/model-config/model-config.js';
import { HostChannel } from './host-channel.js';
import { HostedRequest, type ResponseSink, toResponseMessage } from './hosted-request.js';
import { MergedExecution } from './merged-execution.js';
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
  /** Undefined where the instance works request by request. */
  readonly merged: MergedExecution | undefined;
}

/** The worker side of an instance: owns the loaded model and answers the tasks sent to it. */
export class InstanceHost implements ResponseSink {
  readonly #loadBackend: (name: string) => Promise<Backend>;
  readonly #texts: TensorTextCodec;
  /** Called when a task is done, before it is answered. */
  readonly #onDone: () => void;
  #endServing: () => void = () => {};
  /** Requests that may still send, by execution and index. */
  readonly #open = new Map<string, HostedRequest>();
  #loaded: Loaded | undefined;

  constructor(
    loadBackend: (name: string) => Promise<Backend>,
    texts: TensorTextCodec,
    onDone: () => void,
  ) {
    this.#loadBackend = loadBackend;
    this.#texts = texts;
    this.#onDone = onDone;
  }

  /** Never rejects: what goes wrong is the reply. */
  async start(task: StartTask): Promise<InstanceReply> {
    if (task.type === 'serve') return this.#serve();
    let reply: InstanceReply;
    try {
      reply = await this.#start(task);
    } catch (error) {
      reply = failed(error);
    }
    this.#onDone();
    return reply;
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

  async #start(task: Exclude<StartTask, { readonly type: 'serve' }>): Promise<InstanceReply> {
    if (task.type === 'initialize') return this.#initialize(task);
    const backend = await this.#loadBackend(task.backend);
    return {
      type: 'completed-config',
      config: await backend.autoComplete(task.instance, task.config),
    };
  }

  /** Resolves when the model has been finalized. */
  #serve(): Promise<InstanceReply> {
    return new Promise((resolve) => {
      this.#endServing = () => resolve({ type: 'served' });
    });
  }

  /** Answers on the port: at once where the model needs no turn of the event loop. */
  #answer(task: ServingTask): void {
    let reply: ServingReply | Promise<ServingReply>;
    try {
      reply = this.#perform(task);
    } catch (error) {
      reply = failed(error);
    }
    if (reply instanceof Promise) {
      void reply.catch(failed).then((settled) => this.#reply(task, settled));
    } else {
      this.#reply(task, reply);
    }
  }

  #reply(task: ServingTask, reply: ServingReply): void {
    const { channel } = this.#running();
    this.#onDone();
    channel.reply(reply);
    if (task.type !== 'finalize') return;
    channel.close();
    this.#endServing();
  }

  #perform(task: ServingTask): ServingReply | Promise<ServingReply> {
    const { instance, merged } = this.#running();
    switch (task.type) {
      case 'execute-merged':
        if (merged === undefined) throw wrongForm(task.type);
        return merged.execute(task);
      case 'execute-requests':
        if (merged !== undefined) return merged.executeTexts(task);
        if (instance.batchForm === 'merged') throw wrongForm(task.type);
        return this.#executeRequests(task, instance);
      case 'is-ready':
        return this.#askReadiness(instance);
      case 'finalize':
        return instance.unload().then(() => ({ type: 'finalized' }));
    }
  }

  async #askReadiness(instance: ModelInstance): Promise<ServingReply> {
    return { type: 'ready', isReady: (await instance.isReady?.()) ?? true };
  }

  async #initialize(
    task: Extract<StartTask, { readonly type: 'initialize' }>,
  ): Promise<InstanceReply> {
    const { instance: description, config, port } = task;
    const channel = new HostChannel(port, description.logVerboseLevel, {
      onTask: (serving) => this.#answer(serving),
      onStreamCommand: (command) => {
        const request = this.#open.get(`${command.executionId}:${command.requestIndex}`);
        if (command.type === 'cancel') request?.cancel();
        else request?.setPaused(command.type === 'pause');
      },
    });
    const backend = await this.#loadBackend(task.backend);
    const instance = await backend.load(description, config, channel);
    const label = `model '${description.modelName}' version ${description.modelVersion}`;
    this.#loaded = { instance, channel, label, merged: this.#merged(instance, label, config) };
    return {
      type: 'initialized',
      batchForm: instance.batchForm,
      answersReadiness: instance.isReady !== undefined,
      takesBundles: instance.batchForm === 'requests' && instance.executeEach !== undefined,
    };
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
        const sent = unpackTensorList(message.head.inputs, task.buffer, message.byteOffset);
        const inputs = sent.some(isText) ? await this.#texts.decode(sent) : sent;
        const request = new HostedRequest(message, inputs, task.executionId, index, this);
        requests.push(request);
        this.#open.set(streamKey(request), request);
      } catch (error) {
        results[index] = { type: 'error', error: toErrorMessage(error) };
      }
    }
    const inputEndNs = nowNs();
    let answers: readonly TimedResult['result'][];
    let timed: readonly TimedResult[] | undefined;
    try {
      if (task.executesEach && instance.executeEach !== undefined && requests.length > 0) {
        timed = await instance.executeEach(requests);
        answers = timed.map(({ result }) => result);
      } else {
        answers = requests.length === 0 ? [] : await instance.execute(requests);
      }
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
      if (answer.type !== 'response') {
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
    const packed = packTensorLists(lists, allocateFrom(task.spare));
    let former: ResponseMessage | undefined;
    for (const [at, { index, response }] of answered.entries()) {
      const { tensors, byteOffset } = packed.lists[at] ?? noTensors;
      const isLike = former?.outputs === tensors && former.parameters.length === 0;
      if (former === undefined || !isLike || response.parameters.size > 0) {
        former = toResponseMessage(response, tensors);
      }
      results[index] = { type: 'response', response: former, byteOffset };
    }
    const stamps = [startNs, inputEndNs, outputStartNs, nowNs()] as const;
    const eachStamps = timed && stampsOfEach(stamps, requests, timed);
    const isRecyclable = instance.freesInputs && task.buffer.byteLength >= largeBytesMin;
    return {
      type: 'executed-requests',
      buffer: packed.buffer,
      recycled: isRecyclable ? task.buffer : undefined,
      results,
      stamps,
      eachStamps,
    };
  }

  #merged(
    instance: ModelInstance,
    label: string,
    config: ModelConfig,
  ): MergedExecution | undefined {
    if (instance.batchForm !== 'merged') return undefined;
    const hasBatchDimension = config.max_batch_size > 0;
    const ragged = RaggedBatch.of(config);
    return new MergedExecution({ instance, label, hasBatchDimension, ragged }, this.#texts);
  }

  #running(): Loaded {
    if (this.#loaded === undefined) throw internal('the instance has no model; this is a bug');
    return this.#loaded;
  }
}

const noTensors: PackedTensorList = { tensors: [], byteOffset: 0 };

function isText(tensor: Tensor): boolean {
  return tensor.encoding === 'json';
}

/**
 * What each request of a bundle took, one after another from the bundle's start; by the index of
 * the request. The bundle's own preparation and end are shared evenly.
 */
function stampsOfEach(
  [startNs, inputEndNs, outputStartNs, endNs]: ComputeStamps,
  requests: readonly HostedRequest[],
  timed: readonly TimedResult[],
): readonly ComputeStamps[] {
  const inputNs = (inputEndNs - startNs) / requests.length;
  const outputNs = (endNs - outputStartNs) / requests.length;
  const each: ComputeStamps[] = [];
  let ownStartNs = startNs;
  for (const [at, { requestIndex }] of requests.entries()) {
    const ownInputEndNs = ownStartNs + inputNs;
    const ownOutputStartNs = ownInputEndNs + (timed[at]?.durationNs ?? 0);
    const ownEndNs = ownOutputStartNs + outputNs;
    each[requestIndex] = [ownStartNs, ownInputEndNs, ownOutputStartNs, ownEndNs];
    ownStartNs = ownEndNs;
  }
  return each;
}

function streamKey(request: HostedRequest): string {
  return `${request.executionId}:${request.requestIndex}`;
}

function failed(error: unknown): Extract<ServingReply, { readonly type: 'failed' }> {
  return { type: 'failed', error: toErrorMessage(error), isFatal: false };
}

function wrongForm(type: string): Error {
  return internal(`'${type}' sent to an instance of the other form; this is a bug`);
}
