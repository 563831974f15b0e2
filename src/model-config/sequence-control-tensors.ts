import type { ModelConfig, SequenceControl } from './model-config.js';

/** A tensor by which the sequence batcher tells the model about a sequence. */
export interface SequenceControlTensor {
  readonly name: string;
  readonly kind: string;
  /** As the configuration spells it: `TYPE_INT32`. */
  readonly dataType: string;
}

/** The control tensors of a checked configuration; none without sequence batching. */
export function sequenceControlTensors(config: ModelConfig): readonly SequenceControlTensor[] {
  const inputs = config.sequence_batching?.control_input ?? [];
  return inputs.flatMap(({ name, control }) =>
    control.map((one) => ({ name, kind: one.kind, dataType: dataTypeOf(one) })),
  );
}

/** Values tell their type; only the correlation id names one. */
function dataTypeOf(control: SequenceControl): string {
  if (control.int32_false_true.length > 0) return 'TYPE_INT32';
  if (control.fp32_false_true.length > 0) return 'TYPE_FP32';
  if (control.bool_false_true.length > 0) return 'TYPE_BOOL';
  return control.data_type;
}
