import type { InferenceResponse } from '../inference/infer-response.js';
import type { Tensor } from '../inference/tensor.js';

/**
 * The JSON part of a response whose outputs are all binary depends on nothing but names, datatypes,
 * shapes and sizes, which are the same for almost every answer to requests of one form. Comparing
 * them costs a fifth of writing the text again. Holds one header, so that it needs no limit.
 */
export class ResponseHeaderMemo {
  #header: Uint8Array | undefined;
  #modelName = '';
  #modelVersion = '';
  #outputs: readonly OutputHead[] = [];

  /** The header that was last remembered, if it is also that of `response`. To be read only. */
  find(response: InferenceResponse): Uint8Array | undefined {
    if (this.#header === undefined || response.id !== '' || response.parameters.size > 0) {
      return undefined;
    }
    const { outputs, modelName, modelVersion } = response;
    const known = this.#outputs;
    if (
      outputs.length !== known.length ||
      modelName !== this.#modelName ||
      modelVersion !== this.#modelVersion
    ) {
      return undefined;
    }
    for (let index = 0; index < known.length; index++) {
      if (!isSame(outputs[index], known[index])) return undefined;
    }
    return this.#header;
  }

  /** `header` is kept and must not change. */
  remember(response: InferenceResponse, header: Uint8Array): void {
    if (response.id !== '' || response.parameters.size > 0) return;
    this.#header = header;
    this.#modelName = response.modelName;
    this.#modelVersion = response.modelVersion;
    // Without the bytes: they would keep whole batches in memory.
    this.#outputs = response.outputs.map(({ name, datatype, shape, bytes }) => ({
      name,
      datatype,
      shape,
      byteLength: bytes.byteLength,
    }));
  }
}

interface OutputHead extends Pick<Tensor, 'name' | 'datatype' | 'shape'> {
  readonly byteLength: number;
}

function isSame(output: Tensor | undefined, known: OutputHead | undefined): boolean {
  return (
    output !== undefined &&
    known !== undefined &&
    output.encoding === 'raw' &&
    output.bytes.byteLength === known.byteLength &&
    output.name === known.name &&
    output.datatype === known.datatype &&
    isSameShape(output.shape, known.shape)
  );
}

function isSameShape(left: readonly number[], right: readonly number[]): boolean {
  if (left === right) return true;
  if (left.length !== right.length) return false;
  for (let index = 0; index < left.length; index++) {
    if (left[index] !== right[index]) return false;
  }
  return true;
}
