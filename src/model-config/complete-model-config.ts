import { completeFormatNames, defaultCpuInstanceCount, ensemblePlatform } from './backend-table.js';
import { inDocumentOrder } from './config-document.js';
import type {
  ModelConfig,
  ModelDynamicBatching,
  ModelInstanceGroup,
  ModelOptimizationPolicy,
  ModelSequenceBatching,
} from './model-config.js';

const sequenceIdleDefaultUs = 1_000_000;

/** What a configuration is completed from. */
export interface CompletionInput {
  /** Name of the model's folder. */
  readonly modelName: string;
  /**
   * Names of the files and folders in the version folder whose name comes first as text; empty
   * where there is no version.
   */
  readonly versionFiles: readonly string[];
}

/**
 * The configuration with everything filled in that it leaves open and that can be known without
 * opening the model: names, backend, version policy, instance groups, batch sizes. Idempotent, and
 * called again after the backend has completed inputs, outputs and batching. `config` itself stays
 * as it is. INVALID_ARG where the backend cannot be told.
 */
export function completeModelConfig(config: ModelConfig, input: CompletionInput): ModelConfig {
  const isEnsemble = config.ensemble_scheduling !== undefined;
  const name = config.name === '' ? input.modelName : config.name;
  const names = isEnsemble
    ? ensembleNames(config)
    : completeFormatNames(
        {
          platform: config.platform,
          backend: config.backend,
          defaultModelFilename: config.default_model_filename,
        },
        input.modelName,
        input.versionFiles,
      );
  const completed: ModelConfig = {
    ...config,
    name,
    platform: names.platform,
    backend: names.backend,
    default_model_filename: names.defaultModelFilename,
    version_policy: config.version_policy ?? { latest: { num_versions: 1 } },
  };
  if (config.dynamic_batching !== undefined) {
    completed.dynamic_batching = completeDynamicBatching(
      config.dynamic_batching,
      config.max_batch_size,
    );
  }
  if (config.sequence_batching !== undefined) {
    completed.sequence_batching = completeSequenceBatching(
      config.sequence_batching,
      config.max_batch_size,
    );
  }
  if (isEnsemble || names.platform === ensemblePlatform) {
    completed.model_transaction_policy ??= { decoupled: false };
    return inDocumentOrder(completed);
  }
  completed.optimization = completeOptimization(config.optimization);
  completed.instance_group = completeInstanceGroups(config.instance_group, name, names.backend);
  return inDocumentOrder(completed);
}

function ensembleNames(config: ModelConfig) {
  return {
    platform: config.platform === '' && config.backend === '' ? ensemblePlatform : config.platform,
    backend: config.backend,
    defaultModelFilename: config.default_model_filename,
  };
}

function completeDynamicBatching(
  batching: ModelDynamicBatching,
  maxBatchSize: number,
): ModelDynamicBatching {
  return {
    ...batching,
    preferred_batch_size: preferredBatchSizes(batching.preferred_batch_size, maxBatchSize),
  };
}

function completeSequenceBatching(
  batching: ModelSequenceBatching,
  maxBatchSize: number,
): ModelSequenceBatching {
  const completed = {
    ...batching,
    max_sequence_idle_microseconds:
      batching.max_sequence_idle_microseconds === 0
        ? sequenceIdleDefaultUs
        : batching.max_sequence_idle_microseconds,
  };
  if (batching.oldest !== undefined) {
    completed.oldest = {
      ...batching.oldest,
      preferred_batch_size: preferredBatchSizes(batching.oldest.preferred_batch_size, maxBatchSize),
    };
  }
  return completed;
}

function preferredBatchSizes(given: number[], maxBatchSize: number): number[] {
  return given.length === 0 && maxBatchSize > 0 ? [maxBatchSize] : given;
}

function completeOptimization(
  optimization: ModelOptimizationPolicy | undefined,
): ModelOptimizationPolicy {
  return {
    ...(optimization?.graph && { graph: optimization.graph }),
    priority: optimization?.priority ?? 'PRIORITY_DEFAULT',
    ...(optimization?.cuda && { cuda: optimization.cuda }),
    ...(optimization?.execution_accelerators && {
      execution_accelerators: optimization.execution_accelerators,
    }),
    input_pinned_memory: optimization?.input_pinned_memory ?? { enable: true },
    output_pinned_memory: optimization?.output_pinned_memory ?? { enable: true },
    gather_kernel_buffer_threshold: optimization?.gather_kernel_buffer_threshold ?? 0,
    eager_batching: optimization?.eager_batching ?? false,
  };
}

function completeInstanceGroups(
  groups: readonly ModelInstanceGroup[],
  modelName: string,
  backend: string,
): ModelInstanceGroup[] {
  const given = groups.length === 0 ? [emptyInstanceGroup(modelName)] : groups;
  return given.map((group, index) => {
    // There is no GPU here that AUTO could choose.
    const kind = group.kind === 'KIND_AUTO' ? 'KIND_CPU' : group.kind;
    const defaultCount = kind === 'KIND_CPU' ? defaultCpuInstanceCount(backend) : 1;
    return {
      ...group,
      name: group.name === '' ? `${modelName}_${index}` : group.name,
      kind,
      count: group.count < 1 ? defaultCount : group.count,
    };
  });
}

function emptyInstanceGroup(name: string): ModelInstanceGroup {
  return {
    name,
    kind: 'KIND_AUTO',
    count: 0,
    gpus: [],
    secondary_devices: [],
    profile: [],
    passive: false,
    host_policy: '',
  };
}
