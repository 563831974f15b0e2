/** Datatypes of the v2 inference protocol (Open Inference Protocol, "Tensor Data Types"; BF16 is Triton's). */
export type Datatype =
  | 'BOOL'
  | 'UINT8'
  | 'UINT16'
  | 'UINT32'
  | 'UINT64'
  | 'INT8'
  | 'INT16'
  | 'INT32'
  | 'INT64'
  | 'FP16'
  | 'FP32'
  | 'FP64'
  | 'BF16'
  | 'BYTES';

/** Bytes of one element; 0 for BYTES, whose elements carry their own length. */
export const elementBytes: Readonly<Record<Datatype, number>> = {
  BOOL: 1,
  UINT8: 1,
  UINT16: 2,
  UINT32: 4,
  UINT64: 8,
  INT8: 1,
  INT16: 2,
  INT32: 4,
  INT64: 8,
  FP16: 2,
  FP32: 4,
  FP64: 8,
  BF16: 2,
  BYTES: 0,
};

/** True where `name` is a datatype as the protocol spells it. */
export function isDatatype(name: string): name is Datatype {
  return Object.hasOwn(elementBytes, name);
}

/** The configuration's name of a datatype: `TYPE_FP32`, and `TYPE_STRING` for BYTES. */
export function toConfigDataType(datatype: Datatype): string {
  return datatype === 'BYTES' ? 'TYPE_STRING' : `TYPE_${datatype}`;
}

/** Inverse of {@link toConfigDataType}; undefined for `TYPE_INVALID` and unknown names. */
export function fromConfigDataType(dataType: string): Datatype | undefined {
  if (dataType === 'TYPE_STRING') return 'BYTES';
  const name = dataType.startsWith('TYPE_') ? dataType.slice('TYPE_'.length) : '';
  return name !== 'BYTES' && isDatatype(name) ? name : undefined;
}
