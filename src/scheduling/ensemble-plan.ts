import { invalidArg } from '../errors.js';
import { modelKey } from '../inference/model-key.js';
import { formatShape, matchesDims } from '../inference/shape.js';
import type { EnsembleStep, ModelConfig, ModelInput } from '../model-config/model-config.js';

/** A model that a step runs, as it is loaded now. */
export interface EnsembleMember {
  /** Completed by what the model's own files tell. */
  readonly config: ModelConfig;
  readonly isDecoupled: boolean;
}

/** The member of a step; undefined where it is not there. Version -1 is the latest. */
export type FindMember = (modelKey: string, version: number) => EnsembleMember | undefined;

/** An input of a step's model, and the index of the ensemble tensor that feeds it. */
export interface StepInput {
  readonly name: string;
  readonly tensor: number;
  /** As the model's configuration has them, without the batch dimension. */
  readonly dims: readonly number[];
}

export interface PlannedStep {
  readonly index: number;
  /** What its requests give for the name of the model: the model's key. */
  readonly modelName: string;
  /** '' is the version that the model's policy makes the default. */
  readonly modelVersion: string;
  readonly isBatching: boolean;
  readonly isDecoupled: boolean;
  readonly inputs: readonly StepInput[];
  /** The model's output name → index of the ensemble tensor that it becomes. */
  readonly outputs: ReadonlyMap<string, number>;
  readonly outputNames: readonly string[];
  /** True where no other step reads what this one writes. */
  readonly feedsOnlyOutputs: boolean;
}

export interface EnsembleOutput {
  readonly name: string;
  readonly tensor: number;
  readonly dims: readonly number[];
}

/** An ensemble's graph, checked and with names turned into indices. */
export interface EnsemblePlan {
  readonly name: string;
  readonly isBatching: boolean;
  /** Derived: true where a step's model is decoupled. */
  readonly isDecoupled: boolean;
  readonly tensorNames: readonly string[];
  /** Name → tensor index; also of inputs that a request may leave out. */
  readonly inputs: ReadonlyMap<string, number>;
  readonly outputs: readonly EnsembleOutput[];
  readonly steps: readonly PlannedStep[];
  /** Tensor index → indices of the steps that read it. */
  readonly readers: readonly (readonly number[])[];
  /** Tensor index → index of the step that writes it; -1 for an input of the ensemble. */
  readonly writers: readonly number[];
  /** Bound of concurrent requests of each step; 0 is none. */
  readonly inflightRequestsMax: number;
}

/**
 * Checks an ensemble against its members and plans it. Its own graph has been checked with the
 * configuration: complete steps, each tensor written once and used, data reaching every output.
 * Throws INVALID_ARG with the reference server's text, where it has one, naming step and tensor.
 */
export function planEnsemble(config: ModelConfig, findMember: FindMember): EnsemblePlan {
  const { name } = config;
  const tensors = new TensorTable(config);
  const members = findMembers(config, findMember);
  const steps = members.map(({ step, member }, index) => {
    checkBatchSize(config, member.config);
    return planStep(name, index, step, member, tensors);
  });
  const readers = tensors.names.map((_, tensor) =>
    steps.filter((step) => step.inputs.some((input) => input.tensor === tensor)),
  );
  const writers = tensors.names.map((_, tensor) =>
    steps.findIndex((step) => [...step.outputs.values()].includes(tensor)),
  );
  const outputs = config.output.map((output) => ({
    name: output.name,
    tensor: tensors.indexOf(output.name),
    dims: output.reshape?.shape ?? output.dims,
  }));
  checkOptionalInputs(config, members, tensors, readers);
  checkDecoupledBranches(name, steps, outputs, writers);
  return {
    name,
    isBatching: config.max_batch_size > 0,
    isDecoupled: steps.some((step) => step.isDecoupled),
    tensorNames: tensors.names,
    inputs: new Map(config.input.map((input) => [input.name, tensors.indexOf(input.name)])),
    // Last first: the order in which the reference server is recorded to answer.
    outputs: outputs.reverse(),
    steps: steps.map((step) => ({
      ...step,
      feedsOnlyOutputs: [...step.outputs.values()].every((tensor) => readers[tensor]?.length === 0),
    })),
    readers: readers.map((readingSteps) => readingSteps.map((step) => step.index)),
    writers,
    inflightRequestsMax: config.ensemble_scheduling?.max_inflight_requests ?? 0,
  };
}

