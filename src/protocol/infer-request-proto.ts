import { type InferenceServerError, invalidArg } from '../errors.js';
import { fromConfigDataType, isDatatype } from '../inference/datatype.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import { formatShape } from '../inference/shape.js';
import type { Tensor } from '../inference/tensor.js';
import type { InferMessage, InputMessage } from './infer-message-proto.js';
import { readRequestParameters } from './request-parameters-proto.js';
import { binaryResponseForm, type OutputForm, type ResponseForm } from './response-form.js';
import type { SharedMemoryRegions } from './shared-memory-regions.js';
import { readTensorContents } from './tensor-contents-proto.js';
import { readOutputForm, readSharedMemory } from './tensor-parameters-proto.js';

/** What must be known of a model to say what is wrong with a request; `ServedModel` is one. */
export interface RequestModel {
  readonly config: {
    readonly input: readonly { readonly name: string; readonly data_type: string }[];
  };
}

/** A request, and the form in which its client wants the answer. */
export interface BoundInferRequest {
  readonly request: InferenceRequest;
  readonly responseForm: ResponseForm;
  readonly wantsEmptyFinalResponse: boolean;
}

/**
 * Makes a request of its message (protocol.md 2.2). Tensors are views of the message wherever their
 * data are there as a tensor has them. Throws INVALID_ARG with the reference server's texts and in
 * its order, or what `regions` throws.
 */
export function bindInferRequest(
  message: InferMessage,
  model: RequestModel,
  regions: SharedMemoryRegions,
): BoundInferRequest {
  const { modelName, modelVersion, id } = message;
  const settings = readRequestParameters(message.parameters);
  checkInputs(message);
  const responseForm = readResponseForm(message);
  const inputs = bindInputs(message, model, regions);
  return {
    request: {
      modelName,
      modelVersion,
      id,
      parameters: settings.parameters,
      priority: settings.priority,
      timeoutUs: settings.timeoutUs,
      sequence: settings.sequence,
      inputs,
      requestedOutputs: [...responseForm.outputs.keys()],
      prefersJsonText: false,
    },
    responseForm,
    wantsEmptyFinalResponse: settings.wantsEmptyFinalResponse,
  };
}

function checkInputs({ inputs, id }: InferMessage): void {
  const names = new Set<string>();
  for (const { name } of inputs) {
    if (names.has(name)) {
      throw invalidArg(`${requestPrefix(id)}input '${name}' already exists in request`);
    }
    names.add(name);
  }
}

function readResponseForm({ outputs }: InferMessage): ResponseForm {
  if (outputs.length === 0) return binaryResponseForm;
  const forms = new Map<string, OutputForm>();
  for (const output of outputs) {
    const form = readOutputForm(output);
    if (!forms.has(output.name)) forms.set(output.name, form);
  }
  return { ...binaryResponseForm, outputs: forms };
}

function bindInputs(
  message: InferMessage,
  model: RequestModel,
  regions: SharedMemoryRegions,
): readonly Tensor[] {
  const { modelName, rawInputs, id } = message;
  let rawCount = 0;
  const tensors = message.inputs.map((input): Tensor => {
    const { name, shape } = input;
    let bytes: Uint8Array | undefined;
    const sharedMemory = readSharedMemory(input);
    if (sharedMemory !== undefined) {
      if (input.contents !== undefined) {
        throw invalidArg(
          `unexpected 'content' provided when using shared memory for input tensor '${name}' for model '${modelName}'`,
        );
      }
      const { region, offset, byteSize } = sharedMemory;
      bytes = regions.read(region, offset, byteSize);
    } else if (input.contents !== undefined) {
      if (rawInputs.length > 0) {
        throw invalidArg(
          `contents field must not be specified when using raw_input_contents for '${name}' for model '${modelName}'`,
        );
      }
      bytes = readTensorContents(input, modelName);
    } else {
      bytes = rawInputs[rawCount++];
      if (bytes === undefined) {
        throw invalidArg(
          `unable to find data for input tensor '${name}' for model '${modelName}' in request.`,
        );
      }
    }
    if (!isDatatype(input.datatype)) throw unknownDatatype(input, message, model);
    if (shape.some((dim) => dim < 0)) {
      throw invalidArg(
        `${requestPrefix(id)}All input dimensions should be specified for input '${name}' for model '${modelName}', got ${formatShape(shape)}`,
      );
    }
    return { name, datatype: input.datatype, shape, encoding: 'raw', bytes };
  });
  if (rawCount < rawInputs.length) {
    // The reference server does not look at the rest, which hides a client's mistake.
    throw invalidArg(
      `${requestPrefix(id)}got ${rawInputs.length} raw_input_contents for ${rawCount} inputs for model '${modelName}'`,
    );
  }
  return tensors;
}

/** The text of the check that compares datatypes, which knows no name for this one. */
function unknownDatatype(
  { name }: InputMessage,
  { modelName, id }: InferMessage,
  model: RequestModel,
): InferenceServerError {
  const configured = model.config.input.find((input) => input.name === name);
  if (configured === undefined) {
    return invalidArg(`unexpected inference input '${name}' for model '${modelName}'`);
  }
  const expected = fromConfigDataType(configured.data_type) ?? '<invalid>';
  return invalidArg(
    `${requestPrefix(id)}inference input '${name}' data-type is '<invalid>', but model '${modelName}' expects '${expected}'`,
  );
}

function requestPrefix(id: string): string {
  return `[request id: ${id === '' ? '<id_unknown>' : id}] `;
}
