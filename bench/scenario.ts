import type { FloatTensor } from './v2-binary.js';
import type { WireForm } from './wire-form.js';

/** Tensor name to dims. */
export type TensorDims = Readonly<Record<string, readonly number[]>>;

/** One kind of work: requests of different content, and what their answers must be. */
export interface Scenario {
  readonly name: string;
  readonly model: string;
  readonly modelFile: string;
  /** FP32 dims without the batch. */
  readonly inputs: TensorDims;
  readonly outputs: TensorDims;
  readonly wire: WireForm;
  /** `seed` tells requests apart. */
  createInputs(seed: number): readonly FloatTensor[];
  /** Throws where the outputs for `seed` are wrong. */
  check(seed: number, outputs: ReadonlyMap<string, Float32Array>): void;
}

const tolerance = 1e-4;
const shownMax = 16;

export function expectClose(
  name: string,
  outputs: ReadonlyMap<string, Float32Array>,
  expected: Float32Array,
): void {
  const actual = outputs.get(name);
  const isClose =
    actual !== undefined &&
    actual.length === expected.length &&
    actual.every((value, index) => Math.abs(value - (expected[index] ?? Number.NaN)) < tolerance);
  if (isClose) return;
  throw new Error(`${name}: expected ${show(expected)}, got ${show(actual)}`);
}

function show(values: Float32Array | undefined): string {
  if (values === undefined) return 'nothing';
  return `${values.length} numbers ${values.subarray(0, shownMax).join(' ')}`;
}
