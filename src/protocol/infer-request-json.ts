import { InferenceServerError, invalidArg } from '../errors.js';
import { elementBytes } from '../inference/datatype.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import { elementCount } from '../inference/shape.js';
import type { Tensor } from '../inference/tensor.js';
import type { EnvelopeCache } from './envelope-cache.js';
import { type InferEnvelope, type InputEnvelope, readInferEnvelope } from './infer-envelope.js';
import { namingPlace } from './json-members.js';
import { JsonText } from './json-scanner.js';
import type { ResponseForm } from './response-form.js';
import type { SharedMemoryRegions } from './shared-memory-regions.js';
import { decodeBytesJson, decodeTensorJson } from './tensor-json.js';

/** Which model a path names; version '' is by policy. */
export interface InferTarget {
  readonly modelName: string;
  readonly modelVersion: string;
}

/** Bounds on what a request may declare. */
export interface InferLimits {
  /** `--http-max-input-size`: bytes of the JSON part, and of each tensor that JSON declares. */
  readonly inputBytesMax: number;
}

/** A request, and the form in which its client wants the answer. */
export interface ParsedInferRequest {
  readonly request: InferenceRequest;
  readonly responseForm: ResponseForm;
}

/**
 * `data` arrays of more text than this stay text, for the instance's thread to decode. Decoding
 * costs about 3 ns a byte (19 bytes of an FP32 element in 58 ns), so that this is 50 us: what the
 * event loop may spend on one request, and more than a message to another thread costs.
 */
export const deferredBytesMin = 16_384;

/** `data` arrays longer than this are found by native search, and checked when they are decoded. */
const searchedBytesMin = 256;

/**
 * Reads an infer request: `jsonByteLength` bytes of JSON, then the binary section. Binary tensors
 * are views of `body`, which must not change until the request ends; lay the binary section on an
 * 8-byte boundary. Throws `InferenceServerError`: INVALID_ARG with the reference server's text, or
 * what `regions` throws.
 */
export function parseInferRequest(
  target: InferTarget,
  body: Uint8Array,
  jsonByteLength: number,
  limits: InferLimits,
  regions: SharedMemoryRegions,
  envelopes: EnvelopeCache,
): ParsedInferRequest {
  if (jsonByteLength > limits.inputBytesMax) {
    throw invalidArg(
      `request JSON size of ${jsonByteLength} bytes exceeds the maximum allowed input size of ` +
        `${limits.inputBytesMax} bytes. Use --http-max-input-size to increase the limit.`,
    );
  }
  const hasBinary = jsonByteLength < body.length;
  let envelope = hasBinary ? envelopes.get(body, jsonByteLength) : undefined;
  if (envelope === undefined) {
    envelope = readInferEnvelope(readJson(body, jsonByteLength));
    if (hasBinary) envelopes.offer(body, jsonByteLength, envelope);
  }
  const inputs = bindInputs(envelope, target, body, jsonByteLength, limits, regions);
  return {
    request: {
      modelName: target.modelName,
      modelVersion: target.modelVersion,
      id: envelope.id,
      parameters: envelope.parameters,
      priority: envelope.priority,
      timeoutUs: envelope.timeoutUs,
      sequence: envelope.sequence,
      inputs,
      requestedOutputs: envelope.requestedOutputs,
      prefersJsonText: envelope.prefersJsonText,
    },
    responseForm: envelope.responseForm,
  };
}

function readJson(body: Uint8Array, jsonByteLength: number): JsonText {
  try {
    return new JsonText(body, jsonByteLength, searchedBytesMin);
  } catch (error) {
    if (jsonByteLength < body.byteLength || !(error instanceof InferenceServerError)) throw error;
    if (!body.includes(0) && !/root must not be followed/.test(error.message)) throw error;
    // Most likely tensors in binary, sent without saying where the JSON ends.
    throw invalidArg(
      `${error.message}; a body with binary data needs the header Inference-Header-Content-Length`,
      error,
    );
  }
}

function bindInputs(
  envelope: InferEnvelope,
  target: InferTarget,
  body: Uint8Array,
  jsonByteLength: number,
  limits: InferLimits,
  regions: SharedMemoryRegions,
): readonly Tensor[] {
  const inputs: Tensor[] = [];
  // Read once: on Node 20 each of these calls into the runtime, for about 20 ns; `length` does not.
  const { buffer, byteOffset, length } = body;
  let at = jsonByteLength;
  for (const input of envelope.inputs) {
    const { name, datatype, shape, source } = input;
    switch (source.type) {
      case 'binary': {
        const missing = at + source.byteSize - length;
        if (missing > 0) {
          throw invalidArg(
            `unexpected size for input '${name}', expecting ${missing} additional bytes for model '${target.modelName}'`,
          );
        }
        const bytes = new Uint8Array(buffer, byteOffset + at, source.byteSize);
        inputs.push({ name, datatype, shape, encoding: 'raw', bytes });
        at += source.byteSize;
        break;
      }
      case 'shared-memory': {
        const bytes = regions.read(source.region, source.offset, source.byteSize);
        inputs.push({ name, datatype, shape, encoding: 'raw', bytes });
        break;
      }
      case 'json':
        inputs.push(bindJson(input, body.subarray(source.start, source.end), limits));
        break;
    }
  }
  if (at < length) {
    throw invalidArg(`unexpected additional input data for model '${target.modelName}'`);
  }
  return inputs;
}

/** Beyond this an element count does not fit the reference server's int64. */
const elementCountMax = 2 ** 63;

function bindJson(input: InputEnvelope, text: Uint8Array, limits: InferLimits): Tensor {
  const { name, datatype, shape } = input;
  // Of no dimension or a dimension of 0: there is no data, whatever `data` holds.
  const count = shape.length === 0 ? 0 : elementCount(shape);
  if (count === 0) return { name, datatype, shape, encoding: 'raw', bytes: new Uint8Array(0) };
  if (datatype === 'FP16' || datatype === 'BF16') {
    throw invalidArg(
      `receiving ${datatype} data via JSON is not supported. Please use the binary data format for input ${name}`,
    );
  }
  // A shape that no memory could hold is left to the request validation, which first compares it
  // with the model's.
  if (count >= elementCountMax) return { name, datatype, shape, encoding: 'json', bytes: text };
  const byteSize = datatype === 'BYTES' ? text.byteLength : count * elementBytes[datatype];
  if (byteSize > limits.inputBytesMax) throw inputTooLarge(name, byteSize, limits);
  if (text.byteLength > deferredBytesMin) {
    return { name, datatype, shape, encoding: 'json', bytes: text };
  }
  // How many strings there are is checked with the model at hand, as for binary BYTES.
  try {
    const bytes =
      datatype === 'BYTES' ? decodeBytesJson(text).bytes : decodeTensorJson(datatype, shape, text);
    return { name, datatype, shape, encoding: 'raw', bytes };
  } catch (error) {
    throw namingPlace(error, `input '${name}'`);
  }
}

function inputTooLarge(name: string, byteSize: number, limits: InferLimits): InferenceServerError {
  return invalidArg(
    `JSON input '${name}' has a byte_size (${byteSize} bytes) that exceeds the maximum allowed value of ` +
      `${limits.inputBytesMax} bytes. Use --http-max-input-size to increase the limit.`,
  );
}
