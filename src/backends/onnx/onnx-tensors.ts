import { Tensor as RuntimeTensor, type TypedTensor } from 'onnxruntime-node';
import { internal, invalidArg } from '../../errors.js';
import { decodeBytesElements, encodeBytesElements } from '../../inference/bytes-elements.js';
import { type Datatype, elementBytes } from '../../inference/datatype.js';
import type { Tensor } from '../../inference/tensor.js';

/** The runtime's type names that have a datatype in the protocol, and which. */
const datatypes: Readonly<Record<string, Datatype>> = {
  bool: 'BOOL',
  uint8: 'UINT8',
  uint16: 'UINT16',
  uint32: 'UINT32',
  uint64: 'UINT64',
  int8: 'INT8',
  int16: 'INT16',
  int32: 'INT32',
  int64: 'INT64',
  float16: 'FP16',
  float32: 'FP32',
  float64: 'FP64',
  string: 'BYTES',
};

/** Datatype of one of the runtime's types; undefined where the protocol has none. */
export function fromRuntimeType(type: string): Datatype | undefined {
  return Object.hasOwn(datatypes, type) ? datatypes[type] : undefined;
}

/**
 * `tensor` for the runtime, with `dims` as its shape. Numbers are a view of the same bytes; strings
 * are decoded. Throws INVALID_ARG where the runtime has no such datatype, or can't carry a string.
 */
export function toRuntimeTensor(tensor: Tensor, dims: readonly number[]): RuntimeTensor {
  const { buffer, byteOffset, byteLength } = tensor.bytes;
  const size = elementBytes[tensor.datatype];
  const length = size === 0 ? 0 : byteLength / size;
  switch (tensor.datatype) {
    case 'BOOL':
      return new RuntimeTensor('bool', tensor.bytes, dims);
    case 'UINT8':
      return new RuntimeTensor('uint8', tensor.bytes, dims);
    case 'UINT16':
      return new RuntimeTensor('uint16', new Uint16Array(buffer, byteOffset, length), dims);
    case 'UINT32':
      return new RuntimeTensor('uint32', new Uint32Array(buffer, byteOffset, length), dims);
    case 'UINT64':
      return new RuntimeTensor('uint64', new BigUint64Array(buffer, byteOffset, length), dims);
    case 'INT8':
      return new RuntimeTensor('int8', new Int8Array(buffer, byteOffset, length), dims);
    case 'INT16':
      return new RuntimeTensor('int16', new Int16Array(buffer, byteOffset, length), dims);
    case 'INT32':
      return new RuntimeTensor('int32', new Int32Array(buffer, byteOffset, length), dims);
    case 'INT64':
      return new RuntimeTensor('int64', new BigInt64Array(buffer, byteOffset, length), dims);
    case 'FP16':
      return new RuntimeTensor('float16', new Uint16Array(buffer, byteOffset, length), dims);
    case 'FP32':
      return new RuntimeTensor('float32', new Float32Array(buffer, byteOffset, length), dims);
    case 'FP64':
      return new RuntimeTensor('float64', new Float64Array(buffer, byteOffset, length), dims);
    case 'BYTES':
      return new RuntimeTensor('string', toStrings(tensor), dims);
    case 'BF16':
      throw invalidArg(`unsupported datatype TYPE_BF16 for input '${tensor.name}'`);
  }
}

/**
 * An output of the runtime as a tensor named `name` of shape `dims`, a view of the runtime's memory
 * where it holds numbers.
 */
export function fromRuntimeTensor(
  name: string,
  output: RuntimeTensor,
  dims: readonly number[],
): Tensor {
  const datatype = fromRuntimeType(output.type);
  if (datatype === undefined) throw internal(`output '${name}' has unknown type '${output.type}'`);
  return { name, datatype, shape: dims, encoding: 'raw', bytes: rawBytes(output) };
}

function rawBytes(output: RuntimeTensor): Uint8Array {
  // The package types a tensor's data as a union that its `type` tells apart.
  const { data } = output as TypedTensor<RuntimeTensor.Type>;
  if (Array.isArray(data)) {
    const encoder = new TextEncoder();
    return encodeBytesElements(data.map((text) => encoder.encode(text)));
  }
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** The runtime's strings are C strings in UTF-8: other bytes would come out changed, so none go in. */
function toStrings(tensor: Tensor): string[] {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  return decodeBytesElements(tensor.bytes).map((element, index) => {
    let text: string;
    try {
      text = decoder.decode(element);
    } catch (error) {
      throw invalidArg(
        `element ${index} of input '${tensor.name}' is not UTF-8, which strings of ONNX Runtime are`,
        error,
      );
    }
    if (text.includes('\0')) {
      throw invalidArg(
        `element ${index} of input '${tensor.name}' has a NUL, where strings of ONNX Runtime end`,
      );
    }
    return text;
  });
}
