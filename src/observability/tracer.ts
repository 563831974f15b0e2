import type { RequestTiming } from '../inference/request-timing.js';
import type { Tensor } from '../inference/tensor.js';
import { formatTensorData } from './tensor-text.js';
import { TraceFile } from './trace-file.js';

/** What is traced of a model's requests, as the trace protocol names it. */
export interface TracePolicy {
  readonly levels: readonly ('OFF' | 'TIMESTAMPS' | 'TENSORS')[];
  /** Every `rate`-th request is traced. */
  readonly rate: number;
  /** How many requests are traced at most; -1 is no limit. */
  readonly count: number;
  /** Traces a file before the next, numbered one begins; 0 keeps one file. */
  readonly logFrequency: number;
}

/** A request that has ended. */
export interface TracedRequest {
  readonly modelName: string;
  readonly modelVersion: string;
  /** '' where the client gave none. */
  readonly requestId: string;
  readonly timing: Readonly<RequestTiming>;
  readonly inputs: readonly Tensor[];
  /** Of all its responses, in order. */
  readonly outputs: readonly Tensor[];
}

/** Names of the stamps, in the order in which they are reached. */
const timestampNames: readonly (readonly [keyof RequestTiming, string])[] = [
  ['requestStartNs', 'REQUEST_START'],
  ['queueStartNs', 'QUEUE_START'],
  ['computeStartNs', 'COMPUTE_START'],
  ['computeInputEndNs', 'COMPUTE_INPUT_END'],
  ['computeOutputStartNs', 'COMPUTE_OUTPUT_START'],
  ['computeEndNs', 'COMPUTE_END'],
  ['requestEndNs', 'REQUEST_END'],
];

interface Sampling {
  readonly policy: TracePolicy;
  seenRequests: number;
  tracedRequests: number;
}

/**
 * Writes traces of chosen requests to files, in the form of the reference server. A request is
 * chosen when it ends, from stamps that it has anyway: with tracing off it costs one look-up.
 */
export class Tracer {
  readonly #readPolicy: (modelName: string) => TracePolicy;
  readonly #path: string;
  readonly #onError: (error: Error) => void;
  #samplings = new Map<string, Sampling>();
  #file: TraceFile | undefined;
  #fileIndex = 0;
  #tracesInFile = 0;
  #nextId = 1;

  /** `path` '' writes nothing. Policies are read once a model, and again after `policyChanged`. */
  constructor(
    readPolicy: (modelName: string) => TracePolicy,
    path: string,
    onError: (error: Error) => void,
  ) {
    this.#readPolicy = readPolicy;
    this.#path = path;
    this.#onError = onError;
  }

  /** Counts towards `rate` and `count` begin anew, as settings apply from now on. */
  policyChanged(): void {
    this.#samplings = new Map();
  }

  /** False where there is no file to write to: then nothing need be told. */
  get isTracing(): boolean {
    return this.#path !== '';
  }

  /** True where tensors of `modelName` are wanted: only then need the caller keep outputs. */
  wantsTensors(modelName: string): boolean {
    return this.#path !== '' && this.#sampling(modelName).policy.levels.includes('TENSORS');
  }

  requestEnded(request: TracedRequest): void {
    if (this.#path === '') return;
    const sampling = this.#sampling(request.modelName);
    const { levels, rate, count, logFrequency } = sampling.policy;
    if (levels.length === 0 || levels.includes('OFF')) return;
    sampling.seenRequests += 1;
    if (sampling.seenRequests % rate !== 0) return;
    if (count >= 0 && sampling.tracedRequests >= count) return;
    sampling.tracedRequests += 1;
    this.#write(request, levels, logFrequency);
  }

  /** Resolves when all traces are on disk. */
  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }

  #write(request: TracedRequest, levels: TracePolicy['levels'], logFrequency: number): void {
    const isNumbered = logFrequency > 0;
    const path = isNumbered ? `${this.#path}.${this.#fileIndex}` : this.#path;
    this.#file ??= new TraceFile(path, this.#onError);
    const id = this.#nextId;
    this.#nextId += 1;
    const { modelName, modelVersion, requestId } = request;
    this.#file.write({
      id,
      model_name: modelName,
      model_version: Number(modelVersion),
      ...(requestId === '' ? {} : { request_id: requestId }),
    });
    if (levels.includes('TIMESTAMPS')) {
      this.#file.write({ id, timestamps: readTimestamps(request.timing) });
    }
    if (levels.includes('TENSORS')) this.#writeTensors(this.#file, id, request);
    this.#tracesInFile += 1;
    if (isNumbered && this.#tracesInFile >= logFrequency) this.#endFile(this.#file);
  }

  #writeTensors(file: TraceFile, id: number, { inputs, outputs }: TracedRequest): void {
    for (const tensor of inputs) {
      file.write({ id, activity: 'TENSOR_QUEUE_INPUT', tensor: describeTensor(tensor) });
    }
    for (const tensor of outputs) {
      file.write({ id, activity: 'TENSOR_BACKEND_OUTPUT', tensor: describeTensor(tensor) });
    }
  }

  #endFile(file: TraceFile): void {
    this.#file = undefined;
    this.#fileIndex += 1;
    this.#tracesInFile = 0;
    file.close().catch(this.#onError);
  }

  #sampling(modelName: string): Sampling {
    let sampling = this.#samplings.get(modelName);
    if (sampling === undefined) {
      sampling = { policy: this.#readPolicy(modelName), seenRequests: 0, tracedRequests: 0 };
      this.#samplings.set(modelName, sampling);
    }
    return sampling;
  }
}

/** Stamps that were not reached are left out; what remains never decreases. */
function readTimestamps(
  timing: Readonly<RequestTiming>,
): readonly { readonly name: string; readonly ns: number }[] {
  return timestampNames
    .map(([key, name]) => ({ name, ns: timing[key] }))
    .filter(({ ns }) => ns > 0);
}

function describeTensor(tensor: Tensor) {
  const { name, datatype, shape } = tensor;
  return { name, data: formatTensorData(tensor), shape: shape.join(','), dtype: datatype };
}
