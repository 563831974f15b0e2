/**
 * Writes ONNX files by hand, so that benchmarks need no Python. Field numbers are those of
 * onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
 */
export interface OnnxGraph {
  readonly name: string;
  readonly nodes: readonly OnnxNode[];
  readonly weights: readonly OnnxWeights[];
  readonly input: OnnxValue;
  readonly output: OnnxValue;
}

export interface OnnxNode {
  readonly operator: string;
  readonly inputs: readonly string[];
  readonly output: string;
}

export interface OnnxWeights {
  readonly name: string;
  readonly dims: readonly number[];
  readonly values: Float32Array;
}

/** FP32 [batch, ...dims]; a name stands for a dimension of any size. */
export interface OnnxValue {
  readonly name: string;
  readonly dims: readonly (number | string)[];
}

const floatType = 1;
const opsetVersion = 17;
const irVersion = 8;

export function encodeOnnx({ name, nodes, weights, input, output }: OnnxGraph): Buffer {
  const graph = Buffer.concat([
    ...nodes.map((node) => field(1, encodeNode(node))),
    field(2, Buffer.from(name)),
    ...weights.map((tensor) => field(5, encodeWeights(tensor))),
    field(11, encodeValue(input)),
    field(12, encodeValue(output)),
  ]);
  const opset = varintField(2, opsetVersion);
  return Buffer.concat([varintField(1, irVersion), field(7, graph), field(8, opset)]);
}

function encodeNode({ operator, inputs, output }: OnnxNode): Buffer {
  return Buffer.concat([
    ...inputs.map((input) => field(1, Buffer.from(input))),
    field(2, Buffer.from(output)),
    field(4, Buffer.from(operator)),
  ]);
}

function encodeWeights({ name, dims, values }: OnnxWeights): Buffer {
  return Buffer.concat([
    ...dims.map((dim) => varintField(1, dim)),
    varintField(2, floatType),
    field(8, Buffer.from(name)),
    field(9, Buffer.from(values.buffer, values.byteOffset, values.byteLength)),
  ]);
}

function encodeValue({ name, dims }: OnnxValue): Buffer {
  const shape = ['batch', ...dims].map((dim) =>
    field(1, typeof dim === 'number' ? varintField(1, dim) : field(2, Buffer.from(dim))),
  );
  const tensorType = Buffer.concat([varintField(1, floatType), field(2, Buffer.concat(shape))]);
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
