import { type InferenceServerError, invalidArg } from '../errors.js';
import { type Datatype, isDatatype } from '../inference/datatype.js';
import {
  noParameters,
  type Parameters,
  type ParameterValue,
  type SequenceFlags,
} from '../inference/infer-request.js';
import {
  readBoolean,
  readString,
  readUnsigned,
  requireArray,
  requireString,
  unableToParse,
  untilNul,
} from './json-members.js';
import type { JsonText } from './json-scanner.js';
import {
  binaryOutput,
  binaryResponseForm,
  isBinaryOnly,
  isJsonOnly,
  jsonOutput,
  jsonResponseForm,
  type OutputForm,
  type ResponseForm,
} from './response-form.js';
import { ResponseHeaderMemo } from './response-header-memo.js';

/** Where the data of an input is. */
export type InputSource =
  | { readonly type: 'binary'; readonly byteSize: number }
  /** `[start, end)` of the JSON text. */
  | { readonly type: 'json'; readonly start: number; readonly end: number }
  | {
      readonly type: 'shared-memory';
      readonly region: string;
      readonly offset: number;
      readonly byteSize: number;
    };

export interface InputEnvelope {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly source: InputSource;
}

/** All that the JSON part of an infer request says, apart from the elements of its tensors. */
export interface InferEnvelope extends RequestParameters {
  readonly id: string;
  readonly inputs: readonly InputEnvelope[];
  readonly requestedOutputs: readonly string[];
  readonly responseForm: ResponseForm;
  readonly prefersJsonText: boolean;
}

interface RequestParameters {
  readonly parameters: Parameters;
  readonly priority: number;
  readonly timeoutUs: number;
  readonly sequence: SequenceFlags | undefined;
}

/**
 * Reads the JSON part of an infer request (protocol.md 1.6 to 1.8). Throws INVALID_ARG with the
 * reference server's texts, in its order: id, parameters, inputs, outputs.
 */
export function readInferEnvelope(json: JsonText): InferEnvelope {
  const members = new RootMembers(json);
  const id = members.id < 0 ? '' : readString(json, members.id, unableToParse('id'));
  const settings = readParameters(json, members.parameters);
  const inputs = readInputs(json, requireArray(json, members.inputs, 'inputs'), id);
  const responseForm = readOutputs(json, members.outputs, settings.isBinaryOutput);
  return {
    id,
    parameters: settings.parameters,
    priority: settings.priority,
    timeoutUs: settings.timeoutUs,
    sequence: settings.sequence,
    inputs,
    requestedOutputs: [...responseForm.outputs.keys()],
    responseForm: isBinaryOnly(responseForm)
      ? { ...responseForm, headerMemo: new ResponseHeaderMemo() }
      : responseForm,
    prefersJsonText: isJsonOnly(responseForm),
  };
}

class RootMembers {
  id = -1;
  parameters = -1;
  inputs = -1;
  outputs = -1;

  constructor(json: JsonText) {
    if (json.kind(json.root) !== 'object') return;
    for (let key = json.firstMember(json.root); key >= 0; ) {
      const value = json.memberValue(key);
      // The first of several members of one name counts.
      switch (json.string(key)) {
        case 'id':
          if (this.id < 0) this.id = value;
          break;
        case 'parameters':
          if (this.parameters < 0) this.parameters = value;
          break;
        case 'inputs':
          if (this.inputs < 0) this.inputs = value;
          break;
        case 'outputs':
          if (this.outputs < 0) this.outputs = value;
          break;
        default:
      }
      key = json.nextMember(value);
    }
  }
}

const noRequestParameters = {
  parameters: noParameters,
  priority: 0,
  timeoutUs: 0,
  sequence: undefined,
  isBinaryOutput: false,
} as const;

