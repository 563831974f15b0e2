import type { MessagePort } from 'node:worker_threads';
import type { ExecutionResponse, InstanceHostApi, ModelCall } from '../src/backends/backend.js';
import { cancelled } from '../src/errors.js';
import { fromErrorMessage } from '../src/execution/error-transfer.js';
import type {
  ErrorMessage,
  InstanceCommand,
  InstanceNotice,
  LogLevel,
  MetricUpdate,
  ServingReply,
  ServingTask,
} from '../src/execution/messages.js';
import { type PortTask, ReplyEncoder, TaskDecoder } from '../src/execution/repeated-messages.js';
import { SentResponses } from '../src/execution/response-window.js';
import { packTensors, unpackTensors } from '../src/execution/tensor-transfer.js';
import { largeBytesMin } from '../src/inference/recycled-buffers.js';

type InferResult = Extract<InstanceCommand, { readonly type: 'infer-result' }>;
type StreamCommand = Extract<InstanceCommand, { readonly type: 'cancel' | 'pause' | 'resume' }>;

interface RunningCall {
  onResult(result: InferResult): void;
  reject(error: unknown): void;
}

interface RunningControl {
  resolve(isReady: boolean): void;
  reject(error: unknown): void;
}

/** What comes to the instance by its port. */
export interface ChannelListener {
  onTask(task: ServingTask): void;
  onStreamCommand(command: StreamCommand): void;
}

/**
 * The thread's end of an instance's port: its tasks come in here, and their answers and what the
 * model asks of the server go out.
 */
export class HostChannel implements InstanceHostApi {
  readonly #port: MessagePort;
  readonly #listener: ChannelListener;
  readonly #calls = new Map<number, RunningCall>();
  readonly #controls = new Map<number, RunningControl>();
  readonly #sent = new SentResponses();
  readonly #replies = new ReplyEncoder();
  #lastCallId = 0;
  #logVerboseLevel: number;
  #end: () => Promise<void> = async () => {};

