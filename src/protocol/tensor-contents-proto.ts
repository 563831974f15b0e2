import { type InferenceServerError, invalidArg } from '../errors.js';
import { encodeBytesElements } from '../inference/bytes-elements.js';
import { type Datatype, isDatatype } from '../inference/datatype.js';
import type { InputMessage } from './infer-message-proto.js';
import { ProtoReader } from './reader-proto.js';

/*
 * `InferTensorContents`: tensor data by datatype. Floating-point elements are in protobuf what they
 * are in a tensor, so they stay views; integers are variable-length and read one by one.
 */

/** Where a field's elements are: its packed runs, or for `bytes_contents` its elements. */
interface ContentsField {
  /** What the reference server calls its type in messages. */
  readonly typeName: Datatype;
  readonly holds: ReadonlySet<string>;
}

const fields: Readonly<Record<number, ContentsField>> = {
  1: { typeName: 'BOOL', holds: new Set(['BOOL']) },
  2: { typeName: 'INT32', holds: new Set(['INT8', 'INT16', 'INT32']) },
  3: { typeName: 'INT64', holds: new Set(['INT64']) },
  4: { typeName: 'UINT32', holds: new Set(['UINT8', 'UINT16', 'UINT32']) },
  5: { typeName: 'UINT64', holds: new Set(['UINT64']) },
  6: { typeName: 'FP32', holds: new Set(['FP32']) },
  7: { typeName: 'FP64', holds: new Set(['FP64']) },
  8: { typeName: 'BYTES', holds: new Set(['BYTES']) },
};

const noBytes = new Uint8Array(0);

/**
 * The tensor of an input that has `contents`, in its binary form. Throws INVALID_ARG for a field
 * that is not the datatype's, or several, and for an integer out of the datatype's range.
 */
export function readTensorContents(input: InputMessage, modelName: string): Uint8Array {
  const runs = gatherRuns(input.contents ?? []);
  let tensor: Uint8Array | undefined;
  for (const [field, pieces] of runs) {
    const contents = fields[field];
    if (contents === undefined) continue;
    const lead = `unexpected explicit tensor data for input tensor '${input.name}' for model '${modelName}'`;
    if (tensor !== undefined) throw invalidArg(`${lead}, binary data was already supplied.`);
    if (!contents.holds.has(input.datatype)) throw wrongField(lead, contents.typeName, input);
    tensor = field === 8 ? encodeBytesElements(pieces) : decode(join(pieces), input);
  }
  return tensor ?? noBytes;
}

/** Fields that have elements, in the order of their numbers. */
function gatherRuns(contents: readonly Uint8Array[]): [number, Uint8Array[]][] {
  const runs = new Map<number, Uint8Array[]>();
  for (const piece of contents) {
    const reader = new ProtoReader(piece);
    while (reader.next()) {
      const run = readRun(reader);
      if (run === undefined) continue;
      const field = reader.tag >>> 3;
      const known = runs.get(field);
      if (known === undefined) runs.set(field, [run]);
      else known.push(run);
    }
  }
  return [...runs].sort(([left], [right]) => left - right);
}

/** Elements of a field, packed; undefined where there are none, or the field is unknown. */
function readRun(reader: ProtoReader): Uint8Array | undefined {
  switch (reader.tag) {
    case 10:
    case 18:
    case 26:
    case 34:
    case 42:
    case 50:
    case 58: {
      const packed = reader.bytes();
      return packed.byteLength === 0 ? undefined : packed;
    }
    // Single elements, as encoders for the previous version of the language write them.
    case 8:
    case 16:
    case 24:
    case 32:
    case 40:
      return reader.varintBytes();
    case 53:
      return reader.fixed(4);
    case 57:
      return reader.fixed(8);
    case 66:
      return reader.bytes();
    default:
      reader.skip();
      return undefined;
  }
}