/**
 * The steps that must run for `requestedOutputs` (empty is all): those that write one of them, or
 * write what such a step reads.
 */
export function neededSteps(
  plan: EnsemblePlan,
  requestedOutputs: readonly string[],
): readonly boolean[] {
  if (requestedOutputs.length === 0) return plan.steps.map(() => true);
  const needed = plan.steps.map(() => false);
  const visit = (tensor: number): void => {
    const writer = plan.writers[tensor] ?? -1;
    const step = plan.steps[writer];
    if (step === undefined || needed[writer] === true) return;
    needed[writer] = true;
    for (const input of step.inputs) visit(input.tensor);
  };
  for (const output of plan.outputs) {
    if (requestedOutputs.includes(output.name)) visit(output.tensor);
  }
  return needed;
}

/** Where a tensor's datatype and dims were first seen, and what they were. */
interface TensorDescription {
  readonly source: string;
  readonly dataType: string;
  readonly dims: readonly number[];
  readonly fullDims: readonly number[];
}

class TensorTable {
  readonly names: string[] = [];
  readonly #descriptions: TensorDescription[] = [];
  readonly #ensembleName: string;

  constructor(config: ModelConfig) {
    this.#ensembleName = config.name;
    const isBatching = config.max_batch_size > 0;
    for (const { name, data_type, dims, reshape } of [...config.input, ...config.output]) {
      this.declare(name, config.name, isBatching, data_type, reshape?.shape ?? dims);
    }
  }

  indexOf(name: string): number {
    return this.names.indexOf(name);
  }

  /** Index of the tensor; throws where an earlier description disagrees with this one. */
  declare(
    name: string,
    source: string,
    isBatching: boolean,
    dataType: string,
    dims: readonly number[],
  ): number {
    const described: TensorDescription = {
      source,
      dataType,
      dims,
      fullDims: isBatching ? [-1, ...dims] : dims,
    };
    const index = this.indexOf(name);
    const earlier = this.#descriptions[index];
    if (earlier === undefined) {
      this.names.push(name);
      this.#descriptions.push(described);
      return this.names.length - 1;
    }
    this.#checkAgreement(name, earlier, described);
    return index;
  }

  #checkAgreement(name: string, earlier: TensorDescription, later: TensorDescription): void {
    const where = `in ensemble ${this.#ensembleName}, ensemble tensor ${name}: `;
    if (earlier.dataType !== later.dataType) {
      throw invalidArg(
        `${where}inconsistent data type: ${earlier.dataType} is inferred from model ` +
          `${earlier.source} while ${later.dataType} is inferred from model ${later.source}`,
      );
    }
    // The second comparison lets [-1,d] of a model without batching meet [d] of one with it.
    if (
      !areCompatible(earlier.dims, later.dims) &&
      !areCompatible(earlier.fullDims, later.fullDims)
    ) {
      throw invalidArg(
        `${where}inconsistent shape: ${formatShape(earlier.fullDims)} is inferred from model ` +
          `${earlier.source} while ${formatShape(later.fullDims)} is inferred from model ` +
          later.source,
      );
    }
  }
}

function areCompatible(left: readonly number[], right: readonly number[]): boolean {
  return matchesDims(
    left.map((dim, axis) => (right[axis] === -1 ? -1 : dim)),
    right.map((dim, axis) => (left[axis] === -1 ? -1 : dim)),
  );
}

interface StepMember {
  readonly step: EnsembleStep;
  readonly member: EnsembleMember;
}

function findMembers(config: ModelConfig, findMember: FindMember): readonly StepMember[] {
  const missing = new Set<string>();
  const found: StepMember[] = [];
  for (const step of config.ensemble_scheduling?.step ?? []) {
    const member = findMember(keyOf(step), step.model_version);
    if (member === undefined) missing.add(step.model_name);
    else found.push({ step, member });
  }
  if (missing.size > 0) {
    throw invalidArg(
      `ensemble ${config.name} contains models that are not available or ambiguous: ` +
        [...missing].join(', '),
    );
  }
  return found;
}

function checkBatchSize(ensemble: ModelConfig, member: ModelConfig): void {
  if (member.max_batch_size === 0 || member.max_batch_size >= ensemble.max_batch_size) return;
  throw invalidArg(
    `ensemble ${ensemble.name} allows maximum batch size ${ensemble.max_batch_size}, but it ` +
      `contains model ${member.name} which only allows maximum batch size to be ` +
      `${member.max_batch_size}`,
  );
}

