import { type InferenceServerError, invalidArg } from '../errors.js';
import { fromConfigDataType } from '../inference/datatype.js';
import type { InferenceRequest, ParameterValue } from '../inference/infer-request.js';
import type { InferenceResponse } from '../inference/infer-response.js';
import type { Tensor } from '../inference/tensor.js';
import type { ModelConfig, ModelInput } from '../model-config/model-config.js';
import { deferredBytesMin, type InferLimits, type InferTarget } from './infer-request-json.js';
import { parameterText } from './infer-response-json.js';
import { readString, unableToParse } from './json-members.js';
import { JsonText } from './json-scanner.js';
import { appendJsonString, decodeText, encodeText } from './json-text.js';
import { readParameterValue } from './request-parameters.js';
import { decodeBytesJson, decodeTensorJson } from './tensor-json.js';
import { rawElementCount, tensorText } from './tensor-text.js';

/**
 * Reads the body of `generate` and `generate_stream`: members named like an input of the model are
 * tensors, whose shape is the model's filled from the right; all others, and those of the object
 * `parameters`, are parameters of the request. Throws INVALID_ARG.
 */
export function parseGenerateRequest(
  target: InferTarget,
  body: Uint8Array,
  config: ModelConfig,
  limits: InferLimits,
): InferenceRequest {
  if (body.byteLength > limits.inputBytesMax) {
    throw invalidArg(
      `request JSON size of ${body.byteLength} bytes exceeds the maximum allowed input size of ` +
        `${limits.inputBytesMax} bytes. Use --http-max-input-size to increase the limit.`,
    );
  }
  const json = new JsonText(body, body.byteLength);
  if (json.kind(json.root) !== 'object') throw invalidArg('attempt to get members for non-object');
  const idAt = json.find(json.root, 'id');
  const id = idAt < 0 ? '' : readString(json, idAt, unableToParse('id'));
  const reader = new GenerateReader(json, config, id);
  reader.readMembers(json.root, true);
  return {
    modelName: target.modelName,
    modelVersion: target.modelVersion,
    id,
    parameters: reader.parameters,
    priority: 0,
    timeoutUs: 0,
    sequence: undefined,
    inputs: reader.inputs,
    requestedOutputs: [],
    prefersJsonText: true,
  };
}

class GenerateReader {
  readonly parameters = new Map<string, ParameterValue>();
  readonly inputs: Tensor[] = [];
  readonly #json: JsonText;
  readonly #inputs: ReadonlyMap<string, ModelInput>;
  readonly #isBatching: boolean;
  readonly #id: string;

  constructor(json: JsonText, config: ModelConfig, id: string) {
    this.#json = json;
    this.#inputs = new Map(config.input.map((input) => [input.name, input]));
    this.#isBatching = config.max_batch_size > 0;
    this.#id = id;
  }

  readMembers(at: number, isTop: boolean): void {
    const json = this.#json;
    for (let key = json.firstMember(at); key >= 0; ) {
      const value = json.memberValue(key);
      const name = json.string(key);
      if (isTop && name === 'parameters') this.#readNested(value);
      else this.#readMember(name, value);
      key = json.nextMember(value);
    }
  }

