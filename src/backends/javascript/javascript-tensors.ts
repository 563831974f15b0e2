import { internal } from '../../errors.js';
import { decodeBytesElements, encodeBytesElements } from '../../inference/bytes-elements.js';
import {
  type Datatype,
  elementBytes,
  fromConfigDataType,
  isDatatype,
} from '../../inference/datatype.js';
import { numberToBf16, numberToFp16 } from '../../inference/fp16.js';
import { elementCount, formatShape, matchesDims } from '../../inference/shape.js';
import type { Tensor } from '../../inference/tensor.js';
import type { ModelConfig } from '../../model-config/model-config.js';
import type { GivenTensor, ReceivedTensor, TensorData } from './model-contract.js';

type NumericArray = Exclude<TensorData, readonly Uint8Array[]>;

/** Each datatype's array; BOOL is bytes of 0 and 1, FP16 and BF16 are bit patterns. */
const arrays = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
  UINT32: Uint32Array,
  UINT64: BigUint64Array,
  INT8: Int8Array,
  INT16: Int16Array,
  INT32: Int32Array,
  INT64: BigInt64Array,
  FP16: Uint16Array,
  FP32: Float32Array,
  FP64: Float64Array,
  BF16: Uint16Array,
} as const;

/** A raw tensor as a model sees it. Decoding happens when `data` is read, and once. */
export function toReceivedTensor(tensor: Tensor): ReceivedTensor {
  return new RawTensor(tensor);
}

