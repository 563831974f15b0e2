import * as onnx from 'onnxruntime-node';
import { expectClose, type Scenario, type TensorDims } from './scenario.js';
import type { WireForm } from './wire-form.js';

/** A model with one FP32 input. */
export interface OnnxWork {
  readonly name: string;
  readonly model: string;
  /** What the answers are compared with runs this file. */
  readonly modelFile: string;
  readonly input: string;
  /** Without the batch. */
  readonly dims: readonly number[];
  readonly wire: WireForm;
}

const variants = 8;

/** A few different rows between 0 and 1, with what onnxruntime itself answers for each. */
export async function createOnnxScenario(work: OnnxWork): Promise<Scenario> {
  const { name, model, modelFile, input, dims, wire } = work;
  const width = dims.reduce((product, dim) => product * dim, 1);
  const rows = Array.from({ length: variants }, (_, variant) =>
    Float32Array.from({ length: width }, (_, index) => ((index * 31 + variant * 7) % 101) / 101),
  );
  const session = await onnx.InferenceSession.create(modelFile);
  const expected: ReadonlyMap<string, Float32Array>[] = [];
  let outputs: TensorDims = {};
  for (const row of rows) {
    const answer = await session.run({ [input]: new onnx.Tensor('float32', row, [1, ...dims]) });
    outputs = Object.fromEntries(
      Object.entries(answer).map(([key, tensor]) => [key, tensor.dims.slice(1)]),
    );
    // The models of the benchmarks have FP32 outputs only.
    expected.push(
      new Map(Object.entries(answer).map(([key, { data }]) => [key, data as Float32Array])),
    );
  }
  await session.release();
  return {
    name,
    model,
    modelFile,
    inputs: { [input]: dims },
    outputs,
    wire,
    createInputs: (seed) => [
      { name: input, shape: [1, ...dims], data: rows[seed % variants] ?? new Float32Array(width) },
    ],
    check(seed, answer) {
      for (const [key, values] of expected[seed % variants] ?? []) {
        expectClose(key, answer, values);
      }
    },
  };
}