  constructor(port: MessagePort, logVerboseLevel: number, listener: ChannelListener) {
    this.#port = port;
    this.#logVerboseLevel = logVerboseLevel;
    this.#listener = listener;
    const tasks = new TaskDecoder();
    port.on('message', (message: PortTask) => this.#onMessage(tasks.decode(message)));
  }

  /** Large buffers are moved; small ones are cheaper to clone. */
  reply(reply: ServingReply): void {
    this.#port.postMessage(this.#replies.encode(reply), largeBuffers(reply));
  }

  notify(notice: InstanceNotice, transfer: readonly ArrayBuffer[]): void {
    this.#sent.add(notice);
    this.#port.postMessage(notice, [...transfer]);
  }

  /** Resolves when a stream may send its next response. */
  untilRoom(): Promise<void> {
    return this.#sent.untilRoom();
  }

  log(level: LogLevel, message: string): void {
    this.notify({ type: 'log', level, message }, []);
  }

  updateMetric(update: MetricUpdate): void {
    this.notify({ type: 'metric', update }, []);
  }

  infer(
    call: ModelCall,
    onResponse: (
      response: ExecutionResponse & { readonly modelName: string; readonly modelVersion: string },
    ) => void,
    signal: AbortSignal,
  ): Promise<void> {
    if (signal.aborted) return Promise.reject(cancelled('the request was cancelled'));
    const callId = this.#nextCallId();
    const { buffer, tensors } = packTensors(call.inputs);
    return new Promise((resolve, reject) => {
      const onAbort = (): void => this.notify({ type: 'infer-cancel', callId }, []);
      const end = (): void => {
        this.#calls.delete(callId);
        signal.removeEventListener('abort', onAbort);
      };
      this.#calls.set(callId, {
        onResult: (result) => {
          if (result.response !== undefined) onResponse(toResponse(result));
          if (!result.isFinal) return;
          end();
          if (result.error === undefined) resolve();
          else reject(fromErrorMessage(result.error));
        },
        reject: (error) => {
          end();
          reject(error);
        },
      });
      signal.addEventListener('abort', onAbort);
      this.notify(
        {
          type: 'infer',
          callId,
          modelName: call.modelName,
          modelVersion: call.modelVersion,
          isDecoupled: call.isDecoupled,
          buffer,
          id: call.id,
          request: {
            parameters: [...call.parameters],
            correlationId: call.correlationId,
            flags: (call.isSequenceStart ? 1 : 0) | (call.isSequenceEnd ? 2 : 0),
            timeoutUs: call.timeoutUs,
            priority: call.priority,
            requestedOutputs: call.requestedOutputs,
            prefersJsonText: false,
            inputs: tensors,
          },
        },
        [buffer],
      );
    });
  }

  async loadModel(
    name: string,
    config: string | undefined,
    files: readonly (readonly [string, Uint8Array])[],
  ): Promise<void> {
    await this.#control('load', name, '', config, files);
  }

  async unloadModel(name: string): Promise<void> {
    await this.#control('unload', name, '', undefined, []);
  }

  isModelReady(name: string, version: string): Promise<boolean> {
    return this.#control('is-ready', name, version, undefined, []);
  }

  logVerboseLevel(): number {
    return this.#logVerboseLevel;
  }

  broken(error: ErrorMessage): void {
    this.notify({ type: 'broken', error }, []);
  }

  onGivenUp(end: () => Promise<void>): void {
    this.#end = end;
  }

  /** Ends the channel; calls that still wait are refused. */
  close(): void {
    const error = cancelled('the model is being unloaded');
    for (const call of [...this.#calls.values()]) call.reject(error);
    for (const control of [...this.#controls.values()]) control.reject(error);
    this.#controls.clear();
    this.#sent.release();
    this.#port.close();
  }

  #control(
    action: 'load' | 'unload' | 'is-ready',
    modelName: string,
    modelVersion: string,
    config: string | undefined,
    files: readonly (readonly [string, Uint8Array])[],
  ): Promise<boolean> {
    const callId = this.#nextCallId();
    return new Promise((resolve, reject) => {
      this.#controls.set(callId, { resolve, reject });
      this.notify({ type: 'control', callId, action, modelName, modelVersion, config, files }, []);
    });
  }

  #onMessage(command: InstanceCommand | ServingTask): void {
    switch (command.type) {
      case 'execute-merged':
      case 'execute-requests':
      case 'is-ready':
      case 'finalize':
        this.#listener.onTask(command);
        return;
      case 'cancel':
      case 'pause':
      case 'resume':
        this.#listener.onStreamCommand(command);
        return;
      case 'received':
        this.#sent.received(command.bytes);
        return;
      case 'infer-result':
        this.#calls.get(command.callId)?.onResult(command);
        return;
      case 'control-result': {
        const control = this.#controls.get(command.callId);
        this.#controls.delete(command.callId);
        if (command.error === undefined) control?.resolve(command.isReady);
        else control?.reject(fromErrorMessage(command.error));
        return;
      }
      case 'log-verbose-level':
        this.#logVerboseLevel = command.level;
        return;
      case 'give-up':
        // Whatever becomes of it, the thread is ended next.
        void this.#end().finally(() => this.close());
        return;
    }
  }

  #nextCallId(): number {
    this.#lastCallId += 1;
    return this.#lastCallId;
  }
}

function largeBuffers(reply: ServingReply): ArrayBuffer[] {
  if (reply.type !== 'executed-merged' && reply.type !== 'executed-requests') return [];
  const buffers = [reply.buffer];
  if (reply.recycled !== undefined) buffers.push(reply.recycled);
  return buffers.filter((buffer) => buffer.byteLength >= largeBytesMin);
}

function toResponse(
  result: InferResult,
): ExecutionResponse & { readonly modelName: string; readonly modelVersion: string } {
  return {
    modelName: result.modelName,
    modelVersion: result.modelVersion,
    outputs: unpackTensors(result.response?.outputs ?? [], result.buffer),
    parameters: new Map(result.response?.parameters),
  };
}
