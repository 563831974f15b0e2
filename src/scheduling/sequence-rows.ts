import { elementBytes } from '../inference/datatype.js';
import { startTiming } from '../inference/request-timing.js';
import { elementCount } from '../inference/shape.js';
import type { Tensor } from '../inference/tensor.js';
import { PendingRequest } from './pending-request.js';
import type { Sequence } from './sequence.js';
import { type ControlFlags, SequenceControls } from './sequence-controls.js';
import type { SequenceOptions } from './sequence-options.js';
import type { ImplicitState } from './sequence-state.js';

const nobody = { respond() {}, complete() {}, fail() {} };

/** Completes the inputs of sequence requests with control and state tensors. */
export class SequenceRows {
  readonly #controls: SequenceControls;
  readonly #state: ImplicitState;

  constructor(options: SequenceOptions, state: ImplicitState) {
    this.#controls = new SequenceControls(options);
    this.#state = state;
  }

  get controls(): SequenceControls {
    return this.#controls;
  }

  /** What the model gets for a request of `sequence` with these `inputs`. */
  modelInputs(
    inputs: readonly Tensor[],
    flags: Pick<ControlFlags, 'start' | 'end'>,
    sequence: Sequence,
  ): readonly Tensor[] {
    const controls = this.#controls.tensors(
      { start: flags.start, end: flags.end, ready: true },
      sequence.correlationIdTensors,
    );
    return [...inputs, ...controls, ...sequence.state];
  }

  /**
   * A row that holds the place of a slot without a request: zeros in the shapes of `like`, READY
   * false. Nobody waits for its answer and nobody counts it.
   */
  nullRow(like: PendingRequest): PendingRequest {
    const own = this.#controls.nullTensors();
    const given = like.modelInputs.length - own.length - this.#state.initial.length;
    const request = {
      ...like.request,
      id: '',
      inputs: [],
      sequence: undefined,
      prefersJsonText: false,
    };
    return new PendingRequest(
      request,
      1,
      [...like.modelInputs.slice(0, given).map(zeroTensor), ...own, ...this.#state.initial],
      startTiming(0),
      nobody,
      () => {},
    );
  }
}

function zeroTensor({ name, datatype, shape }: Tensor): Tensor {
  // An empty BYTES element is its 4-byte length, 0.
  const size = datatype === 'BYTES' ? 4 : elementBytes[datatype];
  const bytes = new Uint8Array(elementCount(shape) * size);
  return { name, datatype, shape, encoding: 'raw', bytes };
}
