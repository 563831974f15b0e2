import { invalidArg } from '../errors.js';
import { type Datatype, fromConfigDataType } from '../inference/datatype.js';
import type {
  ModelConfig,
  ModelSequenceBatching,
  SequenceControl,
  SequenceState,
} from '../model-config/model-config.js';
import {
  type BatchSizeOptions,
  batchKeyInputs,
  batchSizeOptions,
  type DynamicBatchingOptions,
} from './scheduling-options.js';

/** Idle time after which a sequence ends where the configuration names none. */
const defaultIdleUs = 1_000_000;

/** How sequences share the instances of a model. */
export type SequenceStrategy =
  | {
      /** Each sequence keeps one row of one instance's batches. */
      readonly kind: 'direct';
      /** Rows of a batch, per instance. */
      readonly slots: number;
      /** Share of the slots that must have a request to run before the delay is over; 0 to 1. */
      readonly slotUtilizationMin: number;
      readonly queueDelayNs: number;
    }
  | {
      /** Requests of an instance's sequences are batched, the oldest first. */
      readonly kind: 'oldest';
      /** Sequences per instance. */
      readonly candidatesMax: number;
      readonly batch: BatchSizeOptions;
      readonly preservesOrdering: boolean;
    };

/** A control input; `values` is `[false, true]` as bytes of `datatype`. */
export type ControlInput =
  | {
      readonly kind: 'start' | 'end' | 'ready';
      readonly name: string;
      readonly datatype: Datatype;
      readonly values: readonly [Uint8Array, Uint8Array];
    }
  | {
      readonly kind: 'correlation-id';
      readonly name: string;
      readonly datatype: Datatype;
    };

/** A state that travels from one request of a sequence to the next. */
export interface StateOptions {
  readonly inputName: string;
  readonly outputName: string;
  /** What a sequence begins with, batch dimension included. */
  readonly initial: { readonly datatype: Datatype; readonly shape: readonly number[] };
  /** File in `initial_state/` that holds it; '' is zeros. */
  readonly initialFile: string;
  /** Clients see it too: it is also one of the model's outputs. */
  readonly isVisible: boolean;
}

export interface SequenceOptions
  extends Pick<DynamicBatchingOptions, 'shapedInputs' | 'optionalInputs'> {
  readonly modelName: string;
  readonly isBatching: boolean;
  readonly strategy: SequenceStrategy;
  readonly idleNs: number;
  /** The model decides how often one request runs; the request needs no correlation id. */
  readonly isIterative: boolean;
  readonly controls: readonly ControlInput[];
  readonly states: readonly StateOptions[];
}

/** Options of the sequence batcher from a checked configuration with `sequence_batching`. */
export function sequenceOptions(config: ModelConfig): SequenceOptions {
  const batching = config.sequence_batching;
  if (batching === undefined) {
    throw invalidArg(`model '${config.name}' has no sequence_batching`);
  }
  const idleUs = batching.max_sequence_idle_microseconds;
  return Object.freeze({
    modelName: config.name,
    isBatching: config.max_batch_size > 0,
    strategy: Object.freeze(strategyOf(batching, config)),
    idleNs: (idleUs > 0 ? idleUs : defaultIdleUs) * 1000,
    isIterative: batching.iterative_sequence,
    controls: Object.freeze(
      batching.control_input.flatMap(({ name, control }) =>
        control.map((one) => controlInput(name, one)),
      ),
    ),
    states: Object.freeze(batching.state.map((state) => stateOptions(state, config))),
    ...batchKeyInputs(config),
  });
}

function strategyOf(batching: ModelSequenceBatching, config: ModelConfig): SequenceStrategy {
  const batchSizeMax = Math.max(1, config.max_batch_size);
  const { oldest, direct } = batching;
  if (oldest === undefined) {
    return {
      kind: 'direct',
      slots: batchSizeMax,
      slotUtilizationMin: direct?.minimum_slot_utilization ?? 0,
      queueDelayNs: (direct?.max_queue_delay_microseconds ?? 0) * 1000,
    };
  }
  return {
    kind: 'oldest',
    candidatesMax: Math.max(1, oldest.max_candidate_sequences),
    batch: batchSizeOptions(
      batchSizeMax,
      oldest.preferred_batch_size,
      oldest.max_queue_delay_microseconds,
    ),
    preservesOrdering: oldest.preserve_ordering,
  };
}

function controlInput(name: string, control: SequenceControl): ControlInput {
  switch (control.kind) {
    case 'CONTROL_SEQUENCE_CORRID':
      return {
        kind: 'correlation-id',
        name,
        datatype: fromConfigDataType(control.data_type) ?? 'UINT64',
      };
    case 'CONTROL_SEQUENCE_END':
      return { kind: 'end', name, ...falseAndTrue(control) };
    case 'CONTROL_SEQUENCE_READY':
      return { kind: 'ready', name, ...falseAndTrue(control) };
    default:
      return { kind: 'start', name, ...falseAndTrue(control) };
  }
}

function falseAndTrue(control: SequenceControl): {
  readonly datatype: Datatype;
  readonly values: readonly [Uint8Array, Uint8Array];
} {
  const { int32_false_true: ints, fp32_false_true: floats, bool_false_true: bools } = control;
  if (ints.length > 0) {
    const values = ints.map((value) => new Uint8Array(Int32Array.of(value).buffer));
    return { datatype: 'INT32', values: pair(values) };
  }
  if (floats.length > 0) {
    const values = floats.map((value) => new Uint8Array(Float32Array.of(value).buffer));
    return { datatype: 'FP32', values: pair(values) };
  }
  return { datatype: 'BOOL', values: pair(bools.map((value) => Uint8Array.of(value ? 1 : 0))) };
}

function pair(values: readonly Uint8Array[]): readonly [Uint8Array, Uint8Array] {
  const [whenFalse, whenTrue] = values;
  if (whenFalse === undefined || whenTrue === undefined) {
    throw invalidArg('a sequence control needs a value for false and one for true');
  }
  return [whenFalse, whenTrue];
}

function stateOptions(state: SequenceState, config: ModelConfig): StateOptions {
  const [initialState] = state.initial_state;
  const dims = (initialState?.dims.length ?? 0) > 0 ? (initialState?.dims ?? []) : state.dims;
  const inner = dims.map((dim) => (dim < 0 ? 1 : dim));
  const datatype = fromConfigDataType(state.data_type);
  if (datatype === undefined) {
    throw invalidArg(
      `model '${config.name}': state '${state.input_name}' has unknown data_type ${state.data_type}`,
    );
  }
  return {
    inputName: state.input_name,
    outputName: state.output_name,
    initial: { datatype, shape: config.max_batch_size > 0 ? [1, ...inner] : inner },
    initialFile: initialState?.data_file ?? '',
    isVisible: config.output.some((output) => output.name === state.output_name),
  };
}
