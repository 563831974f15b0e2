import { internal } from '../errors.js';
import type { Parameters, ParameterValue } from '../inference/infer-request.js';
import type { InferenceResponse } from '../inference/infer-response.js';
import type { Tensor } from '../inference/tensor.js';
import { classify } from './classification.js';
import type { OutputForm, ResponseForm } from './response-form.js';
import type { SharedMemoryRegions } from './shared-memory-regions.js';
import { ProtoWriter } from './writer-proto.js';

/** What the codec must know of the model that answered; `ServedModel` is one. */
export interface ResponseModel {
  readonly config: { readonly max_batch_size: number };
  /** Output name → its labels. */
  readonly labels: ReadonlyMap<string, readonly string[]>;
}

const noBytes = new Uint8Array(0);

/**
 * A `ModelInferResponse` (protocol.md 2.2): outputs that were asked for, each with its bytes in
 * `raw_output_contents`, which are empty for those that were written to shared memory. Throws
 * INVALID_ARG for an output that has no such form, INTERNAL for shared memory that is too small,
 * and what `regions` throws.
 */
export function encodeInferResponse(
  response: InferenceResponse,
  form: ResponseForm,
  model: ResponseModel,
  regions: SharedMemoryRegions,
): Buffer {
  return writeResponse(response, response.parameters, form, model, regions).finish();
}

/** The same as one message of a stream, which says whether more follow for the request. */
export function encodeStreamResponse(
  response: InferenceResponse,
  isFinal: boolean,
  form: ResponseForm,
  model: ResponseModel,
  regions: SharedMemoryRegions,
): Buffer {
  const parameters = new Map([...response.parameters, ['triton_final_response', isFinal]]);
  const message = writeResponse(response, parameters, form, model, regions);
  return new ProtoWriter().message(18, message).finish();
}

/** The end of a request whose last response was not known to be the last. */
export function encodeEmptyFinalResponse(
  request: Pick<InferenceResponse, 'modelName' | 'modelVersion' | 'id'>,
): Buffer {
  const message = writeHead(request, new Map([['triton_final_response', true]]));
  return new ProtoWriter().message(18, message).finish();
}

/** The failure of one request of a stream. */
export function encodeStreamError(errorMessage: string, id: string): Buffer {
  const response = new ProtoWriter();
  if (id !== '') response.text(26, id);
  return new ProtoWriter().text(10, errorMessage).message(18, response).finish();
}

function writeResponse(
  response: InferenceResponse,
  parameters: Parameters,
  form: ResponseForm,
  model: ResponseModel,
  regions: SharedMemoryRegions,
): ProtoWriter {
  const writer = writeHead(response, parameters);
  const contents: Uint8Array[] = [];
  for (const output of response.outputs) {
    const listed = form.outputs.get(output.name);
    if (listed === undefined && form.outputs.size > 0) continue;
    const tensor = placeOutput(output, listed ?? form.unlisted, model, regions);
    writeOutput(writer, tensor);
    contents.push(tensor.bytes);
  }
  for (const bytes of contents) writer.bytes(50, bytes);
  return writer;
}

function writeHead(
  { modelName, modelVersion, id }: Pick<InferenceResponse, 'modelName' | 'modelVersion' | 'id'>,
  parameters: Parameters,
): ProtoWriter {
  const writer = new ProtoWriter();
  if (modelName !== '') writer.text(10, modelName);
  if (modelVersion !== '') writer.text(18, modelVersion);
  if (id !== '') writer.text(26, id);
  for (const [name, value] of parameters) {
    const entry = new ProtoWriter().text(10, name).message(18, writeParameter(value));
    writer.message(34, entry);
  }
  return writer;
}

function writeParameter(value: ParameterValue): ProtoWriter {
  const writer = new ProtoWriter();
  if (typeof value === 'boolean') return writer.bool(8, value);
  if (typeof value === 'bigint') return writer.integer(16, value);
  if (typeof value === 'string') return writer.text(26, value);
  return writer.double(33, value);
}

function writeOutput(writer: ProtoWriter, { name, datatype, shape }: Tensor): void {
  const output = new ProtoWriter().text(10, name).text(18, datatype).packed(26, shape);
  writer.message(42, output);
}

/** The output as the message has it: no bytes where they went to shared memory. */
function placeOutput(
  output: Tensor,
  form: OutputForm,
  model: ResponseModel,
  regions: SharedMemoryRegions,
): Tensor {
  if (output.encoding !== 'raw') throw internal('binary form of a text output; this is a bug');
  if (form.sharedMemory !== undefined) {
    const { region, offset, byteSize } = form.sharedMemory;
    if (output.bytes.byteLength > byteSize) {
      throw internal(
        `shared memory size specified with the request for output '${output.name}' (${byteSize} bytes) should be at least ${output.bytes.byteLength} bytes to hold the results`,
      );
    }
    regions.write(region, offset, output.bytes);
    return { ...output, bytes: noBytes };
  }
  if (form.classificationCount === 0) return output;
  const labels = model.labels.get(output.name) ?? [];
  return classify(output, form.classificationCount, model.config.max_batch_size > 0, labels);
}
