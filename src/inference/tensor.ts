import type { Datatype } from './datatype.js';

/**
 * A tensor as it travels between the wire and a model instance: contiguous, row-major.
 *
 * `encoding` says what `bytes` holds:
 * - `raw`: the protocol's binary form: little-endian elements, BOOL one byte each (0 or 1), BYTES
 *   elements each behind a 4-byte little-endian length.
 * - `json`: the UTF-8 text of a JSON array, not decoded (in) or ready to be joined into a body
 *   (out). Large arrays take this form so that the event loop never works per element: the
 *   instance's thread decodes and encodes them.
 *
 * `bytes` may be a view into a larger buffer that other tensors share. Whoever holds the tensor
 * may read it and must not write it.
 */
export interface Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly encoding: 'raw' | 'json';
  readonly bytes: Uint8Array;
}