class RawTensor implements ReceivedTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly #bytes: Uint8Array;
  #data: TensorData | undefined;

  constructor(tensor: Tensor) {
    this.name = tensor.name;
    this.datatype = tensor.datatype;
    this.shape = tensor.shape;
    this.#bytes = tensor.bytes;
  }

  get data(): TensorData {
    this.#data ??=
      this.datatype === 'BYTES'
        ? decodeBytesElements(this.#bytes)
        : typedView(this.datatype, this.#bytes);
    return this.#data;
  }

  strings(): string[] {
    if (this.datatype !== 'BYTES') {
      throw internal(`tensor '${this.name}' is ${this.datatype}, only BYTES have strings`);
    }
    const decoder = new TextDecoder();
    return decodeBytesElements(this.#bytes).map((element) => decoder.decode(element));
  }
}

/** What an output may be, precomputed from the configuration. */
export interface OutputRule {
  readonly name: string;
  readonly datatype: Datatype;
  /** As the model sees it: reshaped, without the batch dimension. */
  readonly dims: readonly number[];
}

/** What the outputs of a model must be, from its configuration. */
export interface OutputRules {
  readonly modelName: string;
  readonly isBatching: boolean;
  readonly outputs: ReadonlyMap<string, OutputRule>;
}

/** Made once for an instance; outputs and states of sequences alike. */
export function outputRules(config: ModelConfig): OutputRules {
  const states = config.sequence_batching?.state ?? [];
  const rows = [
    ...config.output.map(({ name, data_type, dims, reshape }) => ({
      name,
      dataType: data_type,
      dims: reshape?.shape ?? dims,
    })),
    ...states.map((state) => ({
      name: state.output_name,
      dataType: state.data_type,
      dims: state.dims,
    })),
  ];
  const outputs = new Map<string, OutputRule>();
  for (const { name, dataType, dims } of rows) {
    const datatype = fromConfigDataType(dataType);
    if (datatype !== undefined) outputs.set(name, { name, datatype, dims });
  }
  return { modelName: config.name, isBatching: config.max_batch_size > 0, outputs };
}

/**
 * A model's output as raw bytes. `rows` is the batch dimension that it must have; undefined where
 * any will do. Throws INTERNAL that names the model, the output, what it gave and what was allowed.
 */
export function fromGivenTensor(
  given: unknown,
  rules: OutputRules,
  rows: number | undefined,
): Tensor {
  const where = `model '${rules.modelName}'`;
  if (!isRecord(given)) throw internal(`${where}: an output is ${typeName(given)}, not a tensor`);
  const { name } = given;
  const rule = typeof name === 'string' ? rules.outputs.get(name) : undefined;
  if (rule === undefined) {
    const allowed = [...rules.outputs.keys()].join(', ');
    throw internal(
      `${where}: unexpected output '${String(name)}', allowed outputs are: ${allowed}`,
    );
  }
  const label = `${where}: output '${rule.name}'`;
  const datatype = given['datatype'] ?? rule.datatype;
  if (typeof datatype !== 'string' || !isDatatype(datatype)) {
    throw internal(`${label} has unknown datatype '${String(datatype)}'`);
  }
  if (datatype !== rule.datatype) {
    throw internal(`${label} has datatype ${datatype}, expected ${rule.datatype}`);
  }
  const bytes = toBytes(datatype, given['data'], label);
  const count = elementsOf(datatype, bytes, given['data']);
  const shape =
    given['shape'] === undefined
      ? deducedShape(rule, rules, rows, count, label)
      : checkedShape(given['shape'], rule, rules, rows, label);
  if (elementCount(shape) !== count) {
    throw internal(
      `${label} has ${count} elements, expected ${elementCount(shape)} for shape ${formatShape(shape)}`,
    );
  }
  return { name: rule.name, datatype, shape, encoding: 'raw', bytes };
}

/** A tensor of a call to another model, whose configuration is not known here. */
export function fromCallTensor(given: Required<GivenTensor>): Tensor {
  const label = `input '${String(given.name)}'`;
  const { datatype, shape } = given;
  if (!isDatatype(datatype)) throw internal(`${label} has unknown datatype '${String(datatype)}'`);
  if (!isShape(shape)) throw internal(`${label} has no shape`);
  const bytes = toBytes(datatype, given.data, label);
  const count = elementsOf(datatype, bytes, given.data);
  if (elementCount(shape) !== count) {
    throw internal(
      `${label} has ${count} elements, expected ${elementCount(shape)} for shape ${formatShape(shape)}`,
    );
  }
  return { name: given.name, datatype, shape, encoding: 'raw', bytes };
}

function checkedShape(
  shape: unknown,
  rule: OutputRule,
  rules: OutputRules,
  rows: number | undefined,
  label: string,
): readonly number[] {
  const allowed = rules.isBatching ? [rows ?? -1, ...rule.dims] : rule.dims;
  if (!isShape(shape)) {
    throw internal(
      `${label} has a shape that is no list of sizes, expected ${formatShape(allowed)}`,
    );
  }
  if (!matchesDims(shape, allowed)) {
    throw internal(`${label} has shape ${formatShape(shape)}, expected ${formatShape(allowed)}`);
  }
  return shape;
}

function deducedShape(
  rule: OutputRule,
  rules: OutputRules,
  rows: number | undefined,
  count: number,
  label: string,
): readonly number[] {
  const shape = rules.isBatching ? [rows ?? -1, ...rule.dims] : [...rule.dims];
  const variable = shape.indexOf(-1);
  if (variable < 0) return shape;
  const rest = shape.reduce((product, dim) => (dim === -1 ? product : product * dim), 1);
  if (shape.lastIndexOf(-1) !== variable || rest === 0 || count % rest !== 0) {
    throw internal(
      `${label} has ${count} elements and no shape, which ${formatShape(shape)} does not tell`,
    );
  }
  shape[variable] = count / rest;
  return shape;
}

function toBytes(datatype: Datatype, data: unknown, label: string): Uint8Array {
  if (datatype === 'BYTES') return toBytesElements(data, label);
  const Constructor = arrays[datatype];
  if (data instanceof Constructor) {
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  }
  if (!Array.isArray(data)) {
    throw internal(
      `${label} has data of ${typeName(data)}, expected ${Constructor.name} for ${datatype}`,
    );
  }
  const typed = convertList(datatype, data, label);
  return new Uint8Array(typed.buffer, typed.byteOffset, typed.byteLength);
}

function convertList(datatype: Exclude<Datatype, 'BYTES'>, list: unknown[], label: string) {
  const wrong = list.findIndex((value) => !['number', 'bigint', 'boolean'].includes(typeof value));
  if (wrong >= 0) {
    throw internal(`${label} has ${typeName(list[wrong])} as element ${wrong} of ${datatype}`);
  }
  try {
    switch (datatype) {
      case 'INT64':
        return BigInt64Array.from(list, toBigInt);
      case 'UINT64':
        return BigUint64Array.from(list, toBigInt);
      case 'FP16':
        return Uint16Array.from(list, (value) => numberToFp16(Number(value)));
      case 'BF16':
        return Uint16Array.from(list, (value) => numberToBf16(Number(value)));
      case 'BOOL':
        return Uint8Array.from(list, (value) => (value ? 1 : 0));
      case 'UINT8':
      case 'UINT16':
      case 'UINT32':
      case 'INT8':
      case 'INT16':
      case 'INT32':
      case 'FP32':
      case 'FP64':
        return arrays[datatype].from(list.map(Number));
    }
  } catch (error) {
    throw internal(`${label} has an element that is no ${datatype}`, error);
  }
}

function toBigInt(value: unknown): bigint {
  return BigInt(value as bigint | number | boolean);
}

function toBytesElements(data: unknown, label: string): Uint8Array {
  if (!Array.isArray(data)) {
    throw internal(
      `${label} has data of ${typeName(data)}, expected a list of byte arrays or strings`,
    );
  }
  const encoder = new TextEncoder();
  const elements = data.map((element: unknown, index) => {
    if (typeof element === 'string') return encoder.encode(element);
    if (element instanceof Uint8Array) return element;
    throw internal(`${label} has ${typeName(element)} as element ${index} of BYTES`);
  });
  return encodeBytesElements(elements);
}

function elementsOf(datatype: Datatype, bytes: Uint8Array, data: unknown): number {
  if (datatype === 'BYTES') return Array.isArray(data) ? data.length : 0;
  return bytes.byteLength / elementBytes[datatype];
}

/** A view where the bytes lie at a multiple of the element's size, as tensors of a message do. */
function typedView(datatype: Exclude<Datatype, 'BYTES'>, bytes: Uint8Array): NumericArray {
  const size = elementBytes[datatype];
  const { buffer, byteOffset, byteLength } = byteOffsetFits(bytes, size) ? bytes : bytes.slice();
  // Buffers of messages are never shared memory; the union of types can't say so.
  return new arrays[datatype](buffer as ArrayBuffer, byteOffset, byteLength / size);
}

function byteOffsetFits(bytes: Uint8Array, size: number): boolean {
  return bytes.byteOffset % size === 0;
}

function isShape(shape: unknown): shape is readonly number[] {
  return (
    Array.isArray(shape) && shape.every((dim) => Number.isSafeInteger(dim) && (dim as number) >= 0)
  );
}

/** True for any object that is not null, arrays among them. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** `Float64Array`, `string`, `null`: how messages name what a model gave. */
export function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value !== 'object') return typeof value;
  return value.constructor?.name ?? 'an object';
}
