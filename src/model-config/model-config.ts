/**
 * The model configuration as the wire has it: `inference.ModelConfig` of model_config.proto in its
 * JSON form with proto field names, every scalar present at its default, 64-bit integers as numbers.
 * It is what `GET /v2/models/M/config` prints, what model authors get as `model_config`, and what
 * crosses to worker threads. Components do not read it: they get options made from it.
 */
export interface ModelConfig {
  name: string;
  platform: string;
  backend: string;
  runtime: string;
  version_policy?: VersionPolicy;
  max_batch_size: number;
  input: ModelInput[];
  output: ModelOutput[];
  batch_input: BatchInput[];
  batch_output: BatchOutput[];
  optimization?: ModelOptimizationPolicy;
  dynamic_batching?: ModelDynamicBatching;
  sequence_batching?: ModelSequenceBatching;
  ensemble_scheduling?: ModelEnsembling;
  instance_group: ModelInstanceGroup[];
  default_model_filename: string;
  cc_model_filenames: Record<string, string>;
  metric_tags: Record<string, string>;
  parameters: Record<string, { string_value: string }>;
  model_warmup: ModelWarmup[];
  model_operations?: { op_library_filename: string[] };
  model_transaction_policy?: { decoupled: boolean };
  model_repository_agents?: {
    agents: { name: string; parameters: Record<string, string> }[];
  };
  response_cache?: { enable: boolean };
  model_metrics?: { metric_control: MetricControl[] };
}

/** `ModelVersionPolicy` of model_config.proto. */
export interface VersionPolicy {
  latest?: { num_versions: number };
  all?: Record<string, never>;
  specific?: { versions: number[] };
}

/** `ModelTensorReshape` of model_config.proto. */
export interface ModelTensorReshape {
  shape: number[];
}

/** `ModelInput` of model_config.proto. */
export interface ModelInput {
  name: string;
  data_type: string;
  format: string;
  dims: number[];
  reshape?: ModelTensorReshape;
  is_shape_tensor: boolean;
  allow_ragged_batch: boolean;
  optional: boolean;
  is_non_linear_format_io: boolean;
}

/** `ModelOutput` of model_config.proto. */
export interface ModelOutput {
  name: string;
  data_type: string;
  dims: number[];
  reshape?: ModelTensorReshape;
  label_filename: string;
  is_shape_tensor: boolean;
  is_non_linear_format_io: boolean;
}

/** `BatchInput` of model_config.proto. */
export interface BatchInput {
  kind: string;
  target_name: string[];
  data_type: string;
  source_input: string[];
}

/** `BatchOutput` of model_config.proto. */
export interface BatchOutput {
  target_name: string[];
  kind: string;
  source_input: string[];
}

/** `ModelOptimizationPolicy.ExecutionAccelerators.Accelerator` of model_config.proto. */
export interface ExecutionAccelerator {
  name: string;
  parameters: Record<string, string>;
}

/** `ModelOptimizationPolicy` of model_config.proto. */
export interface ModelOptimizationPolicy {
  graph?: { level: number };
  priority: string;
  cuda?: Record<string, unknown>;
  execution_accelerators?: {
    gpu_execution_accelerator: ExecutionAccelerator[];
    cpu_execution_accelerator: ExecutionAccelerator[];
  };
  input_pinned_memory?: { enable: boolean };
  output_pinned_memory?: { enable: boolean };
  gather_kernel_buffer_threshold: number;
  eager_batching: boolean;
}

/** `ModelQueuePolicy` of model_config.proto. */
export interface ModelQueuePolicy {
  /** REJECT or DELAY. */
  timeout_action: string;
  default_timeout_microseconds: number;
  allow_timeout_override: boolean;
  max_queue_size: number;
}

/** `ModelDynamicBatching` of model_config.proto. */
export interface ModelDynamicBatching {
  preferred_batch_size: number[];
  max_queue_delay_microseconds: number;
  preserve_ordering: boolean;
  priority_levels: number;
  default_priority_level: number;
  default_queue_policy?: ModelQueuePolicy;
  priority_queue_policy: Record<string, ModelQueuePolicy>;
}

/** `ModelSequenceBatching.Control` of model_config.proto. */
export interface SequenceControl {
  kind: string;
  int32_false_true: number[];
  fp32_false_true: number[];
  bool_false_true: boolean[];
  data_type: string;
}

/** `ModelSequenceBatching.InitialState` of model_config.proto. */
export interface SequenceInitialState {
  data_type: string;
  dims: number[];
  zero_data?: boolean;
  data_file?: string;
  name: string;
}

/** `ModelSequenceBatching.State` of model_config.proto. */
export interface SequenceState {
  input_name: string;
  output_name: string;
  data_type: string;
  dims: number[];
  initial_state: SequenceInitialState[];
  use_same_buffer_for_input_output: boolean;
  use_growable_memory: boolean;
}

/** `ModelSequenceBatching` of model_config.proto. */
export interface ModelSequenceBatching {
  direct?: {
    max_queue_delay_microseconds: number;
    minimum_slot_utilization: number;
  };
  oldest?: {
    max_candidate_sequences: number;
    preferred_batch_size: number[];
    max_queue_delay_microseconds: number;
    preserve_ordering: boolean;
  };
  max_sequence_idle_microseconds: number;
  control_input: { name: string; control: SequenceControl[] }[];
  state: SequenceState[];
  iterative_sequence: boolean;
}

/** `ModelEnsembling.Step` of model_config.proto. */
export interface EnsembleStep {
  model_name: string;
  /** -1 is the latest version. */
  model_version: number;
  /** Step's input name → ensemble tensor. */
  input_map: Record<string, string>;
  /** Step's output name → ensemble tensor. */
  output_map: Record<string, string>;
  model_namespace: string;
}

/** `ModelEnsembling` of model_config.proto. */
export interface ModelEnsembling {
  step: EnsembleStep[];
  /** Bound of concurrent requests of each step; absent in older configurations. */
  max_inflight_requests?: number;
}

/** `ModelInstanceGroup` of model_config.proto. */
export interface ModelInstanceGroup {
  name: string;
  kind: string;
  count: number;
  rate_limiter?: {
    resources: { name: string; global: boolean; count: number }[];
    priority: number;
  };
  gpus: number[];
  secondary_devices: { kind: string; device_id: number }[];
  profile: string[];
  passive: boolean;
  host_policy: string;
}

/** `ModelWarmup.Input` of model_config.proto. */
export interface ModelWarmupInput {
  data_type: string;
  dims: number[];
  zero_data?: boolean;
  random_data?: boolean;
  input_data_file?: string;
}

/** `ModelWarmup` of model_config.proto. */
export interface ModelWarmup {
  name: string;
  batch_size: number;
  inputs: Record<string, ModelWarmupInput>;
  count: number;
}

/** `ModelMetrics.MetricControl` of model_config.proto. */
export interface MetricControl {
  metric_identifier?: { family: string };
  histogram_options?: { buckets: number[] };
}
