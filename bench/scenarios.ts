import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as onnx from 'onnxruntime-node';
import { mlpLayers } from './mlp-model.js';
import {
  type EncodedRequest,
  encodeBinaryRequest,
  encodeJsonRequest,
  type FloatTensor,
} from './v2-binary.js';

/** One kind of work: requests of different content, and what their answers must be. */
export interface Scenario {
  readonly name: string;
  readonly model: string;
  readonly modelFile: string;
  /** FP32 dims of each input without the batch, for the loop that runs the model alone. */
  readonly inputs: Readonly<Record<string, readonly number[]>>;
  /** `seed` tells requests apart. */
  encode(seed: number): EncodedRequest;
  /** Throws where the outputs for `seed` are wrong. */
  check(seed: number, outputs: ReadonlyMap<string, Float32Array>): void;
}

const tolerance = 1e-4;

/** `root` is the project's folder, `mlpFile` the generated perceptron. */
export async function createScenarios(root: string, mlpFile: string): Promise<readonly Scenario[]> {
  const addSub = {
    model: 'add_sub',
    modelFile: join(root, 'model_repository/add_sub/1/model.onnx'),
    inputs: { INPUT0: [16], INPUT1: [16] },
    check: checkAddSub,
  };
  return [
    {
      ...addSub,
      name: 'add_sub binary',
      encode: (seed) => encodeBinaryRequest(createAddSubInputs(seed)),
    },
    {
      ...addSub,
      name: 'add_sub JSON',
      encode: (seed) => encodeJsonRequest(createAddSubInputs(seed)),
    },
    createDigits(root),
    await createMlp(mlpFile),
  ];
}

function createAddSubInputs(seed: number): readonly FloatTensor[] {
  return ['INPUT0', 'INPUT1'].map((name, input) => ({
    name,
    shape: [1, 16],
    data: Float32Array.from({ length: 16 }, (_, index) => seed * (input + 1) + index / 4),
  }));
}

function checkAddSub(seed: number, outputs: ReadonlyMap<string, Float32Array>): void {
  const [left, right] = createAddSubInputs(seed).map(({ data }) => data);
  if (left === undefined || right === undefined) throw new Error('this is a bug');
  expectClose(
    'OUTPUT0',
    outputs,
    left.map((value, index) => value + (right[index] ?? 0)),
  );
  expectClose(
    'OUTPUT1',
    outputs,
    left.map((value, index) => value - (right[index] ?? 0)),
  );
}

/** The ten sample digits in turn. */
function createDigits(root: string): Scenario {
  const images = Array.from({ length: 10 }, (_, digit) => readDigit(root, digit));
  return {
    name: 'digits binary',
    model: 'digits',
    modelFile: join(root, 'model_repository/digits/1/model.onnx'),
    inputs: { image: [8, 8] },
    encode: (seed) =>
      encodeBinaryRequest([
        { name: 'image', shape: [1, 8, 8], data: images[seed % 10] ?? new Float32Array(64) },
      ]),
    check(seed, outputs) {
      const probabilities = [...(outputs.get('probabilities') ?? [])];
      const digit = probabilities.indexOf(Math.max(...probabilities));
      if (digit !== seed % 10) throw new Error(`digits: ${seed % 10} was read as ${digit}`);
    },
  };
}

function readDigit(root: string, digit: number): Float32Array {
  // Our own example file; the server checks its shape.
  const body = JSON.parse(
    readFileSync(join(root, `examples/digits/digit-${digit}.json`), 'utf8'),
  ) as { readonly inputs: readonly [{ readonly data: readonly (readonly number[])[] }] };
  return Float32Array.from(body.inputs[0].data.flat());
}

const mlpVariants = 8;

/** A few random rows, with what onnxruntime itself answers for each. */
async function createMlp(modelFile: string): Promise<Scenario> {
  const width = mlpLayers[0] ?? 0;
  const rows = Array.from({ length: mlpVariants }, (_, variant) =>
    Float32Array.from({ length: width }, (_, index) => ((index * 31 + variant * 7) % 101) / 101),
  );
  const session = await onnx.InferenceSession.create(modelFile);
  const expected: Float32Array[] = [];
  for (const row of rows) {
    const { y } = await session.run({ x: new onnx.Tensor('float32', row, [1, width]) });
    // The model's only output is FP32 by its own description.
    expected.push((y?.data ?? new Float32Array()) as Float32Array);
  }
  await session.release();
  return {
    name: 'mlp binary',
    model: 'mlp',
    modelFile,
    inputs: { x: [width] },
    encode: (seed) =>
      encodeBinaryRequest([
        { name: 'x', shape: [1, width], data: rows[seed % mlpVariants] ?? new Float32Array(width) },
      ]),
    check: (seed, outputs) =>
      expectClose('y', outputs, expected[seed % mlpVariants] ?? new Float32Array()),
  };
}

function expectClose(
  name: string,
  outputs: ReadonlyMap<string, Float32Array>,
  expected: Float32Array,
): void {
  const actual = outputs.get(name);
  const isClose =
    actual !== undefined &&
    actual.length === expected.length &&
    actual.every((value, index) => Math.abs(value - (expected[index] ?? Number.NaN)) < tolerance);
  if (!isClose) {
    throw new Error(
      `${name}: expected ${expected.join(' ')}, got ${actual?.join(' ') ?? 'nothing'}`,
    );
  }
}
