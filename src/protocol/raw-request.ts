import { internal, invalidArg } from '../errors.js';
import { writeElementLength } from '../inference/bytes-elements.js';
import { elementBytes, fromConfigDataType } from '../inference/datatype.js';
import { noParameters } from '../inference/infer-request.js';
import type { ModelConfig } from '../model-config/model-config.js';
import type { InferLimits, InferTarget, ParsedInferRequest } from './infer-request-json.js';
import { binaryResponseForm } from './response-form.js';

const prefix = '[request id: <id_unknown>] ';

/**
 * Reads a raw binary request (`Inference-Header-Content-Length: 0`): the whole body is the model's
 * only input, its shape is deduced, and all outputs leave in binary. The tensor is a view of `body`
 * unless it is BYTES. Throws INVALID_ARG.
 */
export function parseRawRequest(
  target: InferTarget,
  body: Uint8Array,
  config: ModelConfig,
  limits: InferLimits,
): ParsedInferRequest {
  if (body.byteLength > limits.inputBytesMax) {
    throw invalidArg(
      `Raw input has a byte_size (${body.byteLength} bytes) that exceeds the maximum allowed value of ` +
        `${limits.inputBytesMax} bytes. Use --http-max-input-size to increase the limit.`,
    );
  }
  const [input] = config.input;
  if (input === undefined || config.input.length !== 1) {
    throw invalidArg(
      `${prefix}Raw request must only have 1 input (found 1) to be deduced but got ${config.input.length} inputs in '${config.name}' model configuration`,
    );
  }
  const datatype = fromConfigDataType(input.data_type);
  if (datatype === undefined) {
    throw internal(`input '${input.name}' has datatype ${input.data_type}; this is a bug`);
  }
  const { shape, variableAt, fixedCount } = readDims(input.name, input.dims, config);
  let bytes = body;
  if (datatype === 'BYTES') {
    if (variableAt >= 0 || fixedCount !== 1) {
      throw invalidArg(
        `${prefix}For BYTE datatype raw input '${input.name}', the model must have input shape [1]`,
      );
    }
    bytes = new Uint8Array(body.byteLength + 4);
    writeElementLength(bytes, 0, body.byteLength);
    bytes.set(body, 4);
  } else {
    const unit = fixedCount * elementBytes[datatype];
    if (variableAt >= 0) shape[variableAt] = Math.floor(body.byteLength / unit);
    const expected = unit * (variableAt >= 0 ? (shape[variableAt] ?? 0) : 1);
    if (body.byteLength !== expected) {
      throw invalidArg(
        `${prefix}input byte size mismatch for input 'raw_input' for model '${config.name}'. Expected ${expected}, got ${body.byteLength}`,
      );
    }
  }
  return {
    request: {
      modelName: target.modelName,
      modelVersion: target.modelVersion,
      id: '',
      parameters: noParameters,
      priority: 0,
      timeoutUs: 0,
      sequence: undefined,
      inputs: [{ name: input.name, datatype, shape, encoding: 'raw', bytes }],
      requestedOutputs: [],
      prefersJsonText: false,
    },
    responseForm: binaryResponseForm,
  };
}

interface RawDims {
  readonly shape: number[];
  /** Index of the dimension to be deduced; -1 where all are fixed. */
  readonly variableAt: number;
  readonly fixedCount: number;
}

function readDims(name: string, dims: readonly number[], config: ModelConfig): RawDims {
  const shape = config.max_batch_size > 0 ? [1] : [];
  let variableAt = -1;
  let fixedCount = 1;
  for (const dim of dims) {
    if (dim !== -1) {
      fixedCount *= dim;
    } else if (variableAt >= 0) {
      throw invalidArg(
        `${prefix}The shape of the raw input '${name}' can not be deduced because there are more than one variable-sized dimension`,
      );
    } else {
      variableAt = shape.length;
    }
    shape.push(dim);
  }
  return { shape, variableAt, fixedCount };
}
