import type { ModelConfig, ModelInput, ModelOutput } from '../../src/model-config/model-config.js';

/** A complete configuration with nothing in it; `fields` replace what a test cares for. */
export function modelConfig(fields: Partial<ModelConfig>): ModelConfig {
  return {
    name: 'm',
    platform: '',
    backend: 'javascript',
    runtime: '',
    max_batch_size: 0,
    input: [],
    output: [],
    batch_input: [],
    batch_output: [],
    instance_group: [],
    default_model_filename: '',
    cc_model_filenames: {},
    metric_tags: {},
    parameters: {},
    model_warmup: [],
    ...fields,
  };
}

export function modelInput(
  name: string,
  dataType: string,
  dims: number[],
  fields: Partial<ModelInput> = {},
): ModelInput {
  return {
    name,
    data_type: dataType,
    format: 'FORMAT_NONE',
    dims,
    is_shape_tensor: false,
    allow_ragged_batch: false,
    optional: false,
    is_non_linear_format_io: false,
    ...fields,
  };
}

export function modelOutput(
  name: string,
  dataType: string,
  dims: number[],
  fields: Partial<ModelOutput> = {},
): ModelOutput {
  return {
    name,
    data_type: dataType,
    dims,
    label_filename: '',
    is_shape_tensor: false,
    is_non_linear_format_io: false,
    ...fields,
  };
}
