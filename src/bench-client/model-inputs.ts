import { invalidArg } from '../errors.js';
import { isDatatype } from '../inference/datatype.js';
import type { TensorMetadata } from '../inference/model-metadata.js';
import { formatShape } from '../inference/shape.js';

/** What is known of a model that is to be called. */
export interface ModelInputs {
  /** Inputs that a request must have; shapes without the batch dimension, none of them variable. */
  readonly inputs: readonly TensorMetadata[];
  /** True where every tensor has the batch as its first dimension. */
  readonly isBatching: boolean;
  /** Models that an ensemble is made of; empty for others. */
  readonly steps: readonly string[];
}

export interface ShapeSettings {
  /** Rows of a request. */
  readonly batchSize: number;
  /** Input name → shape without the batch dimension. */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
}

/**
 * Inputs from a server's answers about a model. `configuration` is undefined where the server tells
 * none: then a model batches where the first dimension of every input is variable, and `batchSize`
 * becomes that dimension. INVALID_ARG where a request could not be made.
 */
export function readModelInputs(
  metadata: unknown,
  configuration: unknown,
  { batchSize, shapes }: ShapeSettings,
): ModelInputs {
  const tensors = readTensors(metadata);
  const optional = optionalInputs(configuration);
  const isBatching = isBatchingModel(configuration, tensors);
  if (!isBatching && batchSize > 1) {
    throw invalidArg(`a batch size of ${batchSize} is given, but the model does not batch`);
  }
  for (const name of shapes.keys()) {
    if (tensors.some((tensor) => tensor.name === name)) continue;
    const known = tensors.map((tensor) => `'${tensor.name}'`).join(', ');
    throw invalidArg(`--shape: the model has no input '${name}'; it has ${known}`);
  }
  const inputs = tensors
    .filter(({ name }) => shapes.has(name) || !optional.has(name))
    .map((tensor) => ({
      ...tensor,
      shape: settleShape(tensor, isBatching ? tensor.shape.slice(1) : tensor.shape, shapes),
    }));
  return { inputs, isBatching, steps: ensembleSteps(configuration) };
}

function settleShape(
  { name }: TensorMetadata,
  dims: readonly number[],
  shapes: ShapeSettings['shapes'],
): readonly number[] {
  const given = shapes.get(name);
  const shape = given ?? dims;
  if (shape.some((dim) => dim < 0)) {
    throw invalidArg(
      `input '${name}' has the variable shape ${formatShape(dims)}; give one with --shape ${name}:` +
        dims.map((dim) => (dim < 0 ? 'N' : dim)).join(','),
    );
  }
  return shape;
}

function readTensors(metadata: unknown): readonly TensorMetadata[] {
  return list(member(metadata, 'inputs')).map((input) => {
    const [name, datatype] = [member(input, 'name'), member(input, 'datatype')];
    const shape = list(member(input, 'shape')).map(Number);
    if (typeof name !== 'string' || typeof datatype !== 'string' || !isDatatype(datatype)) {
      throw invalidArg(`the model's metadata has an input that is not understood: ${show(input)}`);
    }
    return { name, datatype, shape };
  });
}

function isBatchingModel(configuration: unknown, tensors: readonly TensorMetadata[]): boolean {
  if (configuration !== undefined) return Number(member(configuration, 'max_batch_size') ?? 0) > 0;
  return tensors.length > 0 && tensors.every(({ shape }) => shape[0] === -1);
}

function optionalInputs(configuration: unknown): ReadonlySet<unknown> {
  const inputs = list(member(configuration, 'input'));
  return new Set(
    inputs
      .filter((input) => member(input, 'optional') === true)
      .map((input) => member(input, 'name')),
  );
}

function ensembleSteps(configuration: unknown): readonly string[] {
  const steps = list(member(member(configuration, 'ensemble_scheduling'), 'step'));
  return [...new Set(steps.map((step) => String(member(step, 'model_name'))))];
}

/** A member of what a server answered; undefined where there is none. */
export function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  // Any object may be asked for any of its own names.
  return (value as Readonly<Record<string, unknown>>)[name];
}

/** The elements of a list in what a server answered; none where it is no list. */
export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function show(value: unknown): string {
  return JSON.stringify(value).slice(0, 200);
}