function join(pieces: readonly Uint8Array[]): Uint8Array {
  const [first = noBytes] = pieces;
  return pieces.length <= 1 ? first : Buffer.concat(pieces);
}

function decode(packed: Uint8Array, input: InputMessage): Uint8Array {
  switch (input.datatype) {
    case 'FP32':
      return wholeElements(packed, 4);
    case 'FP64':
      return wholeElements(packed, 8);
    case 'BOOL':
      return decodeBools(packed);
    case 'INT64':
    case 'UINT64':
      return decodeLongs(packed);
    case 'INT8':
      return decodeIntegers(packed, input, 1, -128, 127);
    case 'INT16':
      return decodeIntegers(packed, input, 2, -32768, 32767);
    case 'INT32':
      return decodeIntegers(packed, input, 4, -2147483648, 2147483647);
    case 'UINT8':
      return decodeIntegers(packed, input, 1, 0, 255);
    case 'UINT16':
      return decodeIntegers(packed, input, 2, 0, 65535);
    default:
      return decodeIntegers(packed, input, 4, 0, 4294967295);
  }
}

function wholeElements(packed: Uint8Array, elementBytes: number): Uint8Array {
  if (packed.byteLength % elementBytes !== 0) {
    throw invalidArg('the request is not a valid protobuf message');
  }
  return packed;
}

function decodeBools(packed: Uint8Array): Uint8Array {
  // What every encoder writes, a byte of 0 or 1 for each element, is the tensor already.
  if (packed.every((byte) => byte <= 1)) return packed;
  const tensor = new Uint8Array(countVarints(packed));
  const reader = new ProtoReader(packed);
  for (let index = 0; !reader.isAtEnd; index++) tensor[index] = reader.bool() ? 1 : 0;
  return tensor;
}

function decodeLongs(packed: Uint8Array): Uint8Array {
  const tensor = new Uint8Array(countVarints(packed) * 8);
  const view = new DataView(tensor.buffer);
  const reader = new ProtoReader(packed);
  for (let offset = 0; !reader.isAtEnd; offset += 8) reader.copyVarint(view, offset);
  return tensor;
}

/** `least` below 0 is a signed datatype. */
function decodeIntegers(
  packed: Uint8Array,
  input: InputMessage,
  elementBytes: 1 | 2 | 4,
  least: number,
  most: number,
): Uint8Array {
  const tensor = new Uint8Array(countVarints(packed) * elementBytes);
  const reader = new ProtoReader(packed);
  for (let offset = 0; !reader.isAtEnd; offset += elementBytes) {
    const value = least < 0 ? reader.int32() : reader.uint32();
    if (value < least || value > most) throw outOfRange(input, value, offset / elementBytes);
    tensor[offset] = value;
    if (elementBytes === 1) continue;
    tensor[offset + 1] = value >>> 8;
    if (elementBytes === 2) continue;
    tensor[offset + 2] = value >>> 16;
    tensor[offset + 3] = value >>> 24;
  }
  return tensor;
}

/** Each varint ends in a byte below 0x80. */
function countVarints(packed: Uint8Array): number {
  let count = 0;
  for (let index = 0; index < packed.byteLength; index++) {
    if ((packed[index] ?? 0) < 0x80) count++;
  }
  return count;
}

function wrongField(lead: string, typeName: string, input: InputMessage): InferenceServerError {
  const { datatype } = input;
  const advice =
    datatype === 'FP16' || datatype === 'BF16'
      ? `: ${datatype} has no typed contents, use raw_input_contents`
      : '';
  const expected = isDatatype(datatype) ? datatype : '<invalid>';
  return invalidArg(`${lead} of type '${typeName}', expected datatype '${expected}'${advice}`);
}

function outOfRange(input: InputMessage, value: number, index: number): InferenceServerError {
  return invalidArg(
    `input '${input.name}': element ${index} is ${value}, which is outside the range of ${input.datatype}`,
  );
}
