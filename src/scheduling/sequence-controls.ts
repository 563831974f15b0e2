import { invalidArg } from '../errors.js';
import type { Datatype } from '../inference/datatype.js';
import type { Tensor } from '../inference/tensor.js';
import type { ControlInput, SequenceOptions } from './sequence-options.js';

/** What one row of a batch tells the model about its sequence. */
export interface ControlFlags {
  readonly start: boolean;
  readonly end: boolean;
  /** False for a row that holds no request. */
  readonly ready: boolean;
}

const noRequest: ControlFlags = { start: false, end: false, ready: false };

/** Makes the control tensors that a model's `sequence_batching` asks for. */
export class SequenceControls {
  readonly #inputs: readonly ControlInput[];
  readonly #shape: readonly number[];
  /** Tensors never change, so that equal ones are shared: by index of the control, then by value. */
  readonly #flagTensors: readonly (readonly [Tensor, Tensor] | undefined)[];

  constructor(options: Pick<SequenceOptions, 'controls' | 'isBatching'>) {
    this.#inputs = options.controls;
    this.#shape = options.isBatching ? [1, 1] : [1];
    this.#flagTensors = options.controls.map((input) =>
      input.kind === 'correlation-id'
        ? undefined
        : [
            this.#tensor(input.name, input.datatype, input.values[0]),
            this.#tensor(input.name, input.datatype, input.values[1]),
          ],
    );
  }

  /** True where the model can tell a row that holds a request from one that does not. */
  get hasReady(): boolean {
    return this.#inputs.some((input) => input.kind === 'ready');
  }

  /**
   * The tensors that carry a correlation id, made once a sequence. Throws INVALID_ARG for a number
   * that the model's datatype can't hold. A text reaches a model that takes numbers as 0, as the
   * reference server has it, and a number a model that takes texts in decimal.
   */
  correlationIdTensors(correlationId: bigint | string): readonly Tensor[] {
    return this.#inputs
      .filter((input) => input.kind === 'correlation-id')
      .map(({ name, datatype }) =>
        this.#tensor(name, datatype, correlationIdBytes(name, datatype, correlationId)),
      );
  }

  /** All control tensors of one row, in the order of the configuration. */
  tensors(flags: ControlFlags, correlationId: readonly Tensor[]): readonly Tensor[] {
    const tensors: Tensor[] = [];
    let nextId = 0;
    for (let index = 0; index < this.#inputs.length; index += 1) {
      const kind = this.#inputs[index]?.kind;
      const pair = this.#flagTensors[index];
      if (kind === 'correlation-id' || kind === undefined || pair === undefined) {
        const tensor = correlationId[nextId];
        nextId += 1;
        if (tensor !== undefined) tensors.push(tensor);
      } else {
        tensors.push(pair[flags[kind] ? 1 : 0]);
      }
    }
    return tensors;
  }

  /** The controls of a row without a request. */
  nullTensors(): readonly Tensor[] {
    return this.tensors(noRequest, this.correlationIdTensors(0n));
  }

  #tensor(name: string, datatype: Datatype, bytes: Uint8Array): Tensor {
    return { name, datatype, shape: this.#shape, encoding: 'raw', bytes };
  }
}

function correlationIdBytes(
  name: string,
  datatype: Datatype,
  correlationId: bigint | string,
): Uint8Array {
  if (datatype === 'BYTES') return textBytes(String(correlationId));
  return numberBytes(name, datatype, typeof correlationId === 'bigint' ? correlationId : 0n);
}

function textBytes(text: string): Uint8Array {
  const utf8 = Buffer.from(text, 'utf8');
  const bytes = Buffer.alloc(4 + utf8.length);
  bytes.writeUInt32LE(utf8.length, 0);
  utf8.copy(bytes, 4);
  return bytes;
}

function numberBytes(name: string, datatype: Datatype, id: bigint): Uint8Array {
  const bytes = Buffer.alloc(datatype === 'UINT64' || datatype === 'INT64' ? 8 : 4);
  switch (datatype) {
    case 'UINT32':
      if (id >= 2n ** 32n) throw outOfRange(name, datatype, id);
      bytes.writeUInt32LE(Number(id), 0);
      break;
    case 'INT32':
      if (id >= 2n ** 31n) throw outOfRange(name, datatype, id);
      bytes.writeInt32LE(Number(id), 0);
      break;
    case 'INT64':
      if (id >= 2n ** 63n) throw outOfRange(name, datatype, id);
      bytes.writeBigInt64LE(id, 0);
      break;
    default:
      bytes.writeBigUInt64LE(id, 0);
  }
  return bytes;
}

function outOfRange(name: string, datatype: Datatype, id: bigint): Error {
  return invalidArg(
    `correlation ID ${id} does not fit control input '${name}' of type ${datatype}`,
  );
}
