import type { Tensor } from '../inference/tensor.js';
import type { ModelConfig } from '../model-config/model-config.js';

/**
 * Outputs as a model gives them → as its clients see them: reshaped back to the configuration's
 * dims, and only those that were asked for. State outputs of implicit sequence state always pass:
 * the sequence scheduler takes them out.
 */
export class OutputForm {
  /** Reshaped outputs only; empty for most models. */
  readonly #reshapes = new Map<
    string,
    { readonly from: readonly number[]; readonly to: readonly number[] }
  >();
  readonly #batchDims: number;
  readonly #states: readonly string[];

  constructor(config: ModelConfig) {
    this.#batchDims = config.max_batch_size > 0 ? 1 : 0;
    for (const { name, dims, reshape } of config.output) {
      if (reshape !== undefined) this.#reshapes.set(name, { from: reshape.shape, to: dims });
    }
    this.#states = (config.sequence_batching?.state ?? []).map((state) => state.output_name);
  }

  /** What to ask the model for; empty stays "all". */
  withStates(requestedOutputs: readonly string[]): readonly string[] {
    if (requestedOutputs.length === 0 || this.#states.length === 0) return requestedOutputs;
    return [...requestedOutputs, ...this.#states];
  }

  toClient(outputs: readonly Tensor[], requestedOutputs: readonly string[]): readonly Tensor[] {
    const asked =
      requestedOutputs.length === 0
        ? outputs
        : outputs.filter(
            ({ name }) => requestedOutputs.includes(name) || this.#states.includes(name),
          );
    if (this.#reshapes.size === 0) return asked;
    return asked.map((output) => {
      const reshape = this.#reshapes.get(output.name);
      if (reshape === undefined) return output;
      const shape = reshaped(output.shape, this.#batchDims, reshape.from, reshape.to);
      return shape === undefined ? output : { ...output, shape };
    });
  }
}

/**
 * `shape` with the dims of `from` replaced by those of `to`; the variable dimensions, equally many
 * on both sides, keep their values in order. Undefined where `shape` is not of the form `from`.
 */
function reshaped(
  shape: readonly number[],
  batchDims: number,
  from: readonly number[],
  to: readonly number[],
): readonly number[] | undefined {
  if (shape.length !== batchDims + from.length) return undefined;
  const variable = shape.slice(batchDims).filter((_, axis) => from[axis] === -1);
  let next = 0;
  const dims = to.map((dim) => {
    if (dim !== -1) return dim;
    const value = variable[next] ?? 1;
    next += 1;
    return value;
  });
  return [...shape.slice(0, batchDims), ...dims];
}
