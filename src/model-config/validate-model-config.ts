import { invalidArg, suggestion } from '../errors.js';
import {
  ensemblePlatform,
  isPlatformOfBackend,
  platformNames,
  servedBackends,
} from './backend-table.js';
import type { ModelConfig, ModelDynamicBatching } from './model-config.js';
import { validateBatchTensors } from './validate-batch-tensors.js';
import { validateEnsemble } from './validate-ensemble.js';
import { validateFileNames } from './validate-file-names.js';
import { validateInstanceGroups } from './validate-instance-groups.js';
import { validateSequenceBatching } from './validate-sequence-batching.js';
import { validateTensors } from './validate-tensors.js';

/**
 * Checks a configuration that the backend has completed: everything. A model that fails only here is
 * known, but UNAVAILABLE. Throws INVALID_ARG with the reference server's text.
 */
export function validateModelConfig(config: ModelConfig): void {
  validateModelConfigBeforeLoad(config, config.name);
  validateBackend(config);
  validateTensors(config);
  validateBatchTensors(config);
  validateInstanceGroups(config);
}

/** The backend must exist; checked before it is asked to complete the configuration. */
export function validateBackend(config: ModelConfig): void {
  if (config.ensemble_scheduling === undefined && !servedBackends.has(config.backend)) {
    throw invalidArg(
      `unable to find backend library for backend '${config.backend}', try specifying runtime on ` +
        `the model configuration.${suggestion(config.backend, servedBackends)}`,
    );
  }
}

/**
 * Checks a completed configuration as far as it goes without the model: a folder whose
 * configuration fails here is not a model at all, so that a load call for it cannot find it. Throws
 * INVALID_ARG with the reference server's text.
 *
 * @param directoryName name of the model's folder, which must be the model's name
 */
export function validateModelConfigBeforeLoad(config: ModelConfig, directoryName: string): void {
  const { name } = config;
  if (name !== directoryName) {
    throw invalidArg(
      `unexpected directory name '${directoryName}' for model '${name}', directory name must ` +
        'equal model name',
    );
  }
  validateBackendNames(config);
  validateFileNames(config);
  if (config.max_batch_size < 0) {
    throw invalidArg(`'max_batch_size' must be non-negative value for ${name}`);
  }
  if (config.version_policy === undefined) {
    throw invalidArg(`must specify 'version policy' for ${name}`);
  }
  if (config.dynamic_batching !== undefined) {
    validateDynamicBatching(config.dynamic_batching, config);
  }
  if (config.sequence_batching !== undefined) {
    validateSequenceBatching(config.sequence_batching, config);
  }
  if (config.ensemble_scheduling !== undefined) {
    validateEnsemble(config.ensemble_scheduling, config);
  } else if (config.platform === ensemblePlatform) {
    throw invalidArg(
      `ensemble scheduling must be set for ensemble ${name} whose platform is ${ensemblePlatform}`,
    );
  }
  if (config.model_transaction_policy?.decoupled && config.response_cache?.enable) {
    throw invalidArg(
      `Response Cache does not currently support model ${name} with 'decoupled' transaction ` +
        'policy. Please disable the response cache.',
    );
  }
  if (config.model_metrics !== undefined) validateMetrics(config.model_metrics);
}

function validateBackendNames({ name, platform, backend }: ModelConfig): void {
  if (backend === '' && platform !== ensemblePlatform) {
    throw invalidArg(
      `unexpected platform type '${platform}' for ${name}, expected one of: ${platformNames().join(', ')}`,
    );
  }
  if (backend !== '' && platform === ensemblePlatform) {
    throw invalidArg(
      `Ensemble model '${name}' must have platform type '${platform}' and empty backend type`,
    );
  }
  if (!isPlatformOfBackend(platform, backend)) {
    throw invalidArg(`unexpected 'platform' and 'backend' pair, got:${platform}, ${backend}`);
  }
}

function validateDynamicBatching(batching: ModelDynamicBatching, config: ModelConfig): void {
  const { name } = config;
  for (const size of batching.preferred_batch_size) {
    if (size <= 0) {
      throw invalidArg(`dynamic batching preferred size must be positive for ${name}`);
    }
    if (size > config.max_batch_size) {
      throw invalidArg(`dynamic batching preferred size must be <= max batch size for ${name}`);
    }
  }
  validatePriorities(batching, name);
  if (batching.preserve_ordering) validateOrdering(batching, name);
}

function validatePriorities(batching: ModelDynamicBatching, name: string): void {
  const levels = batching.priority_levels;
  if (levels === 0) return;
  if (batching.default_priority_level === 0 || batching.default_priority_level > levels) {
    throw invalidArg(`default priority level must be in range [1, ${levels}] for ${name}`);
  }
  for (const level of Object.keys(batching.priority_queue_policy)) {
    if (Number(level) === 0 || Number(level) > levels) {
      throw invalidArg(
        `priority queue policy must have priority level in range [1, ${levels}] for ${name}`,
      );
    }
  }
}

function validateOrdering(batching: ModelDynamicBatching, name: string): void {
  if (batching.priority_levels > 1) {
    throw invalidArg(
      `Only one priority level is allowed when 'preserve_ordering' is true for ${name}`,
    );
  }
  const policies = [
    batching.default_queue_policy,
    ...Object.values(batching.priority_queue_policy),
  ];
  for (const policy of policies) {
    if (policy?.timeout_action === 'DELAY' && policy.default_timeout_microseconds !== 0) {
      throw invalidArg(
        "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for " +
          name,
      );
    }
  }
}

function validateMetrics(metrics: NonNullable<ModelConfig['model_metrics']>): void {
  for (const control of metrics.metric_control) {
    if (control.metric_identifier === undefined) {
      throw invalidArg("metric control must specify 'metric_identifier'");
    }
    if (control.metric_identifier.family === '') {
      throw invalidArg("metric identifier must specify non-empty 'family'");
    }
    if (control.histogram_options === undefined) {
      throw invalidArg("metric control must specify 'histogram_options'");
    }
    const { buckets } = control.histogram_options;
    if (buckets.length === 0) {
      throw invalidArg("histogram options must specify non-empty 'buckets'");
    }
    const isAscending = buckets.every((bucket, index) => {
      const previous = buckets[index - 1];
      return Number.isFinite(bucket) && (previous === undefined || previous < bucket);
    });
    if (!isAscending) {
      throw invalidArg(
        `histogram options of '${control.metric_identifier.family}' must have finite, ascending ` +
          `'buckets', got [${buckets.join(', ')}]`,
      );
    }
  }
}
