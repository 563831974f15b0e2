import { type InferenceServerError, internal, invalidArg } from '../errors.js';
import { readElementLength } from '../inference/bytes-elements.js';
import { type Datatype, elementBytes, fromConfigDataType } from '../inference/datatype.js';
import { inHashOrder } from '../inference/hash-order.js';
import type { InferenceRequest } from '../inference/infer-request.js';
import { elementCount, formatShape } from '../inference/shape.js';
import type { Tensor } from '../inference/tensor.js';
import type { ModelConfig, ModelInput } from '../model-config/model-config.js';

/** A request that its model can run as it is. */
export interface ValidRequest {
  /** Rows that the request adds to a batch; 1 for a model that does not batch. */
  readonly rows: number;
  /** Inputs as the model sees them: in the request's order, reshaped where the model says so. */
  readonly modelInputs: readonly Tensor[];
}

/** Throws INVALID_ARG with the reference server's text for the first thing that is wrong. */
export type RequestValidator = (request: InferenceRequest) => ValidRequest;

/**
 * Checks requests against one model. The order is the reference server's:
 * requested outputs, number and names of inputs, batch dimension, then input by input datatype,
 * shape and size. Sound requests are checked in the order they come in; only when something is
 * wrong are the checks repeated in the reference server's own order, to name the same fault.
 *
 * The elements of inputs with `encoding: 'json'` are checked when they are decoded.
 */
export function createRequestValidator(config: ModelConfig): RequestValidator {
  const rules = new RequestRules(config);
  return (request) => {
    const { inputs } = request;
    if (rules.hasOutputs(request) && rules.hasInputs(request)) {
      const rows = rules.rows(inputs);
      if (rows >= 0 && rules.fit(inputs, rows)) {
        return { rows, modelInputs: rules.needsReshape ? rules.reshape(inputs) : inputs };
      }
    }
    throw rules.firstFault(request);
  };
}

interface InputRule {
  readonly name: string;
  readonly datatype: Datatype;
  readonly dims: readonly number[];
  readonly reshape: readonly number[] | undefined;
  readonly isShapeTensor: boolean;
  readonly isRagged: boolean;
  readonly isOptional: boolean;
  /** The last shape that passed: parsed headers are remembered, so that it often comes again. */
  lastShape: readonly number[] | undefined;
  lastByteLength: number;
}

class RequestRules {
  readonly needsReshape: boolean;
  readonly #config: ModelConfig;
  readonly #isBatching: boolean;
  readonly #ordered: readonly InputRule[];
  readonly #rules = new Map<string, InputRule>();
  readonly #outputs: ReadonlySet<string>;
  readonly #requiredInputs: number;

