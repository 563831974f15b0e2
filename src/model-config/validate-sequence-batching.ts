import { invalidArg } from '../errors.js';
import type { ModelConfig, ModelSequenceBatching, SequenceControl } from './model-config.js';

const booleanKinds = [
  'CONTROL_SEQUENCE_START',
  'CONTROL_SEQUENCE_END',
  'CONTROL_SEQUENCE_READY',
] as const;
const correlationIdKind = 'CONTROL_SEQUENCE_CORRID';
const correlationIdDataTypes: ReadonlySet<string> = new Set([
  'TYPE_UINT64',
  'TYPE_INT64',
  'TYPE_UINT32',
  'TYPE_INT32',
  'TYPE_STRING',
]);

/** Checks controls and strategy; part of `validateModelConfigBeforeLoad`, with the reference server's texts. */
export function validateSequenceBatching(
  batching: ModelSequenceBatching,
  config: ModelConfig,
): void {
  const { name } = config;
  if (config.response_cache?.enable) {
    throw invalidArg(
      `Response Cache does not currently support model ${name} with sequence batching scheduler. ` +
        'Please disable the response cache.',
    );
  }
  validateControlNames(batching, name);
  for (const kind of booleanKinds) {
    const control = onlyControl(batching, kind, name);
    if (control !== undefined) validateBooleanControl(control, kind, name);
  }
  const correlationId = onlyControl(batching, correlationIdKind, name);
  if (correlationId !== undefined) validateCorrelationIdControl(correlationId, name);
  validateStrategy(batching, config);
}

function validateControlNames(batching: ModelSequenceBatching, modelName: string): void {
  const seen = new Set<string>();
  for (const { name } of batching.control_input) {
    if (name === '') {
      throw invalidArg(`sequence batching control tensor must have a name for ${modelName}`);
    }
    if (seen.has(name)) {
      throw invalidArg(
        `sequence batching control tensor '${name}' is specified for multiple control kinds for ` +
          modelName,
      );
    }
    seen.add(name);
  }
}

function onlyControl(
  batching: ModelSequenceBatching,
  kind: string,
  modelName: string,
): SequenceControl | undefined {
  const controls = batching.control_input
    .flatMap((input) => input.control)
    .filter((control) => control.kind === kind);
  if (controls.length > 1) {
    throw invalidArg(`sequence batching specifies multiple ${kind} tensors for ${modelName}`);
  }
  return controls[0];
}

/** The value lists that a control gives, by field name. */
function valueLists(control: SequenceControl): { field: string; count: number }[] {
  return [
    { field: 'int32_false_true', count: control.int32_false_true.length },
    { field: 'fp32_false_true', count: control.fp32_false_true.length },
    { field: 'bool_false_true', count: control.bool_false_true.length },
  ].filter((list) => list.count > 0);
}

function validateBooleanControl(control: SequenceControl, kind: string, modelName: string): void {
  const [list, second] = valueLists(control);
  if (list === undefined) {
    throw invalidArg(
      "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or " +
        `'bool_false_true' for ${kind} for ${modelName}`,
    );
  }
  if (second !== undefined) {
    throw invalidArg(
      "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and " +
        `'bool_false_true' for ${kind} for ${modelName}`,
    );
  }
  if (list.count !== 2) {
    throw invalidArg(
      `sequence batching control '${list.field}' must have exactly 2 entries for ${kind} for ` +
        modelName,
    );
  }
}

function validateCorrelationIdControl(control: SequenceControl, modelName: string): void {
  if (valueLists(control).length > 0) {
    throw invalidArg(
      "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or " +
        `'bool_false_true' for ${correlationIdKind} for ${modelName}`,
    );
  }
  if (!correlationIdDataTypes.has(control.data_type)) {
    throw invalidArg(
      `unexpected data type for control ${correlationIdKind} for ${modelName}. Allowed data types ` +
        'are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING',
    );
  }
}

function validateStrategy({ oldest, direct }: ModelSequenceBatching, config: ModelConfig): void {
  for (const size of oldest?.preferred_batch_size ?? []) {
    if (size <= 0) {
      throw invalidArg(
        `sequence batching preferred batch size must be positive for ${config.name}`,
      );
    }
    if (size > config.max_batch_size) {
      throw invalidArg(
        `sequence batching preferred batch size must be <= max batch size for ${config.name}`,
      );
    }
  }
  if (oldest !== undefined && oldest.max_candidate_sequences <= 0) {
    throw invalidArg(
      `sequence batching oldest strategy must specify 'max_candidate_sequences' > 0 for ${config.name}`,
    );
  }
  if (direct === undefined) return;
  // Written so that NaN is out of range.
  if (!(direct.minimum_slot_utilization >= 0 && direct.minimum_slot_utilization <= 1)) {
    throw invalidArg(
      `sequence batching minimum slot utilization must be in range (0.0, 1.0] for ${config.name}`,
    );
  }
}
