import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { invalidArg } from '../../errors.js';
import type { InstanceDescription } from '../../execution/messages.js';
import type { ModelConfig } from '../../model-config/model-config.js';
import type { Backend, InstanceHostApi, ModelInstance } from '../backend.js';
import { frameKind } from './frames.js';
import { findHostFile } from './host-file.js';
import { findInterpreter } from './interpreter.js';
import { PythonInstance } from './python-instance.js';
import { PythonProcess } from './python-process.js';
import { ServerCalls } from './server-calls.js';

const startTimeoutSecondsDefault = 30;
/** Models may fetch or convert weights; one that takes longer can be given more. */
const initializeTimeoutSecondsDefault = 600;

/**
 * glibc gives freed memory back at once and takes it anew, a page fault every 4 kB: add_sub of
 * 600 kB each way took Python 560 µs of processor time, and takes 290 µs with these. Other C
 * libraries do not know them.
 */
const keptMemoryVariables = {
  MALLOC_MMAP_THRESHOLD_: String(32 * 1024 * 1024),
  MALLOC_TRIM_THRESHOLD_: String(128 * 1024 * 1024),
};

/** What hosts the model in Python. */
type HostKind = 'python' | 'pytorch' | 'tensorflow' | 'tensorrt';

const defaultFilenames: Readonly<Record<HostKind, string>> = {
  python: 'model.py',
  pytorch: 'model.pt',
  tensorflow: 'model.savedmodel',
  tensorrt: 'model.plan',
};

/**
 * Models that run in a Python process of their own: `model.py` with a class TritonPythonModel, and
 * model files of PyTorch, TensorFlow and TensorRT where the interpreter has these. Settings of
 * --backend-config: `interpreter`, `stub-timeout-seconds` (until the interpreter is up) and
 * `initialize-timeout-seconds` (until the model is).
 */
export const pythonBackend: Backend = {
  async autoComplete(instance, config) {
    const kind = hostKindOf(config);
    if (kind !== 'python' || !(await mayComplete(instance, config))) return undefined;
    const process = await startProcess(instance, config, kind, () => {});
    try {
      await loadModelFile(process, instance, config, kind);
      const completed = await withTimeLimit(
        process.askJson(frameKind.autoComplete, config),
        initializeTimeoutMs(instance),
        'auto_complete_config',
      );
      if (completed === null) return undefined;
      const { parseModelConfigJson } = await import('../../model-config/read-model-config.js');
      return parseModelConfigJson(JSON.stringify(completed));
    } finally {
      await process.kill();
    }
  },

  async load(instance, config, host) {
    const kind = hostKindOf(config);
    const process = await startProcess(instance, config, kind, (line) =>
      host.log('info', `${instance.instanceName}: ${line}`),
    );
    host.onGivenUp(() => process.kill());
    try {
      return await initialize(process, kind, instance, config, host);
    } catch (error) {
      await process.kill();
      throw error;
    }
  },
};

async function initialize(
  process: PythonProcess,
  kind: HostKind,
  instance: InstanceDescription,
  config: ModelConfig,
  host: InstanceHostApi,
): Promise<ModelInstance> {
  const calls = new ServerCalls(instance, host, process);
  process.onFrame = (frame, id, payload) => calls.receive(frame, id, payload);
  await loadModelFile(process, instance, config, kind);
  const answer = await withTimeLimit(
    process.askJson(frameKind.initialize, {
      args: initializeArguments(instance, config),
      defaultIntraOpThreads: instance.defaultIntraOpThreads,
    }),
    initializeTimeoutMs(instance),
    'initialize',
  );
  const isDecoupled = config.model_transaction_policy?.decoupled === true;
  const model = new PythonInstance(process, calls, isDecoupled, hasReadiness(answer));
  process.onFrame = (frame, id, payload) => {
    if (!calls.receive(frame, id, payload)) model.receive(frame, id, payload);
  };
  process.onDeath = ({ code, message }) => {
    calls.cancelAll();
    model.failStreams({ code, message });
    host.broken({ code, message });
  };
  calls.isInitializing = false;
  process.beginServing();
  return model;
}

