import { invalidArg } from '../errors.js';
import { encodeBytesElements } from '../inference/bytes-elements.js';
import { type Datatype, elementBytes } from '../inference/datatype.js';
import { numberToBf16, numberToFp16 } from '../inference/fp16.js';
import type { TensorMetadata } from '../inference/model-metadata.js';
import { elementCount, formatShape, matchesDims } from '../inference/shape.js';
import { decodeTensorJson } from '../protocol/tensor-json.js';
import { list, member } from './model-inputs.js';
import type { Random } from './random.js';

/** One row of an input in the protocol's binary form, without the batch dimension. */
export interface InputRow {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** Where the values come from. */
export type InputSource =
  | { readonly kind: 'zero' }
  | { readonly kind: 'random'; readonly stringLength: number }
  /** Every element of a BYTES input is `text`; the others are random. */
  | { readonly kind: 'text'; readonly text: string }
  /** A file in the form of the reference client: `{"data": [{"INPUT0": [...]}, ...]}`. */
  | { readonly kind: 'file'; readonly content: string };

/** Random integers stay below: so small that an index into any table exists. */
const integerBound = 128;

/** Rows of all inputs; `count` of them, or as many as a file holds. */
export function makeRows(
  source: InputSource,
  inputs: readonly TensorMetadata[],
  count: number,
  random: Random,
): readonly (readonly InputRow[])[] {
  if (source.kind === 'file') return readRows(source.content, inputs);
  return Array.from({ length: count }, () =>
    inputs.map(({ name, datatype, shape }) => ({
      name,
      datatype,
      shape,
      bytes: makeTensor(source, datatype, elementCount(shape), random),
    })),
  );
}

function makeTensor(
  source: Exclude<InputSource, { kind: 'file' }>,
  datatype: Datatype,
  count: number,
  random: Random,
): Uint8Array {
  if (datatype === 'BYTES') {
    return encodeBytesElements(Array.from({ length: count }, () => makeText(source, random)));
  }
  const bytes = new Uint8Array(count * elementBytes[datatype]);
  if (source.kind === 'zero') return bytes;
  const view = new DataView(bytes.buffer);
  const write = writers[datatype];
  for (let index = 0; index < count; index++) write(view, index, random);
  return bytes;
}

function makeText(source: Exclude<InputSource, { kind: 'file' }>, random: Random): Uint8Array {
  switch (source.kind) {
    case 'zero':
      return new Uint8Array(0);
    case 'text':
      return Buffer.from(source.text);
    case 'random':
      return Buffer.from(
        Array.from({ length: source.stringLength }, () => letters.charCodeAt(random.below(26))),
      );
  }
}

const letters = 'abcdefghijklmnopqrstuvwxyz';

type Writer = (view: DataView, index: number, random: Random) => void;

const integer = (random: Random): number => random.below(integerBound);

const writers: Readonly<Record<Exclude<Datatype, 'BYTES'>, Writer>> = {
  BOOL: (view, index, random) => view.setUint8(index, random.below(2)),
  UINT8: (view, index, random) => view.setUint8(index, integer(random)),
  INT8: (view, index, random) => view.setInt8(index, integer(random)),
  UINT16: (view, index, random) => view.setUint16(index * 2, integer(random), true),
  INT16: (view, index, random) => view.setInt16(index * 2, integer(random), true),
  UINT32: (view, index, random) => view.setUint32(index * 4, integer(random), true),
  INT32: (view, index, random) => view.setInt32(index * 4, integer(random), true),
  UINT64: (view, index, random) => view.setBigUint64(index * 8, BigInt(integer(random)), true),
  INT64: (view, index, random) => view.setBigInt64(index * 8, BigInt(integer(random)), true),
  FP16: (view, index, random) => view.setUint16(index * 2, numberToFp16(random.next()), true),
  BF16: (view, index, random) => view.setUint16(index * 2, numberToBf16(random.next()), true),
  FP32: (view, index, random) => view.setFloat32(index * 4, random.next(), true),
  FP64: (view, index, random) => view.setFloat64(index * 8, random.next(), true),
};

function readRows(
  content: string,
  inputs: readonly TensorMetadata[],
): readonly (readonly InputRow[])[] {
  const rows = list(member(parseFile(content), 'data'));
  if (rows.length === 0) throw invalidArg(`--input-data: the file has no list "data" with rows`);
  return rows.map((row, index) => {
    if (Array.isArray(row)) {
      throw invalidArg(`--input-data: row ${index} is a list: sequences are not supported`);
    }
    return inputs.map((input) => readTensor(input, member(row, input.name), index));
  });
}

function parseFile(content: string): unknown {
  try {
    const value: unknown = JSON.parse(content);
    return value;
  } catch (error) {
    throw invalidArg(`--input-data: ${error instanceof Error ? error.message : error}`, error);
  }
}

/** `[...]`, `{"content": [...], "shape": [...]}`, or either with `{"b64": "..."}` for the bytes. */
function readTensor(input: TensorMetadata, value: unknown, row: number): InputRow {
  const { name, datatype } = input;
  const what = `--input-data: row ${row}, input '${name}'`;
  if (value === undefined) throw invalidArg(`${what}: there is none`);
  const content = member(value, 'content') ?? value;
  const given = member(value, 'shape');
  const shape = given === undefined ? input.shape : list(given).map(Number);
  if (!matchesDims(shape, input.shape)) {
    throw invalidArg(`${what}: shape ${formatShape(shape)}, not ${formatShape(input.shape)}`);
  }
  const base64 = member(content, 'b64');
  if (typeof base64 === 'string') {
    const bytes = Buffer.from(base64, 'base64');
    return { name, datatype, shape, bytes: checkLength(what, datatype, shape, bytes) };
  }
  try {
    const text = Buffer.from(JSON.stringify(content));
    return { name, datatype, shape, bytes: decodeTensorJson(datatype, shape, text) };
  } catch (error) {
    throw invalidArg(`${what}: ${error instanceof Error ? error.message : error}`, error);
  }
}

/** For BYTES the base64 text is the one element; for others it is the tensor. */
function checkLength(
  what: string,
  datatype: Datatype,
  shape: readonly number[],
  bytes: Uint8Array,
): Uint8Array {
  const count = elementCount(shape);
  if (datatype === 'BYTES') {
    if (count === 1) return encodeBytesElements([bytes]);
    throw invalidArg(`${what}: base64 is one element, but the shape has ${count}`);
  }
  const expected = count * elementBytes[datatype];
  if (bytes.byteLength === expected) return bytes;
  throw invalidArg(`${what}: ${bytes.byteLength} bytes, expected ${expected}`);
}
