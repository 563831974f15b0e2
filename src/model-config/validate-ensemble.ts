import { invalidArg } from '../errors.js';
import { ensemblePlatform } from './backend-table.js';
import type { ModelConfig, ModelEnsembling } from './model-config.js';

/** An ensemble's tensor: what it is made from and what is made from it. */
interface EnsembleTensor {
  readonly name: string;
  readonly sources: EnsembleTensor[];
  readonly targets: EnsembleTensor[];
  isWritten: boolean;
  isReady: boolean;
}

/**
 * Checks an ensemble on its own, without the models of its steps: that the steps are complete, and
 * that data flows from its inputs through every tensor to its outputs (so cycles are refused). Part
 * of `validateModelConfigBeforeLoad`, with the reference server's texts.
 */
export function validateEnsemble(ensembling: ModelEnsembling, config: ModelConfig): void {
  const { name } = config;
  if (config.platform !== ensemblePlatform) {
    throw invalidArg(
      `ensemble scheduling cannot be set for model '${name}' whose platform is not ` +
        ensemblePlatform,
    );
  }
  if (config.instance_group.length > 0) {
    throw invalidArg(`instance group should not be specified for ensemble '${name}'`);
  }
  if (config.optimization !== undefined) {
    throw invalidArg(`optimization should not be specified for ensemble '${name}'`);
  }
  if (config.model_warmup.length > 0) {
    throw invalidArg(`model_warmup can not be specified for ensemble '${name}'`);
  }
  if (ensembling.step.length === 0) {
    throw invalidArg(`must specify 'step' for ensemble '${name}'`);
  }
  const tensors = linkTensors(ensembling, name);
  markReadyTensors(config, tensors);
  validateOutputs(config, tensors);
  validateNoneUnused(config, tensors);
}

function linkTensors(ensembling: ModelEnsembling, name: string): Map<string, EnsembleTensor> {
  const tensors = new Map<string, EnsembleTensor>();
  for (const [index, step] of ensembling.step.entries()) {
    const inputs = Object.values(step.input_map);
    const outputs = Object.values(step.output_map);
    const required = [
      { field: 'model_name', isMissing: step.model_name === '' },
      { field: 'input_map', isMissing: inputs.length === 0 },
      { field: 'output_map', isMissing: outputs.length === 0 },
    ];
    for (const { field, isMissing } of required) {
      if (isMissing) {
        throw invalidArg(`must specify '${field}' in step ${index} of ensemble '${name}'`);
      }
    }
    const written = outputs.map((tensorName) => tensorOf(tensors, tensorName));
    for (const tensor of written) {
      if (tensor.isWritten) {
        throw invalidArg(
          `ensemble tensor '${tensor.name}' can appear in an output map only once for ensemble ` +
            `'${name}' step ${index}`,
        );
      }
      tensor.isWritten = true;
    }
    for (const tensorName of inputs) {
      const source = tensorOf(tensors, tensorName);
      for (const target of written) {
        target.sources.push(source);
        source.targets.push(target);
      }
    }
  }
  return tensors;
}

function tensorOf(tensors: Map<string, EnsembleTensor>, name: string): EnsembleTensor {
  const known = tensors.get(name);
  if (known !== undefined) return known;
  const tensor = { name, sources: [], targets: [], isWritten: false, isReady: false };
  tensors.set(name, tensor);
  return tensor;
}

/** A tensor is ready when the request brings it or all that its step needs is ready. */
function markReadyTensors(config: ModelConfig, tensors: Map<string, EnsembleTensor>): void {
  const ready: EnsembleTensor[] = [];
  for (const input of config.input) {
    const tensor = tensors.get(input.name);
    if (tensor === undefined) {
      throw invalidArg(`ensemble input '${input.name}' for ensemble ${config.name}' is not used`);
    }
    tensor.isReady = true;
    ready.push(tensor);
  }
  for (const tensor of ready) {
    for (const target of tensor.targets) {
      if (target.isReady || !target.sources.every((source) => source.isReady)) continue;
      target.isReady = true;
      // The loop sees what is appended while it runs; each tensor is appended once.
      ready.push(target);
    }
  }
}

function validateOutputs(config: ModelConfig, tensors: Map<string, EnsembleTensor>): void {
  for (const output of config.output) {
    const tensor = tensors.get(output.name);
    if (tensor === undefined) {
      throw invalidArg(`ensemble output '${output.name}' for ensemble ${config.name}' is not used`);
    }
    if (tensor.isReady) continue;
    const cause = notReadySource(tensor);
    const detail =
      cause === tensor
        ? ''
        : `: at least one of its depending tensors, '${cause.name}', is not connected`;
    throw invalidArg(
      `output '${output.name}' for ensemble '${config.name}' is not written${detail}`,
    );
  }
}

/** Follows sources that are not ready as far as they go; a cycle ends where it closes. */
function notReadySource(tensor: EnsembleTensor): EnsembleTensor {
  const seen = new Set<EnsembleTensor>();
  let current = tensor;
  for (;;) {
    const next = current.sources.find((source) => !source.isReady && !seen.has(source));
    if (next === undefined) return current;
    seen.add(next);
    current = next;
  }
}

function validateNoneUnused(config: ModelConfig, tensors: Map<string, EnsembleTensor>): void {
  const outputs = new Set(config.output.map((output) => output.name));
  for (const tensor of tensors.values()) {
    if (outputs.has(tensor.name)) continue;
    if (!tensor.isReady || tensor.targets.length === 0) {
      throw invalidArg(`ensemble tensor '${tensor.name}' is unused in ensemble '${config.name}'`);
    }
  }
}
