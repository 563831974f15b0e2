import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { invalidArg, isErrorCode, notFound } from '../../errors.js';
import { thrownText } from '../../execution/error-transfer.js';
import type { InstanceDescription } from '../../execution/messages.js';
import type { ModelConfig } from '../../model-config/model-config.js';
import type { Backend, InstanceHostApi, ModelInstance } from '../backend.js';
import { BatchFunctionInstance } from './batch-function-instance.js';
import { JavaScriptInstance } from './javascript-instance.js';
import { isRecord, typeName } from './javascript-tensors.js';
import type { BatchFunction, JavaScriptModel, JavaScriptModelClass } from './model-contract.js';
import { createModelHost } from './model-host.js';

const defaultFilenames = ['model.js', 'model.mjs'];

/** A model file's default export, told apart. */
type ModelExport =
  | { readonly kind: 'class'; readonly model: JavaScriptModelClass }
  | { readonly kind: 'object'; readonly model: JavaScriptModel }
  | { readonly kind: 'function'; readonly compute: BatchFunction };

/** Models written in JavaScript, run in the instance's own thread. */
export const javascriptBackend: Backend = {
  async autoComplete(instance, config) {
    const exported = await importModel(instance, config);
    const complete =
      exported.kind === 'function' ? undefined : completerOf(exported.model, instance);
    if (complete === undefined) return undefined;
    const draft = structuredClone(config);
    return (await complete(draft)) ?? draft;
  },

  async load(instance, config, host) {
    const exported = await importModel(instance, config);
    if (exported.kind === 'function') {
      return new BatchFunctionInstance(exported.compute, config, instance.instanceName);
    }
    return loadModel(exported, instance, config, host);
  },
};

async function loadModel(
  exported: Exclude<ModelExport, { readonly kind: 'function' }>,
  instance: InstanceDescription,
  config: ModelConfig,
  host: InstanceHostApi,
): Promise<ModelInstance> {
  const { modelName } = instance;
  const model = await inModel(modelName, 'construct', () =>
    exported.kind === 'class' ? new exported.model() : exported.model,
  );
  if (typeof model.execute !== 'function') {
    throw invalidArg(`model '${modelName}': its default export has no 'execute'`);
  }
  await inModel(modelName, 'initialize', () =>
    model.initialize?.({
      modelName,
      modelVersion: instance.modelVersion,
      modelConfig: config,
      modelRepository: instance.modelDirectory,
      modelInstanceName: instance.instanceName,
      modelInstanceKind: instance.instanceKind,
      modelInstanceDeviceId: instance.deviceId,
      host: createModelHost(host),
    }),
  );
  return new JavaScriptInstance(model, config, instance.instanceName);
}

async function importModel(
  instance: InstanceDescription,
  config: ModelConfig,
): Promise<ModelExport> {
  const { modelName } = instance;
  const names =
    config.default_model_filename === '' ? defaultFilenames : [config.default_model_filename];
  const path = names
    .map((name) => join(instance.versionDirectory, name))
    .find((candidate) => existsSync(candidate));
  if (path === undefined) {
    throw notFound(`unable to find '${names.join("' or '")}' for model '${modelName}'`);
  }
  const module: unknown = await inModel(
    modelName,
    'import',
    () => import(pathToFileURL(path).href),
  );
  const exported = isRecord(module) ? module['default'] : undefined;
  // An ES module that a compiler turned into CommonJS has its default export one level down.
  const isCompiled = isRecord(exported) && exported['__esModule'] === true;
  return toModelExport(isCompiled ? exported['default'] : exported, modelName);
}

function toModelExport(exported: unknown, modelName: string): ModelExport {
  // What an author exports can only be told by its form; calls to it are checked where they are made.
  if (typeof exported === 'function') {
    return isClass(exported)
      ? { kind: 'class', model: exported as JavaScriptModelClass }
      : { kind: 'function', compute: exported as BatchFunction };
  }
  if (isRecord(exported)) return { kind: 'object', model: exported as unknown as JavaScriptModel };
  throw invalidArg(
    `model '${modelName}': its default export is ${typeName(exported)}, ` +
      'expected a class, an object with execute, or a function',
  );
}

/** `class` syntax, or a function whose prototype was given an `execute`. */
function isClass(exported: { readonly prototype?: unknown }): boolean {
  const { prototype } = exported;
  if (isRecord(prototype) && typeof prototype['execute'] === 'function') return true;
  return /^class\b/.test(Function.prototype.toString.call(exported));
}

function completerOf(
  model: object,
  instance: InstanceDescription,
): ((config: ModelConfig) => Promise<ModelConfig | undefined>) | undefined {
  if (!('autoCompleteConfig' in model) || typeof model.autoCompleteConfig !== 'function') {
    return undefined;
  }
  const complete = model.autoCompleteConfig.bind(model);
  return (config) =>
    inModel(instance.modelName, 'autoCompleteConfig', async () => {
      const completed: unknown = await complete(config);
      if (completed === undefined) return undefined;
      if (!isRecord(completed)) throw new Error(`it returned ${typeName(completed)}`);
      // What it holds is checked as every completed configuration is.
      return completed as unknown as ModelConfig;
    });
}

/** Runs code of the model; what it throws becomes a load error that names the step. */
async function inModel<Result>(
  modelName: string,
  step: string,
  run: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : thrownText(error);
    if (isRecord(error) && isErrorCode(error['code'])) throw error;
    throw invalidArg(`model '${modelName}': ${step} failed: ${text}`, error);
  }
}