  #readNested(at: number): void {
    if (this.#inputs.has('parameters')) {
      throw invalidArg("Keyword 'parameters' for nested schema also given as input tensor name");
    }
    if (this.#json.kind(at) !== 'object') {
      throw invalidArg(
        "Expected JSON object for keyword: 'parameters': attempt to access JSON non-object as object",
      );
    }
    this.readMembers(at, false);
  }

  #readMember(name: string, at: number): void {
    const input = this.#inputs.get(name);
    if (input !== undefined) {
      if (this.inputs.some((known) => known.name === name)) {
        const id = this.#id === '' ? '<id_unknown>' : this.#id;
        throw invalidArg(`[request id: ${id}] input '${name}' already exists in request`);
      }
      this.inputs.push(this.#readInput(input, at));
    } else if (!this.parameters.has(name)) {
      this.parameters.set(name, readParameterValue(this.#json, at, name));
    }
  }

  #readInput(input: ModelInput, at: number): Tensor {
    const json = this.#json;
    const { name } = input;
    const datatype = fromConfigDataType(input.data_type);
    if (datatype === undefined) throw invalidArg(`invalid datatype for input ${name}`);
    const value = json.bytes.subarray(at, json.skip(at));
    const isArray = json.kind(at) === 'array';
    // A scalar is an array of one to the tensor readers.
    const text = isArray ? value : Buffer.concat([Buffer.from('['), value, Buffer.from(']')]);
    let count = 1;
    if (isArray) {
      count = 0;
      for (let item = json.firstItem(at); item >= 0; item = json.nextItem(item)) count++;
    }
    const dims = this.#isBatching ? [-1, ...input.dims] : input.dims;
    const shape = fillShape(dims, count, name);
    if (datatype === 'FP16' || datatype === 'BF16') {
      throw invalidArg(
        `receiving ${datatype} data via JSON is not supported. Please use the binary data format for input ${name}`,
      );
    }
    if (isArray && text.byteLength > deferredBytesMin) {
      return { name, datatype, shape, encoding: 'json', bytes: text };
    }
    const bytes =
      datatype === 'BYTES' ? decodeBytesJson(text).bytes : decodeTensorJson(datatype, shape, text);
    return { name, datatype, shape, encoding: 'raw', bytes };
  }
}

/** `dims` with the innermost -1 taking what the fixed dimensions leave of `count`, others 1. */
function fillShape(dims: readonly number[], count: number, name: string): readonly number[] {
  let rest = count;
  for (const dim of dims) {
    if (dim === -1) continue;
    if (rest % dim !== 0) throw shapeMismatch(name);
    rest /= dim;
  }
  const shape = [...dims];
  for (let index = shape.length - 1; index >= 0; index--) {
    if (shape[index] !== -1) continue;
    shape[index] = rest;
    rest = 1;
  }
  if (rest !== 1) throw shapeMismatch(name);
  return shape;
}

function shapeMismatch(name: string): InferenceServerError {
  return invalidArg(`The schema can not convert input '${name}' to tensor with proper shape`);
}

/**
 * One response as a JSON object: id, model, parameters and outputs side by side, sorted by name; an
 * output of one element is that element. The first of two of one name stays.
 */
export function generateResponseBody(response: InferenceResponse): Uint8Array {
  const members = new Map<string, string>();
  const add = (name: string, text: string): void => {
    if (!members.has(name)) members.set(name, text);
  };
  if (response.id !== '') add('id', appendJsonString('', response.id));
  add('model_name', appendJsonString('', response.modelName));
  add('model_version', appendJsonString('', response.modelVersion));
  for (const [name, value] of response.parameters) add(name, parameterText(value));
  for (const output of response.outputs) add(output.name, outputText(output));
  const names = [...members.keys()].sort();
  let text = '';
  for (const name of names) {
    text = appendJsonString(text === '' ? '{' : `${text},`, name);
    text += `:${members.get(name) ?? ''}`;
  }
  return encodeText(`${text}}`);
}

function outputText({ datatype, encoding, bytes }: Tensor): string {
  if (encoding === 'json') return decodeText(bytes);
  const text = tensorText(datatype, bytes);
  return rawElementCount(datatype, bytes) === 1 ? text.slice(1, -1) : text;
}

/** A body as a server-sent event. */
export function generateEvent(body: Uint8Array): Uint8Array {
  return Buffer.concat([eventPrefix, body, eventSuffix]);
}

const eventPrefix = Buffer.from('data: ');
const eventSuffix = Buffer.from('\n\n');

/** What `generate` answers, with status 200, where the model did not give exactly one response. */
export const notOneResponse: InferenceServerError = invalidArg(
  'generate expects model to produce exactly 1 response, use generate stream for model that generates various number of responses',
);
