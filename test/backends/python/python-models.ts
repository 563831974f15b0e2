import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type {
  ExecutionRequest,
  ExecutionResponse,
  InstanceHostApi,
  ModelCall,
  RequestsModelInstance,
} from '../../../src/backends/backend.js';
import { pythonBackend } from '../../../src/backends/python/python-backend.js';
import { notFound } from '../../../src/errors.js';
import type {
  ErrorMessage,
  InstanceDescription,
  MetricUpdate,
} from '../../../src/execution/messages.js';
import { noParameters } from '../../../src/inference/infer-request.js';
import type { Tensor } from '../../../src/inference/tensor.js';
import { completeModelConfig } from '../../../src/model-config/complete-model-config.js';
import type { ModelConfig } from '../../../src/model-config/model-config.js';
import { parseModelConfigText } from '../../../src/model-config/read-model-config.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** An interpreter with numpy: NEREID_TEST_PYTHON, else the repository's own `.venv`. */
export function testInterpreter(): string {
  const named = process.env['NEREID_TEST_PYTHON'];
  const own = path.join(root, '.venv', 'bin', 'python');
  if (named !== undefined) return named;
  if (!existsSync(own)) {
    throw new Error(
      'no Python with numpy: set NEREID_TEST_PYTHON, or make .venv as test/run.mjs does',
    );
  }
  return own;
}

export const modelHeader = `
import numpy as np
import triton_python_backend_utils as pb_utils
`;

/** The server around an instance, with what it was told. */
export class FakeHost implements InstanceHostApi {
  readonly logs: string[] = [];
  readonly metrics: MetricUpdate[] = [];
  readonly calls: ModelCall[] = [];
  readonly controls: string[] = [];
  readonly breaks: ErrorMessage[] = [];
  onInfer: InstanceHostApi['infer'] = async (call) => {
    throw notFound(`Request for unknown model: '${call.modelName}' is not found`);
  };

  log(level: string, message: string): void {
    this.logs.push(`${level} ${message}`);
  }

  updateMetric(update: MetricUpdate): void {
    this.metrics.push(update);
  }

  infer(...call: Parameters<InstanceHostApi['infer']>): Promise<void> {
    this.calls.push(call[0]);
    return this.onInfer(...call);
  }

  async loadModel(...command: Parameters<InstanceHostApi['loadModel']>): Promise<void> {
    const [name, config, files] = command;
    const contents = files.map(([file, bytes]) => `${file}=${Buffer.from(bytes).toString()}`);
    this.controls.push(`load ${name} ${config} ${contents.join(' ')}`);
    if (name === 'missing') throw notFound(`failed to load 'missing', no such model`);
  }

  async unloadModel(name: string): Promise<void> {
    this.controls.push(`unload ${name}`);
  }

  async isModelReady(name: string, version: string): Promise<boolean> {
    this.controls.push(`is-ready ${name} ${version}`);
    return name === 'ready';
  }

  logVerboseLevel(): number {
    return 0;
  }

  broken(error: ErrorMessage): void {
    this.breaks.push(error);
  }

  onGivenUp(): void {}
}

export interface StreamRecord {
  readonly responses: ExecutionResponse[];
  readonly errors: ErrorMessage[];
  endCount: number;
}

/** A request, with what was streamed as its answer. */
export interface TestRequest extends ExecutionRequest {
  readonly stream: StreamRecord;
  readonly ended: Promise<void>;
  cancel(): void;
}

export function testRequest(
  inputs: readonly Tensor[],
  overrides: Partial<ExecutionRequest> = {},
): TestRequest {
  const stream: StreamRecord = { responses: [], errors: [], endCount: 0 };
  const controller = new AbortController();
  let onEnd: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    onEnd = resolve;
  });
  return {
    id: '',
    head: {},
    parameters: noParameters,
    timeoutUs: 0,
    priority: 0,
    requestedOutputs: [],
    correlationId: 0n,
    isSequenceStart: false,
    isSequenceEnd: false,
    signal: controller.signal,
    async send(response) {
      // As in the thread: the frame's memory is not kept.
      const outputs = response.outputs.map((output) => ({
        ...output,
        bytes: Uint8Array.from(output.bytes),
      }));
      stream.responses.push({ ...response, outputs });
    },
    sendError(error) {
      stream.errors.push(error);
    },
    end() {
      stream.endCount += 1;
      onEnd();
    },
    ...overrides,
    inputs,
    stream,
    ended,
    cancel: () => controller.abort(),
  };
}

export function floats(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  return { name, datatype: 'FP32', shape, encoding: 'raw', bytes };
}

export function ints(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  const bytes = new Uint8Array(Int32Array.from(values).buffer);
  return { name, datatype: 'INT32', shape, encoding: 'raw', bytes };
}

