import { decodeBytesElements } from '../inference/bytes-elements.js';
import { type Datatype, elementBytes } from '../inference/datatype.js';
import { bf16ToNumber, fp16ToNumber } from '../inference/fp16.js';
import type { Tensor } from '../inference/tensor.js';

type ElementReader = (view: DataView, offset: number) => string;

/** How one element of each datatype is read; BYTES elements have no fixed size. */
const readers: Readonly<Record<Exclude<Datatype, 'BYTES'>, ElementReader>> = {
  BOOL: (view, offset) => String(view.getUint8(offset)),
  UINT8: (view, offset) => String(view.getUint8(offset)),
  UINT16: (view, offset) => String(view.getUint16(offset, true)),
  UINT32: (view, offset) => String(view.getUint32(offset, true)),
  UINT64: (view, offset) => String(view.getBigUint64(offset, true)),
  INT8: (view, offset) => String(view.getInt8(offset)),
  INT16: (view, offset) => String(view.getInt16(offset, true)),
  INT32: (view, offset) => String(view.getInt32(offset, true)),
  INT64: (view, offset) => String(view.getBigInt64(offset, true)),
  FP16: (view, offset) => String(fp16ToNumber(view.getUint16(offset, true))),
  FP32: (view, offset) => String(view.getFloat32(offset, true)),
  FP64: (view, offset) => String(view.getFloat64(offset, true)),
  BF16: (view, offset) => String(bf16ToNumber(view.getUint16(offset, true))),
};

/**
 * The elements of a tensor as text, separated by commas, for traces. BYTES elements are JSON
 * strings, so that a comma inside one cannot be taken for the next.
 */
export function formatTensorData({ datatype, encoding, bytes }: Tensor): string {
  if (encoding === 'json') {
    return Buffer.from(bytes)
      .toString()
      .replaceAll(/[[\]\s]/g, '');
  }
  if (datatype === 'BYTES') {
    return decodeBytesElements(bytes)
      .map((element) => JSON.stringify(Buffer.from(element).toString()))
      .join(',');
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const texts: string[] = [];
  for (let offset = 0; offset < bytes.byteLength; offset += elementBytes[datatype]) {
    texts.push(readers[datatype](view, offset));
  }
  return texts.join(',');
}
