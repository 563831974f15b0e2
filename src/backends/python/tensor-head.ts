import type { Datatype } from '../../inference/datatype.js';
import {
  noParameters,
  type Parameters,
  type ParameterValue,
} from '../../inference/infer-request.js';
import type { Tensor } from '../../inference/tensor.js';
import type { ByteReader } from './byte-reader.js';
import type { ByteWriter } from './byte-writer.js';

/** Datatypes by their code in frames, in the order of datatypes.py. */
const datatypes: readonly Datatype[] = [
  'BOOL',
  'UINT8',
  'UINT16',
  'UINT32',
  'UINT64',
  'INT8',
  'INT16',
  'INT32',
  'INT64',
  'FP16',
  'FP32',
  'FP64',
  'BF16',
  'BYTES',
];
const codes: Readonly<Record<Datatype, number>> = {
  BOOL: 0,
  UINT8: 1,
  UINT16: 2,
  UINT32: 3,
  UINT64: 4,
  INT8: 5,
  INT16: 6,
  INT32: 7,
  INT64: 8,
  FP16: 9,
  FP32: 10,
  FP64: 11,
  BF16: 12,
  BYTES: 13,
};

/** A tensor of which the bytes lie elsewhere. `byteOffset` counts from its list's first byte. */
export interface PlacedTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly byteOffset: number;
  readonly byteLength: number;
}

export function writeTensorHead(writer: ByteWriter, tensor: Tensor): void {
  writer.text(tensor.name);
  writer.u8(codes[tensor.datatype]);
  writer.u8(tensor.shape.length);
  for (const dim of tensor.shape) writer.i64(dim);
  writer.i64(tensor.bytes.byteLength);
}

/** `count` tensors whose bytes follow one another, each on an 8-byte boundary. */
export function readTensorHeads(reader: ByteReader, count: number): PlacedTensor[] {
  const tensors: PlacedTensor[] = [];
  let byteOffset = 0;
  for (let index = 0; index < count; index += 1) {
    const name = reader.text();
    const code = reader.u8();
    const datatype = datatypes[code];
    if (datatype === undefined) throw new RangeError(`a frame has datatype code ${code}`);
    const rank = reader.u8();
    const shape: number[] = [];
    for (let axis = 0; axis < rank; axis += 1) shape.push(reader.i64());
    const byteLength = reader.i64();
    tensors.push({ name, datatype, shape, byteOffset, byteLength });
    byteOffset += Math.ceil(byteLength / 8) * 8;
  }
  return tensors;
}

/** The tensor with its bytes as a view of `payload`, of which its list starts at `dataStart`. */
export function placeTensor(tensor: PlacedTensor, payload: Buffer, dataStart: number): Tensor {
  const start = dataStart + tensor.byteOffset;
  return {
    name: tensor.name,
    datatype: tensor.datatype,
    shape: tensor.shape,
    encoding: 'raw',
    bytes: payload.subarray(start, start + tensor.byteLength),
  };
}

export function writeParameters(writer: ByteWriter, parameters: Parameters): void {
  for (const [name, value] of parameters) {
    writer.text(name);
    if (typeof value === 'string') {
      writer.u8(0);
      writer.text(value);
    } else if (typeof value === 'boolean') {
      writer.u8(1);
      writer.u8(value ? 1 : 0);
    } else if (typeof value === 'bigint') {
      writer.u8(2);
      writer.bigI64(value);
    } else {
      writer.u8(3);
      writer.f64(value);
    }
  }
}

export function readParameters(reader: ByteReader, count: number): Parameters {
  if (count === 0) return noParameters;
  const parameters = new Map<string, ParameterValue>();
  for (let index = 0; index < count; index += 1) {
    const name = reader.text();
    parameters.set(name, readValue(reader));
  }
  return parameters;
}

function readValue(reader: ByteReader): ParameterValue {
  const kind = reader.u8();
  switch (kind) {
    case 0:
      return reader.text();
    case 1:
      return reader.u8() !== 0;
    case 2:
      return reader.bigI64();
    case 3:
      return reader.f64();
    default:
      throw new RangeError(`a frame has parameter kind ${kind}`);
  }
}
