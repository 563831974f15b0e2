import { type InferenceServerError, invalidArg } from '../errors.js';
import { type Datatype, isDatatype } from '../inference/datatype.js';
import {
  namingPlace,
  readBoolean,
  readString,
  readUnsigned,
  requireArray,
  requireString,
  unableToParse,
} from './json-members.js';
import type { JsonText } from './json-scanner.js';
import { type RequestParameters, readRequestParameters } from './request-parameters.js';
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
import { readRegion, TensorParameters } from './tensor-parameters.js';

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

/** An input as its JSON object declares it, its data still where they arrived. */
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

/**
 * Reads the JSON part of an infer request. Throws INVALID_ARG with the
 * reference server's texts, in its order: id, parameters, inputs, outputs.
 */
export function readInferEnvelope(json: JsonText): InferEnvelope {
  const members = new RootMembers(json);
  const id = members.id < 0 ? '' : readString(json, members.id, unableToParse('id'));
  const settings = readRequestParameters(json, members.parameters);
  const inputs = readInputs(json, requireArray(json, members.inputs, 'inputs'), id);
  const responseForm = readOutputs(json, members.outputs, settings.isBinaryOutput);
  return {
    id,
    parameters: settings.parameters,
    priority: settings.priority,
    timeoutUs: settings.timeoutUs,
    sequence: settings.sequence,
    inputs,
    requestedOutputs: responseForm.outputs.size === 0 ? noNames : [...responseForm.outputs.keys()],
    responseForm: withHeaderMemo(responseForm),
    prefersJsonText: isJsonOnly(responseForm),
  };
}

const noNames: readonly string[] = [];

function withHeaderMemo(form: ResponseForm): ResponseForm {
  if (!isBinaryOnly(form)) return form;
  const { outputs, unlisted } = form;
  return { outputs, unlisted, headerMemo: new ResponseHeaderMemo() };
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

/** No model has as many; each costs microseconds before validation could refuse them. */
const tensorsMax = 1024;

function readInputs(json: JsonText, at: number, id: string): readonly InputEnvelope[] {
  const inputs: InputEnvelope[] = [];
  for (let item = json.firstItem(at); item >= 0; item = json.nextItem(item)) {
    if (inputs.length === tensorsMax) throw tooMany('inputs');
    const input = readInput(json, item, inputs.length);
    if (hasName(inputs, input.name)) {
      throw invalidArg(
        `[request id: ${id === '' ? '<id_unknown>' : id}] input '${input.name}' already exists in request`,
      );
    }
    inputs.push(input);
  }
  return inputs;
}

/** A set would cost more than looking at the few inputs that there are. */
function hasName(inputs: readonly InputEnvelope[], name: string): boolean {
  for (const input of inputs) {
    if (input.name === name) return true;
  }
  return false;
}

function tooMany(member: string): InferenceServerError {
  return invalidArg(`Unable to parse '${member}': more than ${tensorsMax} of them`);
}

function readInput(json: JsonText, at: number, index: number): InputEnvelope {
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
  const name = nameOf(json, nameAt, 'inputs', index);
  try {
    const datatype = requireString(json, datatypeAt, 'datatype');
    const shape = readShape(json, requireArray(json, shapeAt, 'shape'));
    const source = readSource(json, dataAt, settings);
    if (!isDatatype(datatype)) throw invalidArg(`invalid datatype for input ${name}`);
    return { name, datatype, shape, source };
  } catch (error) {
    throw namingPlace(error, `input '${name}'`);
  }
}

function nameOf(json: JsonText, at: number, member: string, index: number): string {
  try {
    return requireString(json, at, 'name');
  } catch (error) {
    throw namingPlace(error, `${member}[${index}]`);
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

function readOutputs(json: JsonText, at: number, isBinaryOutput: boolean): ResponseForm {
  const fallback = isBinaryOutput ? binaryResponseForm : jsonResponseForm;
  if (at < 0) return fallback;
  requireArray(json, at, 'outputs');
  const outputs = new Map<string, OutputForm>();
  let index = 0;
  for (let item = json.firstItem(at); item >= 0; item = json.nextItem(item)) {
    if (index === tensorsMax) throw tooMany('outputs');
    let nameAt = -1;
    let parametersAt = -1;
    if (json.kind(item) === 'object') {
      for (let key = json.firstMember(item); key >= 0; ) {
        const value = json.memberValue(key);
        const member = json.string(key);
        if (member === 'name' && nameAt < 0) nameAt = value;
        else if (member === 'parameters' && parametersAt < 0) parametersAt = value;
        key = json.nextMember(value);
      }
    }
    const settings = new TensorParameters(json, parametersAt);
    checkOutput(json, settings);
    const name = nameOf(json, nameAt, 'outputs', index++);
    const form = readOutputForm(json, settings, name);
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

function readOutputForm(json: JsonText, settings: TensorParameters, name: string): OutputForm {
  try {
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
  } catch (error) {
    throw namingPlace(error, `output '${name}'`);
  }
}
