import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { env, InferenceSession } from 'onnxruntime-node';
import { invalidArg, notFound } from '../../errors.js';
import { thrownText } from '../../execution/error-transfer.js';
import type { InstanceDescription } from '../../execution/messages.js';
import { completeFromSignature } from '../../model-config/auto-complete.js';
import type { ModelConfig } from '../../model-config/model-config.js';
import { validateAgainstSignature } from '../../model-config/validate-against-signature.js';
import type { Backend, InstanceHostApi, ModelInstance } from '../backend.js';
import { OnnxInstance } from './onnx-instance.js';
import { readSignature } from './onnx-signature.js';
import { planSession, type SessionPlan } from './session-options.js';

const defaultFilename = 'model.onnx';
const defaultMaxBatchSizeKey = 'default-max-batch-size';
/** Largest batch of a model that can batch, where nobody says. */
const defaultMaxBatchSize = 4;

interface OpenedSession {
  readonly key: string;
  readonly session: InferenceSession;
}

/**
 * ONNX models on onnxruntime-node. The session that reads the signature is kept for the instance
 * where the completed configuration asks for the same options: loading twice would double the
 * start-up of large models.
 */
class OnnxBackend implements Backend {
  #opened: OpenedSession | undefined;

  async autoComplete(instance: InstanceDescription, config: ModelConfig): Promise<ModelConfig> {
    const { session } = await this.#open(instance, config, () => {});
    const setting = Number(instance.backendConfig[defaultMaxBatchSizeKey]);
    return completeFromSignature(config, readSignature(session, config.name), {
      defaultMaxBatchSize: Number.isInteger(setting) ? setting : defaultMaxBatchSize,
    });
  }

  async load(
    instance: InstanceDescription,
    config: ModelConfig,
    host: InstanceHostApi,
  ): Promise<ModelInstance> {
    const { session } = await this.#open(instance, config, (message) =>
      host.log('warning', `model '${config.name}': ${message}`),
    );
    this.#opened = undefined;
    const signature = readSignature(session, config.name);
    validateAgainstSignature(config, signature);
    return new OnnxInstance(session, config, signature);
  }

  async #open(
    instance: InstanceDescription,
    config: ModelConfig,
    warn: (message: string) => void,
  ): Promise<OpenedSession> {
    const path = modelPath(instance, config);
    const plan = planSession(instance, config);
    for (const warning of plan.warnings) warn(warning);
    const key = JSON.stringify([path, plan.options, plan.gpuProviders]);
    if (this.#opened?.key === key) return this.#opened;
    await this.#opened?.session.release();
    this.#opened = { key, session: await openSession(path, plan, config.name, warn) };
    return this.#opened;
  }
}

export const onnxBackend: Backend = new OnnxBackend();

async function openSession(
  path: string,
  plan: SessionPlan,
  modelName: string,
  warn: (message: string) => void,
): Promise<InferenceSession> {
  // Failures are thrown; what the runtime prints beside them is for nobody.
  env.logLevel = 'fatal';
  if (plan.gpuProviders.length > 0) {
    try {
      return await InferenceSession.create(path, {
        ...plan.options,
        executionProviders: [...plan.gpuProviders, 'cpu'],
      });
    } catch (error) {
      const wanted = plan.gpuProviders.join(', ');
      const message = `execution provider ${wanted} can't be used: ${thrownText(error)}`;
      if (!plan.mayFallBack) throw invalidArg(`model '${modelName}': ${message}`, error);
      warn(`${message}; the CPU runs the model`);
    }
  }
  try {
    return await InferenceSession.create(path, { ...plan.options, executionProviders: ['cpu'] });
  } catch (error) {
    throw invalidArg(`${withoutPath(thrownText(error).trim(), path)}${fileFault(path)}`, error);
  }
}

/** What a file may have to do with it that the runtime does not tell: rights, or a broken copy. */
function fileFault(path: string): string {
  try {
    accessSync(path, constants.R_OK);
    return ` (${basename(path)} has ${statSync(path).size} bytes)`;
  } catch (error) {
    return ` (${basename(path)} cannot be read: ${thrownText(error).replace(`, access '${path}'`, '')})`;
  }
}

/** The file of the version; a folder in its place holds the model and its external weights. */
function modelPath(instance: InstanceDescription, config: ModelConfig): string {
  const filename =
    config.default_model_filename === '' ? defaultFilename : config.default_model_filename;
  const path = join(instance.versionDirectory, filename);
  if (!existsSync(path)) {
    throw notFound(`unable to find '${filename}' for model '${config.name}'`);
  }
  return statSync(path).isDirectory() ? join(path, defaultFilename) : path;
}

/** Messages reach clients, and folders of this machine are none of their business. */
function withoutPath(message: string, path: string): string {
  return message.replaceAll(path, 'model.onnx');
}