function readParameters(
  json: JsonText,
  at: number,
): RequestParameters & { readonly isBinaryOutput: boolean } {
  if (at < 0) return noRequestParameters;
  if (json.kind(at) !== 'object') {
    throw invalidArg('failed to get request params.: attempt to get members for non-object');
  }
  const parameters = new Map<string, ParameterValue>();
  let priority = 0;
  let timeoutUs = 0;
  let correlationId: bigint | string | undefined;
  let start: boolean | undefined;
  let end: boolean | undefined;
  let isBinaryOutput = false;
  for (let key = json.firstMember(at); key >= 0; ) {
    const value = json.memberValue(key);
    const name = untilNul(json.string(key));
    const lead = unableToParse(name);
    switch (name) {
      case 'sequence_id':
        correlationId ??= readCorrelationId(json, value, lead);
        break;
      case 'sequence_start':
        start ??= readBoolean(json, value, lead);
        break;
      case 'sequence_end':
        end ??= readBoolean(json, value, lead);
        break;
      case 'priority':
        priority = readUnsigned(json, value, lead);
        break;
      case 'timeout':
        timeoutUs = readUnsigned(json, value, lead);
        break;
      case 'binary_data_output':
        isBinaryOutput = readBoolean(json, value, lead);
        break;
      default:
        if (name.startsWith('triton_')) {
          throw invalidArg(
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
          );
        }
        if (!parameters.has(name)) parameters.set(name, readParameterValue(json, value, name));
    }
    key = json.nextMember(value);
  }
  const hasSequence = correlationId !== undefined || start !== undefined || end !== undefined;
  return {
    parameters: parameters.size === 0 ? noParameters : parameters,
    priority,
    timeoutUs,
    sequence: hasSequence
      ? { correlationId: correlationId ?? 0n, start: start ?? false, end: end ?? false }
      : undefined,
    isBinaryOutput,
  };
}

function readCorrelationId(json: JsonText, at: number, lead: string): bigint | string {
  const value = json.kind(at) === 'number' ? json.number(at) : undefined;
  if (typeof value === 'bigint' && value >= 0n) return value;
  return readString(json, at, lead);
}

/** A parameter for the model: string, 64-bit integer, boolean or double. */
export function readParameterValue(json: JsonText, at: number, name: string): ParameterValue {
  switch (json.kind(at)) {
    case 'string':
      return untilNul(json.string(at));
    case 'boolean':
      return json.boolean(at);
    case 'number': {
      const value = json.number(at);
      // Beyond int64 the reference server goes on with a double.
      return typeof value === 'bigint' && value > 0x7fffffffffffffffn ? Number(value) : value;
    }
    case 'object':
    case 'array':
    case 'null':
      throw invalidArg(
        `parameter '${name}' has invalid type. It should be either 'int', 'bool', or 'string'.`,
      );
  }
}

function readInputs(json: JsonText, at: number, id: string): readonly InputEnvelope[] {
  const inputs: InputEnvelope[] = [];
  const names = new Set<string>();
  for (let item = json.firstItem(at); item >= 0; item = json.nextItem(item)) {
    const input = readInput(json, item);
    if (names.has(input.name)) {
      throw invalidArg(
        `[request id: ${id === '' ? '<id_unknown>' : id}] input '${input.name}' already exists in request`,
      );
    }
    names.add(input.name);
    inputs.push(input);
  }
  return inputs;
}

function readInput(json: JsonText, at: number): InputEnvelope {
  let nameAt = -1;
  let datatypeAt = -1;
  let shapeAt = -1;
  let dataAt = -1;
  let parametersAt = -1;
  if (json.kind(at) === 'object') {
    for (let key = json.firstMember(at); key >= 0; ) {
      const value = json.memberValue(key);
      switch (json.string(key)) {
        case 'name':
          if (nameAt < 0) nameAt = value;
          break;
        case 'datatype':
          if (datatypeAt < 0) datatypeAt = value;
          break;
        case 'shape':
          if (shapeAt < 0) shapeAt = value;
          break;
        case 'data':
          if (dataAt < 0) dataAt = value;
          break;
        case 'parameters':
          if (parametersAt < 0) parametersAt = value;
          break;
        default:
      }
      key = json.nextMember(value);
    }
  }
  const settings = new TensorParameters(json, parametersAt);
  checkOneSource(dataAt >= 0, settings);
  const name = requireString(json, nameAt, 'name');
  const datatypeName = requireString(json, datatypeAt, 'datatype');
  const shape = readShape(json, requireArray(json, shapeAt, 'shape'));
  const source = readSource(json, dataAt, settings);
  if (!isDatatype(datatypeName)) throw invalidArg(`invalid datatype for input ${name}`);
  return { name, datatype: datatypeName, shape, source };
}

/** Offsets of what `parameters` of an input or output may hold; -1 where it does not. */
class TensorParameters {
  binaryDataSize = -1;
  binaryData = -1;
  classification = -1;
  region = -1;
  offset = -1;
  byteSize = -1;

