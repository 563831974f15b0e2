import { internal, invalidArg } from '../errors.js';
import { elementBytes } from '../inference/datatype.js';
import { elementCount, formatShape } from '../inference/shape.js';
import type { Tensor } from '../inference/tensor.js';
import type { SequenceOptions, StateOptions } from './sequence-options.js';

/** The state of one sequence between its requests: one tensor a state, under its input's name. */
export type SequenceStateValues = readonly Tensor[];

/** Implicit state: what a sequence begins with, and what a response carries on. */
export class ImplicitState {
  readonly #states: readonly StateOptions[];
  readonly #initial: SequenceStateValues;
  readonly #hidden: ReadonlySet<string>;

  /**
   * `files` holds the model's `initial_state` files that the options name. INVALID_ARG where one
   * is missing or has not exactly the state's size.
   */
  constructor(
    options: Pick<SequenceOptions, 'states' | 'modelName'>,
    files: ReadonlyMap<string, Uint8Array>,
  ) {
    this.#states = options.states;
    this.#initial = options.states.map((state) => initialTensor(options.modelName, state, files));
    this.#hidden = new Set(
      options.states.filter((state) => !state.isVisible).map((state) => state.outputName),
    );
  }

  get isUsed(): boolean {
    return this.#states.length > 0;
  }

  /** Of a sequence that starts, and of a row without a request. */
  get initial(): SequenceStateValues {
    return this.#initial;
  }

  /**
   * What the next request of the sequence gets after a response with `outputs`. The bytes are
   * copied: an output is a view of its whole batch, which must not live as long as the sequence.
   */
  next(former: SequenceStateValues, outputs: readonly Tensor[]): SequenceStateValues {
    return this.#states.map((state, index) => {
      const output = outputs.find((candidate) => candidate.name === state.outputName);
      const kept = former[index] ?? this.#initialOf(index);
      if (output === undefined) return kept;
      return { ...output, name: state.inputName, bytes: output.bytes.slice() };
    });
  }

  /** `outputs` without the states that clients must not see. */
  visible(outputs: readonly Tensor[], requested: readonly string[]): readonly Tensor[] {
    if (this.#states.length === 0) return outputs;
    return outputs.filter(
      ({ name }) => !this.#hidden.has(name) && (requested.length === 0 || requested.includes(name)),
    );
  }

  #initialOf(index: number): Tensor {
    const tensor = this.#initial[index];
    if (tensor === undefined) throw internal(`no state ${index}; this is a bug`);
    return tensor;
  }
}

/** Files that {@link ImplicitState} needs, by the names that the configuration gives them. */
export function initialStateFiles(options: Pick<SequenceOptions, 'states'>): readonly string[] {
  return options.states.map((state) => state.initialFile).filter((file) => file !== '');
}

function initialTensor(
  modelName: string,
  state: StateOptions,
  files: ReadonlyMap<string, Uint8Array>,
): Tensor {
  const { datatype, shape } = state.initial;
  const isBytes = datatype === 'BYTES';
  // An empty BYTES element is its 4-byte length, 0.
  const byteLength = elementCount(shape) * (isBytes ? 4 : elementBytes[datatype]);
  let bytes = new Uint8Array(byteLength);
  if (state.initialFile !== '') {
    const file = files.get(state.initialFile);
    const where = `model '${modelName}': initial state '${state.initialFile}' of '${state.inputName}'`;
    if (file === undefined) throw invalidArg(`${where} is missing`);
    if (!isBytes && file.byteLength !== byteLength) {
      throw invalidArg(
        `${where} has ${file.byteLength} bytes, expected ${byteLength} for ${datatype} ${formatShape(shape)}`,
      );
    }
    bytes = file.slice();
  }
  return { name: state.inputName, datatype, shape, encoding: 'raw', bytes };
}
