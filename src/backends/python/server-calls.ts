import { setMaxListeners } from 'node:events';
import { InferenceServerError, internal, unavailable } from '../../errors.js';
import type { InstanceDescription, LogLevel } from '../../execution/messages.js';
import type { InstanceHostApi } from '../backend.js';
import { ByteReader } from './byte-reader.js';
import { ByteWriter } from './byte-writer.js';
import { frameHeaderBytes, frameKind } from './frames.js';
import { readMetricUpdate } from './metric-update.js';
import type { PythonProcess } from './python-process.js';
import { readCall } from './request-list.js';
import { writeError, writeResponse } from './result-list.js';

/** Levels by their number in frames, in the order of server_link.py. */
const logLevels: readonly LogLevel[] = ['error', 'warning', 'info', 'verbose'];

/** What a call must know of the execution in which the model makes it. */
export interface RunningExecution {
  readonly id: number;
  /** Aborted when the client of a lone request has gone; undefined for a batch of many. */
  readonly signal: AbortSignal | undefined;
}

/** Answers what a model asks of the server: other models, control, logs, metrics. */
export class ServerCalls {
  readonly #instance: InstanceDescription;
  readonly #host: InstanceHostApi;
  readonly #process: PythonProcess;
  readonly #cancellations = new Map<number, AbortController>();
  /** The execution that holds the model's own thread; undefined while it is free. */
  running: RunningExecution | undefined;
  isInitializing = true;

  constructor(instance: InstanceDescription, host: InstanceHostApi, process: PythonProcess) {
    this.#instance = instance;
    this.#host = host;
    this.#process = process;
  }

  /** True where the frame was one of these. */
  receive(kind: number, id: number, payload: Buffer): boolean {
    switch (kind) {
      case frameKind.infer:
        void this.#infer(id, payload);
        return true;
      case frameKind.inferCancel:
        this.#cancellations.get(id)?.abort();
        return true;
      case frameKind.control:
        void this.#control(id, payload);
        return true;
      case frameKind.log:
        this.#host.log(logLevels[id] ?? 'info', payload.toString('utf8'));
        return true;
      case frameKind.metric: {
        const update = readMetricUpdate(payload);
        if (update !== undefined) this.#host.updateMetric(update);
        return true;
      }
      default:
        return false;
    }
  }

  /** The process has ended: nobody waits for answers any more. */
  cancelAll(): void {
    for (const controller of this.#cancellations.values()) controller.abort();
    this.#cancellations.clear();
  }

  async #infer(callId: number, payload: Buffer): Promise<void> {
    const controller = new AbortController();
    this.#cancellations.set(callId, controller);
    const { call, executionId } = readCall(payload);
    const running = this.running?.id === executionId ? this.running : undefined;
    const cancel = () => controller.abort();
    const clientSignal = running?.signal;
    if (clientSignal !== undefined) {
      // A model may have any number of calls under way.
      setMaxListeners(0, clientSignal);
      clientSignal.addEventListener('abort', cancel);
    }
    try {
      if (clientSignal?.aborted) cancel();
      await this.#host.infer(
        call,
        (response) => {
          const writer = new ByteWriter();
          writer.skip(frameHeaderBytes);
          writeResponse(writer, response);
          this.#process.send(frameKind.inferResponse, callId, writer);
        },
        controller.signal,
      );
      this.#answer(frameKind.inferEnd, callId, () => {});
    } catch (error) {
      this.#answer(frameKind.inferEnd, callId, (writer) => writeError(writer, errorOf(error)));
    } finally {
      clientSignal?.removeEventListener('abort', cancel);
      this.#cancellations.delete(callId);
    }
  }

  async #control(callId: number, payload: Buffer): Promise<void> {
    try {
      const isYes = await this.#perform(payload);
      this.#answer(frameKind.controlResult, callId, (writer) => writer.u8(isYes ? 1 : 0));
    } catch (error) {
      this.#answer(frameKind.controlResult, callId, (writer) => {
        writer.u8(2);
        writeError(writer, errorOf(error));
      });
    }
  }

  async #perform(payload: Buffer): Promise<boolean> {
    const reader = new ByteReader(payload);
    const command = readControlCommand(reader.text());
    const { action, modelName, modelVersion, config } = command;
    switch (action) {
      case 'is-ready':
        return this.#host.isModelReady(modelName, modelVersion);
      case 'unload':
        await this.#host.unloadModel(modelName);
        return true;
      case 'load': {
        if (this.isInitializing && modelName === this.#instance.modelName) {
          // The load would wait for this one, and this one for the load.
          throw unavailable(`model '${modelName}' loads itself before it is initialized`);
        }
        const files = command.files.map(
          ([name, byteLength]) => [name, new Uint8Array(reader.bytes(byteLength))] as const,
        );
        await this.#host.loadModel(modelName, config, files);
        return true;
      }
    }
  }

  #answer(kind: number, id: number, write: (writer: ByteWriter) => void): void {
    const writer = new ByteWriter();
    writer.skip(frameHeaderBytes);
    write(writer);
    this.#process.send(kind, id, writer);
  }
}

interface ControlCommand {
  readonly action: 'load' | 'unload' | 'is-ready';
  readonly modelName: string;
  readonly modelVersion: string;
  readonly config: string | undefined;
  readonly files: readonly (readonly [string, number])[];
}

/** The command as server_link.py writes it. */
function readControlCommand(json: string): ControlCommand {
  const document: unknown = JSON.parse(json);
  if (typeof document !== 'object' || document === null) throw internal('a command is no object');
  const fields = new Map<string, unknown>(Object.entries(document));
  const action = fields.get('action');
  if (action !== 'load' && action !== 'unload' && action !== 'is-ready') {
    throw internal(`unknown command '${String(action)}'`);
  }
  const config = fields.get('config');
  const files = fields.get('files');
  return {
    action,
    modelName: String(fields.get('modelName')),
    modelVersion: String(fields.get('modelVersion')),
    config: typeof config === 'string' ? config : undefined,
    files: Array.isArray(files)
      ? files.map((file: unknown) => {
          const [name, byteLength]: unknown[] = Array.isArray(file) ? file : [];
          return [String(name), Number(byteLength)] as const;
        })
      : [],
  };
}

function errorOf(error: unknown) {
  if (error instanceof InferenceServerError) return { code: error.code, message: error.message };
  return {
    code: 'INTERNAL',
    message: error instanceof Error ? error.message : String(error),
  } as const;
}
