import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Layers of the perceptron: 1.86 million weights. */
export const mlpLayers: readonly number[] = [784, 1024, 1024, 10];

/**
 * Writes a model repository with one model, `mlp`: an ONNX perceptron with seeded random weights
 * and ReLU between its layers. Written by hand, so that benchmarks need no Python; field numbers
 * are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
 */
export async function writeMlpRepository(directory: string): Promise<string> {
  const version = join(directory, 'mlp', '1');
  await mkdir(version, { recursive: true });
  await writeFile(join(directory, 'mlp', 'config.pbtxt'), mlpConfig);
  const file = join(version, 'model.onnx');
  await writeFile(file, encodeMlp());
  return file;
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

const floatType = 1;

function encodeMlp(): Buffer {
  const random = createRandom(1);
  const nodes: Buffer[] = [];
  const weights: Buffer[] = [];
  let input = 'x';
  for (let layer = 1; layer < mlpLayers.length; layer++) {
    const rows = mlpLayers[layer - 1] ?? 0;
    const columns = mlpLayers[layer] ?? 0;
    const isLast = layer === mlpLayers.length - 1;
    const sum = isLast ? 'y' : `sum${layer}`;
    weights.push(encodeWeights(`w${layer}`, [rows, columns], random));
    weights.push(encodeWeights(`b${layer}`, [columns], random));
    nodes.push(encodeNode('Gemm', [input, `w${layer}`, `b${layer}`], sum));
    if (!isLast) nodes.push(encodeNode('Relu', [sum], `relu${layer}`));
    input = `relu${layer}`;
  }
  const graph = Buffer.concat([
    ...nodes.map((node) => field(1, node)),
    field(2, Buffer.from('mlp')),
    ...weights.map((tensor) => field(5, tensor)),
    field(11, encodeValue('x', mlpLayers[0] ?? 0)),
    field(12, encodeValue('y', mlpLayers.at(-1) ?? 0)),
  ]);
  const opset = varintField(2, 17);
  return Buffer.concat([varintField(1, 8), field(7, graph), field(8, opset)]);
}

function encodeNode(operator: string, inputs: readonly string[], output: string): Buffer {
  return Buffer.concat([
    ...inputs.map((input) => field(1, Buffer.from(input))),
    field(2, Buffer.from(output)),
    field(4, Buffer.from(operator)),
  ]);
}

function encodeWeights(name: string, dims: readonly number[], random: () => number): Buffer {
  const values = new Float32Array(dims.reduce((product, dim) => product * dim, 1));
  for (let index = 0; index < values.length; index++) values[index] = (random() - 0.5) / 16;
  return Buffer.concat([
    ...dims.map((dim) => varintField(1, dim)),
    varintField(2, floatType),
    field(8, Buffer.from(name)),
    field(9, Buffer.from(values.buffer)),
  ]);
}

/** `name`: FP32 [batch, width]. */
function encodeValue(name: string, width: number): Buffer {
  const batch = field(1, field(2, Buffer.from('batch')));
  const shape = Buffer.concat([batch, field(1, varintField(1, width))]);
  const tensorType = Buffer.concat([varintField(1, floatType), field(2, shape)]);
  return Buffer.concat([field(1, Buffer.from(name)), field(2, field(1, tensorType))]);
}

function field(number: number, content: Buffer): Buffer {
  return Buffer.concat([varint(number * 8 + 2), varint(content.length), content]);
}

function varintField(number: number, value: number): Buffer {
  return Buffer.concat([varint(number * 8), varint(value)]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest & 127) | 128);
    rest >>>= 7;
  }
  return Buffer.from([...bytes, rest]);
}

/** A small linear congruential generator (Numerical Recipes): the same weights everywhere. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
