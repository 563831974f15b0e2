import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { encodeOnnx, type OnnxNode, type OnnxWeights } from './onnx-file.js';

/** Layers of the perceptron: 1.86 million weights. */
export const mlpLayers: readonly number[] = [784, 1024, 1024, 10];

/**
 * Writes a model repository with one model, `mlp`: an ONNX perceptron with seeded random weights
 * and ReLU between its layers. Returns its file.
 */
export async function writeMlpRepository(directory: string): Promise<string> {
  const version = join(directory, 'mlp', '1');
  await mkdir(version, { recursive: true });
  await writeFile(join(directory, 'mlp', 'config.pbtxt'), mlpConfig);
  const file = join(version, 'model.onnx');
  await writeFile(file, encodeMlp());
  return file;
}

/** Adds the same model under another name, with more in its `dynamic_batching` and at its end. */
export async function writeMlpCopy(
  directory: string,
  name: string,
  batching: string,
  more: string,
): Promise<void> {
  await mkdir(join(directory, name, '1'), { recursive: true });
  const config = mlpConfig.replace('dynamic_batching { }', `dynamic_batching { ${batching} }`);
  await writeFile(join(directory, name, 'config.pbtxt'), `${config}${more}\n`);
  const file = join(directory, 'mlp', '1', 'model.onnx');
  await copyFile(file, join(directory, name, '1', 'model.onnx'));
}

/** One instance and one thread an operator, as the loop that it is compared with has. */
const mlpConfig = `platform: "onnxruntime_onnx"
max_batch_size: 64
input [ { name: "x" data_type: TYPE_FP32 dims: [ 784 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 10 ] } ]
dynamic_batching { }
instance_group [ { kind: KIND_CPU count: 1 } ]
parameters { key: "intra_op_thread_count" value { string_value: "1" } }
`;

function encodeMlp(): Buffer {
  const random = createRandom(1);
  const nodes: OnnxNode[] = [];
  const weights: OnnxWeights[] = [];
  let input = 'x';
  for (let layer = 1; layer < mlpLayers.length; layer++) {
    const rows = mlpLayers[layer - 1] ?? 0;
    const columns = mlpLayers[layer] ?? 0;
    const isLast = layer === mlpLayers.length - 1;
    const sum = isLast ? 'y' : `sum${layer}`;
    weights.push(createWeights(`w${layer}`, [rows, columns], random));
    weights.push(createWeights(`b${layer}`, [columns], random));
    nodes.push({ operator: 'Gemm', inputs: [input, `w${layer}`, `b${layer}`], output: sum });
    if (!isLast) nodes.push({ operator: 'Relu', inputs: [sum], output: `relu${layer}` });
    input = `relu${layer}`;
  }
  return encodeOnnx({
    name: 'mlp',
    nodes,
    weights,
    input: { name: 'x', dims: [mlpLayers[0] ?? 0] },
    output: { name: 'y', dims: [mlpLayers.at(-1) ?? 0] },
  });
}

function createWeights(name: string, dims: readonly number[], random: () => number): OnnxWeights {
  const values = new Float32Array(dims.reduce((product, dim) => product * dim, 1));
  for (let index = 0; index < values.length; index++) values[index] = (random() - 0.5) / 16;
  return { name, dims, values };
}

/** A small linear congruential generator (Numerical Recipes): the same weights everywhere. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