function planStep(
  ensembleName: string,
  index: number,
  step: EnsembleStep,
  { config, isDecoupled }: EnsembleMember,
  tensors: TensorTable,
): Omit<PlannedStep, 'feedsOnlyOutputs'> {
  const where = `in ensemble ${ensembleName}`;
  const isBatching = config.max_batch_size > 0;
  const inputs: StepInput[] = [];
  for (const [inputName, tensorName] of Object.entries(step.input_map)) {
    const input = config.input.find((candidate) => candidate.name === inputName);
    if (input === undefined) {
      throw invalidArg(
        `${where}, ensemble tensor ${tensorName} is mapping to non-existing input ${inputName} ` +
          `in model ${step.model_name}`,
      );
    }
    const { name, data_type, dims } = input;
    const tensor = tensors.declare(tensorName, step.model_name, isBatching, data_type, dims);
    inputs.push({ name, tensor, dims });
  }
  for (const input of config.input) {
    if (input.optional || inputs.some(({ name }) => name === input.name)) continue;
    throw invalidArg(
      `${where}, input ${input.name} in model ${step.model_name} is not mapped to any ensemble ` +
        'tensors',
    );
  }
  const outputs = new Map<string, number>();
  for (const [outputName, tensorName] of Object.entries(step.output_map)) {
    const output = config.output.find((candidate) => candidate.name === outputName);
    if (output === undefined) {
      throw invalidArg(
        `${where}, ensemble tensor ${tensorName} is mapped from non-existing output ` +
          `${outputName} in model ${step.model_name}`,
      );
    }
    const { data_type, dims } = output;
    outputs.set(
      outputName,
      tensors.declare(tensorName, step.model_name, isBatching, data_type, dims),
    );
  }
  return {
    index,
    modelName: keyOf(step),
    modelVersion: step.model_version < 0 ? '' : String(step.model_version),
    isBatching,
    isDecoupled,
    inputs,
    outputs,
    outputNames: [...outputs.keys()],
  };
}

/** An ensemble's input may be left out only where every step that reads it can do without. */
function checkOptionalInputs(
  ensemble: ModelConfig,
  members: readonly StepMember[],
  tensors: TensorTable,
  readers: readonly (readonly Omit<PlannedStep, 'feedsOnlyOutputs'>[])[],
): void {
  for (const { name } of ensemble.input.filter((input) => input.optional)) {
    const tensor = tensors.indexOf(name);
    for (const step of readers[tensor] ?? []) {
      const modelInputs: readonly ModelInput[] = members[step.index]?.member.config.input ?? [];
      for (const input of step.inputs.filter((candidate) => candidate.tensor === tensor)) {
        if (modelInputs.find((candidate) => candidate.name === input.name)?.optional) continue;
        throw invalidArg(
          `in ensemble ${ensemble.name}, ensemble tensor ${name} is optional, but input ` +
            `${input.name} in model ${step.modelName} is not`,
        );
      }
    }
  }
}

/**
 * Every response of a decoupled step starts its own pass through the steps behind it. A step (or
 * the answer) that needs tensors of two such streams could never know which belong together.
 */
function checkDecoupledBranches(
  ensembleName: string,
  steps: readonly Omit<PlannedStep, 'feedsOnlyOutputs'>[],
  outputs: readonly EnsembleOutput[],
  writers: readonly number[],
): void {
  const streams = new Map<number, number>();
  const streamOfStep = (index: number): number => {
    const step = steps[index];
    if (step === undefined) return 0;
    const known = streams.get(index);
    if (known !== undefined) return known;
    const read = step.inputs.map(({ tensor }) => streamOfStep(writers[tensor] ?? -1));
    checkOneStream(ensembleName, step.modelName, read);
    const stream = step.isDecoupled ? index + 1 : (read[0] ?? 0);
    streams.set(index, stream);
    return stream;
  };
  for (const step of steps) streamOfStep(step.index);
  const answered = outputs.map(({ tensor }) => streamOfStep(writers[tensor] ?? -1));
  checkOneStream(ensembleName, ensembleName, answered);
}

function checkOneStream(
  ensembleName: string,
  readerName: string,
  streams: readonly number[],
): void {
  if (streams.every((stream) => stream === streams[0])) return;
  throw invalidArg(
    `in ensemble ${ensembleName}, step of model '${readerName}' receives inputs originated from ` +
      'different decoupled models',
  );
}

function keyOf({ model_namespace, model_name }: EnsembleStep): string {
  return modelKey({ namespace: model_namespace, name: model_name });
}