function hostKindOf(config: ModelConfig): HostKind {
  const { backend, platform } = config;
  for (const kind of ['python', 'pytorch', 'tensorflow', 'tensorrt'] as const) {
    if (backend === kind || (backend === '' && platform.startsWith(kind))) return kind;
  }
  throw invalidArg(`model '${config.name}': no Python host for backend '${backend}'`);
}

async function startProcess(
  instance: InstanceDescription,
  config: ModelConfig,
  kind: HostKind,
  onOutputLine: (line: string) => void,
): Promise<PythonProcess> {
  return PythonProcess.start({
    interpreter: await findInterpreter(instance, config),
    instanceName: instance.instanceName,
    interpreterHint: `--backend-config=${kind},interpreter=PATH or parameter EXECUTION_ENV_PATH`,
    defaultVariables: {
      // Libraries below numpy and torch would else take a thread a core for every instance.
      OMP_NUM_THREADS: String(instance.defaultIntraOpThreads),
      ...keptMemoryVariables,
    },
    hostFile: findHostFile(),
    startTimeoutMs: secondsSettingMs(instance, 'stub-timeout-seconds', startTimeoutSecondsDefault),
    onOutputLine,
  });
}

async function loadModelFile(
  process: PythonProcess,
  instance: InstanceDescription,
  config: ModelConfig,
  kind: HostKind,
): Promise<void> {
  const question = process.askJson(frameKind.load, {
    kind,
    modelDirectory: instance.modelDirectory,
    versionDirectory: instance.versionDirectory,
    modelVersion: instance.modelVersion,
    filename: filenameOf(config, kind),
    platform: config.platform,
  });
  await withTimeLimit(question, initializeTimeoutMs(instance), 'importing the model');
}

/** What `initialize` gets: every value is text, as models expect. */
function initializeArguments(
  instance: InstanceDescription,
  config: ModelConfig,
): Readonly<Record<string, string>> {
  return {
    model_config: JSON.stringify(config),
    model_instance_name: instance.instanceName,
    model_instance_kind: instance.instanceKind.replace(/^KIND_/, ''),
    model_instance_device_id: String(instance.deviceId),
    model_repository: instance.modelDirectory,
    model_version: instance.modelVersion,
    model_name: instance.modelName,
  };
}

function filenameOf(config: ModelConfig, kind: HostKind): string {
  if (config.default_model_filename !== '') return config.default_model_filename;
  return config.platform === 'tensorflow_graphdef' ? 'model.graphdef' : defaultFilenames[kind];
}

/**
 * False where the model's class plainly has no auto_complete_config: starting an interpreter and
 * importing a model's libraries only to learn that takes seconds.
 */
async function mayComplete(instance: InstanceDescription, config: ModelConfig): Promise<boolean> {
  const file = path.join(instance.versionDirectory, filenameOf(config, 'python'));
  const text = await readFile(file, 'utf8').catch(() => '');
  const hasPlainClass = /^class TritonPythonModel\s*(\(\s*(object)?\s*\))?\s*:/m.test(text);
  return !hasPlainClass || text.includes('auto_complete_config');
}

function hasReadiness(answer: unknown): boolean {
  return (
    typeof answer === 'object' &&
    answer !== null &&
    'hasReadiness' in answer &&
    answer.hasReadiness === true
  );
}

function initializeTimeoutMs(instance: InstanceDescription): number {
  return secondsSettingMs(instance, 'initialize-timeout-seconds', initializeTimeoutSecondsDefault);
}

/** Milliseconds of a setting in seconds. INVALID_ARG where it is no positive number. */
function secondsSettingMs(instance: InstanceDescription, name: string, fallback: number): number {
  const text = instance.backendConfig[name];
  if (text === undefined || text === '') return fallback * 1000;
  const seconds = Number(text);
  if (!(seconds > 0)) {
    throw invalidArg(
      `--backend-config ${name} must be a positive number of seconds, got '${text}'`,
    );
  }
  return seconds * 1000;
}

async function withTimeLimit<T>(promise: Promise<T>, limitMs: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(invalidArg(`${what} did not end within ${limitMs / 1000} s`)),
      limitMs,
    );
  });
  try {
    return await Promise.race([promise, limit]);
  } finally {
    clearTimeout(timer);
  }
}
