import type { InferenceSession } from 'onnxruntime-node';
import { invalidArg } from '../../errors.js';
import type { TensorMetadata } from '../../inference/model-metadata.js';
import type { ModelSignature } from '../../model-config/auto-complete.js';
import { fromRuntimeType } from './onnx-tensors.js';

/**
 * Inputs and outputs of a loaded model. Initializers that are graph inputs too are not among them:
 * onnxruntime-node neither names them nor takes values for them, so they keep the file's value.
 * Throws INVALID_ARG where one is not a tensor that the protocol can carry.
 */
export function readSignature(session: InferenceSession, modelName: string): ModelSignature {
  const read = (role: string, metadata: InferenceSession.ValueMetadata): TensorMetadata => {
    if (!metadata.isTensor) {
      throw invalidArg(`${role} '${metadata.name}' for model '${modelName}' is not a tensor`);
    }
    const datatype = fromRuntimeType(metadata.type);
    if (datatype === undefined) {
      throw invalidArg(
        `unsupported datatype ${metadata.type} for ${role} '${metadata.name}' for model '${modelName}'`,
      );
    }
    const shape = metadata.shape.map((dim) => (typeof dim === 'number' ? dim : -1));
    return { name: metadata.name, datatype, shape };
  };
  return {
    inputs: session.inputMetadata.map((metadata) => read('input', metadata)),
    outputs: session.outputMetadata.map((metadata) => read('output', metadata)),
    optionalInputs: [],
  };
}
