import type { InferenceResponse } from '../inference/infer-response.js';
import type { Tensor } from '../inference/tensor.js';

/**
 * The JSON part of a response whose outputs are all binary depends on nothing but names, datatypes,
 * shapes and sizes, which are the same for almost every answer to requests of one form. Comparing
 * them costs a fifth of writing the text again. Holds one header, so that it needs no limit.
 */
export class ResponseHeaderMemo {
  #header: RememberedHeader | undefined;
  #modelName = '';
  #modelVersion = '';
  #outputs: readonly OutputHead[] = [];

  /** The header that was last remembered, if it is, but for the id, that of `response`. */
  find(response: InferenceResponse): RememberedHeader | undefined {
    if (this.#header === undefined || response.parameters.size > 0) return undefined;
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

  /** `whole` is the header of `response`, `behindId` how many bytes of it end with the id's comma. */
  remember(response: InferenceResponse, whole: Uint8Array, behindId: number): void {
    if (response.parameters.size > 0) return;
    const tail = whole.subarray(behindId);
    this.#header = { tail, whole: behindId === 1 ? whole : Buffer.concat([brace, tail]) };
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

/** To be read only. */
export interface RememberedHeader {
  /** Of a response without an id. */
  readonly whole: Uint8Array;
  /** What follows the id, or the opening brace. */
  readonly tail: Uint8Array;
}

const brace = Buffer.from('{');

interface OutputHead extends Pick<Tensor, 'name' | 'datatype' | 'shape'> {
  readonly byteLength: number;
}

function isSame(output: Tensor | undefined, known: OutputHead | undefined): boolean {
  return (
    output !== undefined &&
    known !== undefined &&
    output.encoding === 'raw' &&
    output.bytes.length === known.byteLength &&
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
