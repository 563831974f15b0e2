import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { mlpLayers } from './mlp-model.js';
import { createOnnxScenario } from './onnx-scenario.js';
import { expectClose, type Scenario } from './scenario.js';
import type { FloatTensor } from './v2-binary.js';
import { v2Binary, v2Json } from './wire-form.js';

/** `root` is the project's folder, `mlpFile` the generated perceptron. */
export async function createScenarios(root: string, mlpFile: string): Promise<readonly Scenario[]> {
  return [
    createAddSub(root),
    { ...createAddSub(root), name: 'add_sub JSON', wire: v2Json },
    createDigits(root),
    await createMlp(mlpFile),
  ];
}

/** Sum and difference of two rows of 16, by `model`, which may be a copy of the shipped one. */
export function createAddSub(root: string, model = 'add_sub'): Scenario {
  return {
    name: 'add_sub binary',
    model,
    modelFile: join(root, 'model_repository/add_sub/1/model.onnx'),
    inputs: { INPUT0: [16], INPUT1: [16] },
    outputs: { OUTPUT0: [16], OUTPUT1: [16] },
    wire: v2Binary,
    createInputs: createAddSubInputs,
    check: checkAddSub,
  };
}

export function createMlp(modelFile: string): Promise<Scenario> {
  const [width = 0] = mlpLayers;
  return createOnnxScenario({
    name: 'mlp binary',
    model: 'mlp',
    modelFile,
    input: 'x',
    dims: [width],
    wire: v2Binary,
  });
}

function createAddSubInputs(seed: number): readonly FloatTensor[] {
  return ['INPUT0', 'INPUT1'].map((name, input) => ({
    name,
    shape: [1, 16],
    data: Float32Array.from({ length: 16 }, (_, index) => seed * (input + 1) + index / 4),
  }));
}

function checkAddSub(seed: number, outputs: ReadonlyMap<string, Float32Array>): void {
  const [left, right] = createAddSubInputs(seed).map(({ data }) => Float32Array.from(data));
  if (left === undefined || right === undefined) throw new Error('this is a bug');
  const sum = left.map((value, index) => value + (right[index] ?? 0));
  const difference = left.map((value, index) => value - (right[index] ?? 0));
  expectClose('OUTPUT0', outputs, sum);
  expectClose('OUTPUT1', outputs, difference);
}

/** The ten sample digits in turn. */
function createDigits(root: string): Scenario {
  const images = Array.from({ length: 10 }, (_, digit) => readDigit(root, digit));
  return {
    name: 'digits binary',
    model: 'digits',
    modelFile: join(root, 'model_repository/digits/1/model.onnx'),
    inputs: { image: [8, 8] },
    outputs: { probabilities: [10] },
    wire: v2Binary,
    createInputs: (seed) => [
      { name: 'image', shape: [1, 8, 8], data: images[seed % 10] ?? new Float32Array(64) },
    ],
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
