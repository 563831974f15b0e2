import { ProtoReader } from './reader-proto.js';

/** A value of `InferParameter`; `none` where its oneof is empty. */
export type ParameterMessage =
  | { readonly kind: 'bool_param'; readonly value: boolean }
  | { readonly kind: 'int64_param' | 'uint64_param'; readonly value: bigint }
  | { readonly kind: 'string_param'; readonly value: string }
  | { readonly kind: 'double_param'; readonly value: number }
  | { readonly kind: 'none' };

/** `map<string, InferParameter>`; where a name comes twice, the last one counts. */
export type ParameterMessages = ReadonlyMap<string, ParameterMessage>;

/** `ModelInferRequest.InferInputTensor`. */
export interface InputMessage {
  readonly name: string;
  /** As the client wrote it: it may be none of ours. */
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly parameters: ParameterMessages;
  /** An `InferTensorContents`, in pieces that follow one another; undefined where there is none. */
  readonly contents: readonly Uint8Array[] | undefined;
}

/** `ModelInferRequest.InferRequestedOutputTensor`. */
export interface OutputMessage {
  readonly name: string;
  readonly parameters: ParameterMessages;
}

/** `ModelInferRequest`, as it came: nothing is checked but its encoding. */
export interface InferMessage {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: ParameterMessages;
  readonly inputs: readonly InputMessage[];
  readonly outputs: readonly OutputMessage[];
  readonly rawInputs: readonly Uint8Array[];
}

const noParameterMessages: ParameterMessages = new Map();
const noParameter: ParameterMessage = { kind: 'none' };

/**
 * Reads a `ModelInferRequest`. Tensor data are views of `message`, which must not change for as
 * long as they are used. Unknown fields are skipped. Throws INVALID_ARG where it is no message.
 */
export function readInferMessage(message: Uint8Array): InferMessage {
  const reader = new ProtoReader(message);
  let modelName = '';
  let modelVersion = '';
  let id = '';
  let parameters: Map<string, ParameterMessage> | undefined;
  const inputs: InputMessage[] = [];
  const outputs: OutputMessage[] = [];
  const rawInputs: Uint8Array[] = [];
  while (reader.next()) {
    switch (reader.tag) {
      case 10:
        modelName = reader.text();
        break;
      case 18:
        modelVersion = reader.text();
        break;
      case 26:
        id = reader.text();
        break;
      case 34:
        parameters = addParameter(parameters, reader.message());
        break;
      case 42:
        inputs.push(readInput(reader.message()));
        break;
      case 50:
        outputs.push(readOutput(reader.message()));
        break;
      case 58:
        rawInputs.push(reader.bytes());
        break;
      default:
        reader.skip();
    }
  }
  return {
    modelName,
    modelVersion,
    id,
    parameters: parameters ?? noParameterMessages,
    inputs,
    outputs,
    rawInputs,
  };
}

function readInput(reader: ProtoReader): InputMessage {
  let name = '';
  let datatype = '';
  const shape: number[] = [];
  let parameters: Map<string, ParameterMessage> | undefined;
  let contents: Uint8Array[] | undefined;
  while (reader.next()) {
    switch (reader.tag) {
      case 10:
        name = reader.text();
        break;
      case 18:
        datatype = reader.text();
        break;
      case 24:
        shape.push(reader.int64Number());
        break;
      case 26: {
        const packed = reader.message();
        while (!packed.isAtEnd) shape.push(packed.int64Number());
        break;
      }
      case 34:
        parameters = addParameter(parameters, reader.message());
        break;
      case 42:
        // A message that comes in several pieces is the pieces one after another.
        contents ??= [];
        contents.push(reader.bytes());
        break;
      default:
        reader.skip();
    }
  }
  return { name, datatype, shape, parameters: parameters ?? noParameterMessages, contents };
}

function readOutput(reader: ProtoReader): OutputMessage {
  let name = '';
  let parameters: Map<string, ParameterMessage> | undefined;
  while (reader.next()) {
    switch (reader.tag) {
      case 10:
        name = reader.text();
        break;
      case 18:
        parameters = addParameter(parameters, reader.message());
        break;
      default:
        reader.skip();
    }
  }
  return { name, parameters: parameters ?? noParameterMessages };
}

/** Adds an entry of a map, which is made with the first; the last one of a name counts. */
function addParameter(
  parameters: Map<string, ParameterMessage> | undefined,
  entry: ProtoReader,
): Map<string, ParameterMessage> {
  let name = '';
  let value = noParameter;
  while (entry.next()) {
    switch (entry.tag) {
      case 10:
        name = entry.text();
        break;
      case 18:
        value = readParameter(entry.message());
        break;
      default:
        entry.skip();
    }
  }
  return (parameters ?? new Map<string, ParameterMessage>()).set(name, value);
}

function readParameter(reader: ProtoReader): ParameterMessage {
  let parameter = noParameter;
  while (reader.next()) {
    switch (reader.tag) {
      case 8:
        parameter = { kind: 'bool_param', value: reader.bool() };
        break;
      case 16:
        parameter = { kind: 'int64_param', value: reader.int64() };
        break;
      case 26:
        parameter = { kind: 'string_param', value: reader.text() };
        break;
      case 33:
        parameter = { kind: 'double_param', value: reader.double() };
        break;
      case 40:
        parameter = { kind: 'uint64_param', value: reader.uint64() };
        break;
      default:
        reader.skip();
    }
  }
  return parameter;
}
