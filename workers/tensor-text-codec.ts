import type { Tensor } from '../src/inference/tensor.js';

/**
 * JSON text ↔ raw bytes of large tensors. The code for it is loaded when the first such tensor
 * comes: most threads never see one, and each holds its own copy.
 */
export interface TensorTextCodec {
  /** `tensors` with every `json` one decoded. Rejects with INVALID_ARG where a text is wrong. */
  decode(tensors: readonly Tensor[]): Promise<readonly Tensor[]>;
  /** True where {@link encodeLarge} would encode the tensor. */
  isLarge(tensor: Tensor): boolean;
  /** `tensors` with every large one as JSON text. */
  encodeLarge(tensors: readonly Tensor[]): Promise<readonly Tensor[]>;
}

/**
 * Raw bytes from which an output is written as JSON text in the instance's thread. Smaller ones
 * are cheaper to write where the response is put together.
 */
const textBytesMin = 16_384;

export const tensorTextCodec: TensorTextCodec = {
  async decode(tensors) {
    if (tensors.every((tensor) => tensor.encoding === 'raw')) return tensors;
    const { decodeTensorJson } = await import('../src/protocol/tensor-json.js');
    return tensors.map((tensor) => {
      if (tensor.encoding === 'raw') return tensor;
      const { datatype, shape, bytes } = tensor;
      return { ...tensor, encoding: 'raw', bytes: decodeTensorJson(datatype, shape, bytes) };
    });
  },
  isLarge,
  async encodeLarge(tensors) {
    if (!tensors.some(isLarge)) return tensors;
    const { encodeTensorJson } = await import('../src/protocol/tensor-text.js');
    return tensors.map((tensor) =>
      isLarge(tensor)
        ? { ...tensor, encoding: 'json', bytes: encodeTensorJson(tensor.datatype, tensor.bytes) }
        : tensor,
    );
  },
};

/** FP16 and BF16 have no JSON form; the front end says so in its own words. */
function isLarge(tensor: Tensor): boolean {
  return (
    tensor.encoding === 'raw' &&
    tensor.bytes.byteLength >= textBytesMin &&
    tensor.datatype !== 'FP16' &&
    tensor.datatype !== 'BF16'
  );
}