export function asFloats(tensor: Tensor | undefined): number[] {
  return [...new Float32Array(Uint8Array.from(tensor?.bytes ?? []).buffer)];
}

export function asInts(tensor: Tensor | undefined): number[] {
  return [...new Int32Array(Uint8Array.from(tensor?.bytes ?? []).buffer)];
}

/** The elements of a BYTES tensor as text. */
export function asTexts(tensor: Tensor | undefined): string[] {
  const bytes = Buffer.from(tensor?.bytes ?? []);
  const texts: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 4 + bytes.readUInt32LE(at);
    texts.push(bytes.toString('utf8', at + 4, end));
    at = end;
  }
  return texts;
}

export interface LoadedModel {
  readonly instance: RequestsModelInstance;
  readonly host: FakeHost;
  readonly config: ModelConfig;
  /** Executes one request; its response, or its error as a rejection. */
  infer(request: TestRequest): Promise<ExecutionResponse>;
}

/** Models in temporary folders, and their processes. */
export class PythonModels {
  readonly #instances: RequestsModelInstance[] = [];
  readonly #folders: string[] = [];

  /** Writes a model called `name`; the result is its folder. */
  async write(
    name: string,
    configText: string,
    files: Readonly<Record<string, string | Uint8Array>>,
  ): Promise<string> {
    const parent = await mkdtemp(path.join(tmpdir(), 'nereid-python-'));
    this.#folders.push(parent);
    const folder = path.join(parent, name);
    await mkdir(path.join(folder, '1'), { recursive: true });
    await writeFile(path.join(folder, 'config.pbtxt'), configText);
    for (const [file, content] of Object.entries(files)) {
      await mkdir(path.dirname(path.join(folder, file)), { recursive: true });
      await writeFile(path.join(folder, file), content);
    }
    return folder;
  }

  /** {@link write} of a `model.py` behind the usual imports, then {@link load}. */
  async loadSource(
    configText: string,
    source: string,
    changes: Partial<InstanceDescription> = {},
  ): Promise<LoadedModel> {
    const folder = await this.write('m', configText, { '1/model.py': modelHeader + source });
    return this.load(folder, configText, changes);
  }

  async load(
    folder: string,
    configText: string,
    changes: Partial<InstanceDescription> = {},
  ): Promise<LoadedModel> {
    const host = new FakeHost();
    const { description, config } = await this.describe(folder, configText, changes);
    const completed = (await pythonBackend.autoComplete(description, config)) ?? config;
    const instance = await pythonBackend.load(description, completed, host);
    if (instance.batchForm !== 'requests') throw new Error('not a model of requests');
    this.#instances.push(instance);
    return {
      instance,
      host,
      config: completed,
      async infer(request) {
        const [result] = await instance.execute([request]);
        if (result?.type === 'response') return result.response;
        const text = result?.type === 'error' ? result.error : { code: '', message: 'streamed' };
        throw Object.assign(new Error(text.message), { code: text.code });
      },
    };
  }

  async describe(folder: string, configText: string, changes: Partial<InstanceDescription> = {}) {
    const modelName = path.basename(folder);
    const version = changes.modelVersion ?? '1';
    const description: InstanceDescription = {
      modelName,
      modelVersion: version,
      modelDirectory: folder,
      versionDirectory: path.join(folder, version),
      instanceName: `${modelName}_0_0`,
      instanceKind: 'KIND_CPU',
      deviceId: 0,
      defaultIntraOpThreads: 1,
      logVerboseLevel: 0,
      ...changes,
      backendConfig: { interpreter: testInterpreter(), ...changes.backendConfig },
    };
    const versionFiles = await readdir(description.versionDirectory);
    const parsed = parseModelConfigText(configText, 'config.pbtxt');
    return {
      description,
      config: completeModelConfig(parsed, { modelName, versionFiles }),
    };
  }

  async close(): Promise<void> {
    await Promise.all(this.#instances.splice(0).map((instance) => instance.unload()));
    for (const folder of this.#folders.splice(0)) await rm(folder, { recursive: true });
  }
}

/** A configuration with inputs and outputs such as `A FP32 -1`. */
export function configText(
  inputs: readonly string[],
  outputs: readonly string[],
  rest = '',
): string {
  const list = (kind: string, tensors: readonly string[]) =>
    tensors.map((tensor) => {
      const [name, datatype, ...dims] = tensor.split(' ');
      return `${kind} { name: "${name}" data_type: TYPE_${datatype} dims: [ ${dims.join(', ')} ] }`;
    });
  return [
    'backend: "python"',
    ...list('input', inputs),
    ...list('output', outputs),
    'instance_group { kind: KIND_CPU count: 1 }',
    rest,
  ].join('\n');
}