  constructor(json: JsonText, at: number) {
    // Anything but an object is passed over, as the reference server does.
    if (at < 0 || json.kind(at) !== 'object') return;
    for (let key = json.firstMember(at); key >= 0; ) {
      const value = json.memberValue(key);
      switch (json.string(key)) {
        case 'binary_data_size':
          if (this.binaryDataSize < 0) this.binaryDataSize = value;
          break;
        case 'binary_data':
          if (this.binaryData < 0) this.binaryData = value;
          break;
        case 'classification':
          if (this.classification < 0) this.classification = value;
          break;
        case 'shared_memory_region':
          if (this.region < 0) this.region = value;
          break;
        case 'shared_memory_offset':
          if (this.offset < 0) this.offset = value;
          break;
        case 'shared_memory_byte_size':
          if (this.byteSize < 0) this.byteSize = value;
          break;
        default:
      }
      key = json.nextMember(value);
    }
  }
}

function checkOneSource(hasData: boolean, settings: TensorParameters): void {
  const found: string[] = [];
  if (hasData) found.push("'data'");
  if (settings.binaryDataSize >= 0) found.push("'binary_data_size'");
  if (settings.region >= 0) found.push("'shared_memory_region'");
  if (found.length === 1) return;
  throw invalidArg(
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', " +
      `'shared_memory_region' in 'parameters'. But ${found.length === 0 ? 'no field is set' : `set ${found.join(' ')}`}`,
  );
}

function readShape(json: JsonText, at: number): number[] {
  const shape: number[] = [];
  for (let item = json.firstItem(at); item >= 0; item = json.nextItem(item)) {
    shape.push(readUnsigned(json, item, unableToParse('shape')));
  }
  return shape;
}

function readSource(json: JsonText, dataAt: number, settings: TensorParameters): InputSource {
  if (settings.binaryDataSize >= 0) {
    const lead = unableToParse('binary_data_size');
    return { type: 'binary', byteSize: readUnsigned(json, settings.binaryDataSize, lead) };
  }
  if (settings.region >= 0) return { type: 'shared-memory', ...readRegion(json, settings) };
  if (json.kind(dataAt) !== 'array') throw notAnArray();
  return { type: 'json', start: dataAt, end: json.skip(dataAt) };
}

function notAnArray(): InferenceServerError {
  return invalidArg("Unable to parse 'data': attempt to access JSON non-array as array");
}

function readRegion(
  json: JsonText,
  settings: TensorParameters,
): { region: string; offset: number; byteSize: number } {
  const { region, offset, byteSize } = settings;
  return {
    region: readString(json, region, unableToParse('shared_memory_region')),
    offset: offset < 0 ? 0 : readUnsigned(json, offset, unableToParse('shared_memory_offset')),
    byteSize:
      byteSize < 0 ? 0 : readUnsigned(json, byteSize, unableToParse('shared_memory_byte_size')),
  };
}

function readOutputs(json: JsonText, at: number, isBinaryOutput: boolean): ResponseForm {
  const fallback = isBinaryOutput ? binaryResponseForm : jsonResponseForm;
  if (at < 0) return fallback;
  requireArray(json, at, 'outputs');
  const outputs = new Map<string, OutputForm>();
  for (let item = json.firstItem(at); item >= 0; item = json.nextItem(item)) {
    const isObject = json.kind(item) === 'object';
    const settings = new TensorParameters(json, isObject ? json.find(item, 'parameters') : -1);
    checkOutput(json, settings);
    const name = requireString(json, isObject ? json.find(item, 'name') : -1, 'name');
    const form = readOutputForm(json, settings);
    if (!outputs.has(name)) outputs.set(name, form);
  }
  if (outputs.size === 0) return fallback;
  return { outputs, unlisted: fallback.unlisted };
}

function checkOutput(json: JsonText, settings: TensorParameters): void {
  if (settings.region < 0) return;
  if (settings.classification >= 0) {
    throw invalidArg("Output can't set both 'shared_memory_region' and 'classification'");
  }
  if (settings.binaryData < 0) return;
  if (readBoolean(json, settings.binaryData, "Unable to set 'binary_data'")) {
    throw invalidArg("Output can't set both 'shared_memory_region' and 'binary_data'");
  }
}

function readOutputForm(json: JsonText, settings: TensorParameters): OutputForm {
  const classificationCount =
    settings.classification < 0
      ? 0
      : readUnsigned(json, settings.classification, "Unable to set 'classification'");
  if (settings.region >= 0) {
    return { isBinary: false, classificationCount, sharedMemory: readRegion(json, settings) };
  }
  const isBinary =
    settings.binaryData >= 0 &&
    readBoolean(json, settings.binaryData, unableToParse('binary_data'));
  if (classificationCount > 0) return { isBinary, classificationCount, sharedMemory: undefined };
  return isBinary ? binaryOutput : jsonOutput;
}
