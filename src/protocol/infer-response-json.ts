import { internal } from '../errors.js';
import type { Parameters, ParameterValue } from '../inference/infer-request.js';
import type { InferenceResponse } from '../inference/infer-response.js';
import type { Tensor } from '../inference/tensor.js';
import { classify } from './classification.js';
import { appendJsonString, encodeText } from './json-text.js';
import type { OutputForm, ResponseForm } from './response-form.js';
import type { RememberedHeader } from './response-header-memo.js';
import type { SharedMemoryRegions } from './shared-memory-regions.js';
import { doubleText, encodeTensorJson, rawElementCount, tensorText } from './tensor-text.js';

/** What the codec must know of the model that answered; `ServedModel` is one. */
export interface ResponseModel {
  readonly config: { readonly max_batch_size: number };
  /** Output name → its labels. */
  readonly labels: ReadonlyMap<string, readonly string[]>;
}

/** An HTTP answer to an inference request, ready to be written. */
export interface EncodedInferResponse {
  /**
   * Bytes of the JSON part where a binary section follows: the answer is `application/octet-stream`
   * with this as its `Inference-Header-Content-Length`. Undefined where all of it is JSON.
   */
  readonly jsonByteLength: number | undefined;
  /** The body in order. Views of the outputs and of remembered headers: to be read only. */
  readonly parts: readonly Uint8Array[];
  readonly byteLength: number;
}

/** Raw outputs of up to this many bytes are printed into the header's string. */
const inlineBytesMax = 4096;

/**
 * A response in the form that its request asked for. Outputs that were not
 * asked for are left out; those in shared memory are written there. Throws INVALID_ARG for an
 * output that has no such form, INTERNAL for one whose bytes are not its shape or don't fit its
 * shared memory, and what `regions` throws.
 */
export function encodeInferResponse(
  response: InferenceResponse,
  form: ResponseForm,
  model: ResponseModel,
  regions: SharedMemoryRegions,
): EncodedInferResponse {
  const remembered = form.headerMemo?.find(response);
  if (remembered !== undefined) return joinBinary(remembered, form, response);
  const writer = new ResponseWriter();
  writer.open(response);
  let isFirst = true;
  for (const output of response.outputs) {
    const listed = form.outputs.get(output.name);
    if (listed === undefined && form.outputs.size > 0) continue;
    if (!isFirst) writer.append(',');
    isFirst = false;
    writeOutput(writer, output, listed ?? form.unlisted, model, regions);
  }
  writer.append(']}');
  const encoded = writer.finish();
  const [header] = encoded.parts;
  if (header !== undefined && form.headerMemo !== undefined) {
    form.headerMemo.remember(response, header, encodeText(opening(response)).byteLength);
  }
  return encoded;
}

/** A response whose header is at hand. Its outputs are all binary. */
function joinBinary(
  header: RememberedHeader,
  form: ResponseForm,
  response: InferenceResponse,
): EncodedInferResponse {
  const parts: Uint8Array[] =
    response.id === '' ? [header.whole] : [encodeText(opening(response)), header.tail];
  let jsonByteLength = 0;
  for (const part of parts) jsonByteLength += part.length;
  let byteLength = jsonByteLength;
  for (const { name, bytes } of response.outputs) {
    const { length } = bytes;
    if (length === 0 || (form.outputs.size > 0 && !form.outputs.has(name))) continue;
    parts.push(bytes);
    byteLength += length;
  }
  return {
    jsonByteLength: byteLength > jsonByteLength ? jsonByteLength : undefined,
    parts,
    byteLength,
  };
}

/** The start of a response up to and with the id's comma. */
function opening({ id }: InferenceResponse): string {
  return id === '' ? '{' : `${appendJsonString('{"id":', id)},`;
}