  constructor(config: ModelConfig) {
    this.#config = config;
    this.#isBatching = config.max_batch_size > 0;
    this.#ordered = config.input.map(inputRule);
    for (const rule of this.#ordered) this.#rules.set(rule.name, rule);
    this.#outputs = new Set(config.output.map((output) => output.name));
    this.#requiredInputs = config.input.filter((input) => !input.optional).length;
    this.needsReshape = config.input.some((input) => input.reshape !== undefined);
  }

  hasOutputs(request: InferenceRequest): boolean {
    for (const name of request.requestedOutputs) {
      if (!this.#outputs.has(name)) return false;
    }
    return true;
  }

  hasInputs(request: InferenceRequest): boolean {
    const { inputs } = request;
    const configured = this.#config.input;
    if (inputs.length > configured.length || inputs.length < this.#requiredInputs) return false;
    for (let index = 0; index < inputs.length; index++) {
      const name = inputs[index]?.name ?? '';
      if (this.#ruleOf(name, index) === undefined) return false;
      for (let other = 0; other < index; other++) {
        if (inputs[other]?.name === name) return false;
      }
    }
    if (inputs.length === configured.length) return true;
    return configured.every(
      (input) => input.optional || inputs.some((given) => given.name === input.name),
    );
  }

  /** The batch dimension that all inputs share; -1 where it is missing, unequal or too large. */
  rows(inputs: readonly Tensor[]): number {
    if (!this.#isBatching) return 1;
    let rows = -1;
    for (let index = 0; index < inputs.length; index++) {
      const input = inputs[index];
      if (input === undefined || this.#ruleOf(input.name, index)?.isShapeTensor) continue;
      const batch = input.shape[0];
      if (batch === undefined || (rows >= 0 && batch !== rows)) return -1;
      rows = batch;
    }
    if (rows > this.#config.max_batch_size) return -1;
    return rows < 0 ? 1 : rows;
  }

  /** True where datatypes, shapes and sizes are the model's. */
  fit(inputs: readonly Tensor[], rows: number): boolean {
    for (let index = 0; index < inputs.length; index++) {
      const input = inputs[index];
      if (input === undefined) continue;
      const rule = this.#ruleOf(input.name, index);
      if (rule === undefined || input.datatype !== rule.datatype) return false;
      const isKnown = input.shape === rule.lastShape && input.bytes.length === rule.lastByteLength;
      if (isKnown && input.encoding === 'raw' && input.datatype !== 'BYTES') continue;
      if (!this.#hasShape(input, rule) || this.#sizeFault(input, '') !== undefined) return false;
      if (rows > 0 && input.encoding === 'raw') {
        rule.lastShape = input.shape;
        rule.lastByteLength = input.bytes.byteLength;
      }
    }
    return true;
  }

  /** Most requests name their inputs in the order of the configuration. */
  #ruleOf(name: string, index: number): InputRule | undefined {
    const rule = this.#ordered[index];
    return rule?.name === name ? rule : this.#rules.get(name);
  }

  reshape(inputs: readonly Tensor[]): readonly Tensor[] {
    return inputs.map((input) => {
      const rule = this.#rules.get(input.name);
      if (rule?.reshape === undefined) return input;
      const offset = this.#batchOffset(rule);
      const variable = rule.dims.flatMap((dim, index) =>
        dim === -1 ? [input.shape[index + offset] ?? 0] : [],
      );
      const dims = rule.reshape.map((dim) => (dim === -1 ? (variable.shift() ?? 0) : dim));
      return { ...input, shape: [...input.shape.slice(0, offset), ...dims] };
    });
  }

  /** The fault that the reference server would report for a request that did not pass. */
  firstFault(request: InferenceRequest): InferenceServerError {
    const prefix = prefixOf(request);
    return (
      this.#outputFault(request) ??
      this.#inputCountFault(request, prefix) ??
      this.#inputFault(request, prefix) ??
      internal(`model '${this.#config.name}': request refused without a fault; this is a bug`)
    );
  }

  #outputFault(request: InferenceRequest): InferenceServerError | undefined {
    const unknown = request.requestedOutputs.filter((name) => !this.#outputs.has(name)).sort();
    return unknown.length === 0
      ? undefined
      : invalidArg(`unexpected inference output '${unknown[0]}' for model '${this.#config.name}'`);
  }

  #inputCountFault(request: InferenceRequest, prefix: string): InferenceServerError | undefined {
    const { name: model, input: configured } = this.#config;
    const names = inHashOrder([...new Set(request.inputs.map((input) => input.name))]);
    if (names.length < request.inputs.length) {
      const twice = request.inputs.find(
        (input, index) => request.inputs.findIndex((other) => other.name === input.name) < index,
      );
      return invalidArg(`${prefix}input '${twice?.name}' already exists in request`);
    }
    if (names.length <= configured.length && names.length >= this.#requiredInputs) return undefined;
    const missing = configured
      .filter((input) => !input.optional && !names.includes(input.name))
      .map((input) => `'${input.name}'`);
    const expected =
      this.#requiredInputs === configured.length
        ? `${configured.length} inputs`
        : `number of inputs between ${this.#requiredInputs} and ${configured.length}`;
    const given = names.map((name) => `'${name}'`).join(',');
    // Without a missing input the reference server's list has lost its opening bracket.
    const missingList = missing.length === 0 ? ']' : `[${missing.join(',')}]`;
    return invalidArg(
      `${prefix}expected ${expected} but got ${names.length} inputs for model '${model}'. ` +
        `Got input(s) [${given}], but missing required input(s) ${missingList}. ` +
        'Please provide all required input(s).',
    );
  }

  #inputFault(request: InferenceRequest, prefix: string): InferenceServerError | undefined {
    const byName = new Map(request.inputs.map((input) => [input.name, input]));
    const inputs = inHashOrder([...byName.keys()]).flatMap((name) => byName.get(name) ?? []);
    return (
      (this.#isBatching ? this.#batchFault(inputs, prefix) : undefined) ??
      firstOf(inputs, (input) => this.#shapeFault(input, prefix)) ??
      firstOf(inputs, (input) => this.#sizeFault(input, prefix)) ??
      this.#missingFault(request, prefix)
    );
  }

  #batchFault(inputs: readonly Tensor[], prefix: string): InferenceServerError | undefined {
    const { name: model, max_batch_size } = this.#config;
    let rows: number | undefined;
    for (const { name, shape } of inputs) {
      const rule = this.#rules.get(name);
      if (rule === undefined) return this.#unknownInput(name);
      if (rule.isShapeTensor) continue;
      const batch = shape[0];
      if (batch === undefined) {
        return invalidArg(
          `${prefix}input '${name}' has no shape but model requires batch dimension for '${model}'`,
        );
      }
      rows ??= batch;
      if (batch !== rows) {
        return invalidArg(
          `${prefix}input '${name}' batch size does not match other inputs for '${model}'`,
        );
      }
    }
    if (rows === undefined || rows <= max_batch_size) return undefined;
    return invalidArg(
      `${prefix}inference request batch-size must be <= ${max_batch_size} for '${model}'`,
    );
  }

  #shapeFault(input: Tensor, prefix: string): InferenceServerError | undefined {
    const { name: model } = this.#config;
    const rule = this.#rules.get(input.name);
    if (rule === undefined) return this.#unknownInput(input.name);
    if (input.datatype !== rule.datatype) {
      return invalidArg(
        `${prefix}inference input '${input.name}' data-type is '${input.datatype}', but model '${model}' expects '${rule.datatype}'`,
      );
    }
    if (this.#hasShape(input, rule)) return undefined;
    const expected = this.#isBatching ? [-1, ...rule.dims] : rule.dims;
    return invalidArg(
      `${prefix}unexpected shape for input '${input.name}' for model '${model}'. ` +
        `Expected ${formatShape(expected)}, got ${formatShape(input.shape)}. ${this.#isBatching ? batchNote : ''}`,
    );
  }

  #unknownInput(name: string): InferenceServerError {
    return invalidArg(`unexpected inference input '${name}' for model '${this.#config.name}'`);
  }

  /** An optional input in place of a required one: as many as needed, but not the right ones. */
  #missingFault(request: InferenceRequest, prefix: string): InferenceServerError | undefined {
    const missing = this.#config.input.find(
      (input) => !input.optional && !request.inputs.some((given) => given.name === input.name),
    );
    if (missing === undefined) return undefined;
    return invalidArg(
      `${prefix}missing required input '${missing.name}' for model '${this.#config.name}'`,
    );
  }

  #hasShape(input: Tensor, rule: InputRule): boolean {
    const { shape } = input;
    const { dims } = rule;
    const offset = this.#batchOffset(rule);
    if (rule.isRagged) return shape.length === dims.length + offset;
    if (shape.length !== dims.length + offset) return false;
    for (let index = 0; index < dims.length; index++) {
      const dim = dims[index];
      if (dim !== -1 && dim !== shape[index + offset]) return false;
    }
    return true;
  }

  #batchOffset(rule: InputRule): number {
    return this.#isBatching && !rule.isShapeTensor ? 1 : 0;
  }

  #sizeFault(input: Tensor, prefix: string): InferenceServerError | undefined {
    const count = elementCount(input.shape);
    const size = elementBytes[input.datatype];
    // 2^63 elements or bytes do not fit the reference server's int64.
    if (count >= 2 ** 63 || count * size >= 2 ** 63) {
      const what = count >= 2 ** 63 ? 'element count' : 'byte size';
      return invalidArg(
        `${prefix}invalid shape for input '${input.name}': shape ${formatShape(input.shape)} causes total ${what} to exceed maximum size of 9223372036854775807`,
      );
    }
    if (input.encoding === 'json') return undefined;
    if (input.datatype === 'BYTES') return this.#bytesFault(input, count, prefix);
    const expected = count * size;
    const got = input.bytes.byteLength;
    if (got === expected) return undefined;
    return invalidArg(
      `${prefix}input byte size mismatch for input '${input.name}' for model '${this.#config.name}'. Expected ${expected}, got ${got}`,
    );
  }

  #bytesFault(input: Tensor, count: number, prefix: string): InferenceServerError | undefined {
    const { bytes, name } = input;
    const model = this.#config.name;
    let elements = 0;
    let at = 0;
    let overlong: InferenceServerError | undefined;
    while (at < bytes.byteLength) {
      if (elements === count) {
        return invalidArg(
          `${prefix}unexpected number of string elements ${count + 1} for inference input '${name}' for model '${model}', expecting ${count}`,
        );
      }
      const available = bytes.byteLength - at;
      if (available < 4) {
        return invalidArg(
          `${prefix}incomplete string length indicator for inference input '${name}' for model '${model}', expecting 4 bytes but only ${available} bytes available. Please make sure the string length indicator is in one buffer.`,
        );
      }
      const length = readElementLength(bytes, at);
      elements++;
      if (length > available - 4) {
        // It counts as an element; only with the right number of them is this the fault reported.
        overlong = invalidArg(
          `incomplete string data for inference input '${name}', expecting string of length ${length} but only ${available - 4} bytes available`,
        );
      }
      at += 4 + length;
    }
    if (elements === count) return overlong;
    return invalidArg(
      `${prefix}expected ${count} string elements for inference input '${name}' for model '${model}', got ${elements}`,
    );
  }
}

const batchNote =
  'NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be ' +
  'prepended to each input shape. If you want to specify the full shape including the batch dim ' +
  'in your input dims config, try setting max_batch_size to zero. See the model configuration ' +
  'docs for more info on max_batch_size.';

function inputRule(input: ModelInput): InputRule {
  const datatype = fromConfigDataType(input.data_type);
  if (datatype === undefined) {
    throw internal(`input '${input.name}' has datatype ${input.data_type}; this is a bug`);
  }
  return {
    name: input.name,
    datatype,
    dims: input.dims,
    reshape: input.reshape?.shape,
    isShapeTensor: input.is_shape_tensor,
    isRagged: input.allow_ragged_batch,
    isOptional: input.optional,
    lastShape: undefined,
    lastByteLength: 0,
  };
}

function prefixOf(request: InferenceRequest): string {
  return `[request id: ${request.id === '' ? '<id_unknown>' : request.id}] `;
}

function firstOf<Item, Found>(
  items: readonly Item[],
  find: (item: Item) => Found | undefined,
): Found | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}
