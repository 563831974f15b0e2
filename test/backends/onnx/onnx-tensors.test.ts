import { expect, it } from 'vitest';
import { fromRuntimeTensor, toRuntimeTensor } from '../../../src/backends/onnx/onnx-tensors.js';
import type { Tensor } from '../../../src/inference/tensor.js';

it('numbers are a view of the same bytes', () => {
  const buffer = new ArrayBuffer(128);
  const bytes = new Uint8Array(buffer, 64, 8);
  const tensor: Tensor = { name: 'X', datatype: 'FP32', shape: [2], encoding: 'raw', bytes };
  const { data, dims } = toRuntimeTensor(tensor, [2, 1]);
  expect(dims).toEqual([2, 1]);
  expect(data).toBeInstanceOf(Float32Array);
  expect(ArrayBuffer.isView(data) && [data.buffer === buffer, data.byteOffset]).toEqual([true, 64]);
  const back = fromRuntimeTensor('Y', toRuntimeTensor(tensor, [2]), [2]);
  expect(back).toMatchObject({ name: 'Y', datatype: 'FP32', shape: [2], encoding: 'raw' });
  expect(back.bytes.buffer).toBe(buffer);
});

it('BF16 is refused: the runtime’s binding has no such type', () => {
  const tensor: Tensor = {
    name: 'X',
    datatype: 'BF16',
    shape: [1],
    encoding: 'raw',
    bytes: new Uint8Array(2),
  };
  expect(() => toRuntimeTensor(tensor, [1])).toThrow(
    "unsupported datatype TYPE_BF16 for input 'X'",
  );
});