function writeOutput(
  writer: ResponseWriter,
  output: Tensor,
  form: OutputForm,
  model: ResponseModel,
  regions: SharedMemoryRegions,
): void {
  if (form.sharedMemory !== undefined) {
    const { region, offset, byteSize } = form.sharedMemory;
    if (output.bytes.byteLength > byteSize) {
      // The client's mistake, but the reference server answers 500.
      throw internal(
        `shared memory size specified with the request for output '${output.name}' (${byteSize} bytes) should be at least ${output.bytes.byteLength} bytes to hold the results`,
      );
    }
    regions.write(region, offset, output.bytes);
    writer.openOutput(output);
    writer.append('}');
    return;
  }
  const tensor =
    form.classificationCount > 0
      ? classify(
          output,
          form.classificationCount,
          model.config.max_batch_size > 0,
          model.labels.get(output.name) ?? [],
        )
      : output;
  writer.openOutput(tensor);
  if (form.isBinary) writer.binary(tensor);
  else writer.data(tensor);
  writer.append('}');
}

/** Collects the JSON part, mostly as one string, and the binary section. */
class ResponseWriter {
  #text = '';
  readonly #json: Uint8Array[] = [];
  readonly #binary: Uint8Array[] = [];
  #binaryByteLength = 0;

  append(text: string): void {
    this.#text += text;
  }

  open(response: InferenceResponse): void {
    this.#text = appendJsonString(`${opening(response)}"model_name":`, response.modelName);
    this.#text = appendJsonString(`${this.#text},"model_version":`, response.modelVersion);
    if (response.parameters.size > 0) {
      this.#text += `,"parameters":{${parametersText(response.parameters)}}`;
    }
    this.#text += ',"outputs":[';
  }

  openOutput({ name, datatype, shape }: Tensor): void {
    this.#text = `${appendJsonString(`${this.#text}{"name":`, name)},"datatype":"${datatype}","shape":[${shape.join(',')}]`;
  }

  binary(tensor: Tensor): void {
    if (tensor.encoding !== 'raw') throw internal('binary form of a text output; this is a bug');
    this.#text += `,"parameters":{"binary_data_size":${tensor.bytes.byteLength}}`;
    if (tensor.bytes.byteLength === 0) return;
    this.#binary.push(tensor.bytes);
    this.#binaryByteLength += tensor.bytes.byteLength;
  }

  data({ datatype, encoding, bytes, name, shape }: Tensor): void {
    this.#text += ',"data":';
    if (encoding === 'json') {
      this.#appendBytes(bytes);
      return;
    }
    let count = 1;
    for (const dim of shape) count *= dim;
    if (datatype === 'FP16' || datatype === 'BF16') tensorText(datatype, bytes);
    if (rawElementCount(datatype, bytes) !== count) {
      throw internal(`output tensor shape does not match size of output for '${name}'`);
    }
    if (bytes.byteLength <= inlineBytesMax) this.#text += tensorText(datatype, bytes);
    else this.#appendBytes(encodeTensorJson(datatype, bytes));
  }

  finish(): EncodedInferResponse {
    this.#flush();
    let jsonByteLength = 0;
    for (const part of this.#json) jsonByteLength += part.byteLength;
    if (this.#binary.length === 0) {
      return { jsonByteLength: undefined, parts: this.#json, byteLength: jsonByteLength };
    }
    return {
      jsonByteLength,
      parts: [...this.#json, ...this.#binary],
      byteLength: jsonByteLength + this.#binaryByteLength,
    };
  }

  #appendBytes(bytes: Uint8Array): void {
    this.#flush();
    this.#json.push(bytes);
  }

  #flush(): void {
    if (this.#text === '') return;
    this.#json.push(encodeText(this.#text));
    this.#text = '';
  }
}

/** Members of a JSON object for parameters, without its braces. */
export function parametersText(parameters: Parameters): string {
  let text = '';
  for (const [name, value] of parameters) {
    const separator = text === '' ? '' : ',';
    text = `${appendJsonString(text + separator, name)}:${parameterText(value)}`;
  }
  return text;
}

/** A parameter as JSON; a double keeps its point, as in the reference server. */
export function parameterText(value: ParameterValue): string {
  if (typeof value === 'string') return appendJsonString('', value);
  return typeof value === 'number' ? doubleText(value) : `${value}`;
}
