import type { Datatype } from '../inference/datatype.js';
import type { TensorMessage } from './messages.js';
import { aligned } from './tensor-transfer.js';

interface RowLayout {
  readonly name: string;
  readonly datatype: Datatype;
  readonly innerShape: readonly number[];
  readonly rowBytes: number;
}

/**
 * Tensors of a batch that lie in their buffer one after the other, each with the same rows and each
 * row of the same size, but for the number of rows: that alone tells two such batches apart.
 */
export class TensorLayout {
  readonly #tensors: readonly RowLayout[];

  private constructor(tensors: readonly RowLayout[]) {
    this.#tensors = tensors;
  }

  /** Undefined for tensors that do not lie so: text, strings, tensors without rows. */
  static of(tensors: readonly TensorMessage[]): TensorLayout | undefined {
    const rows = tensors[0]?.shape[0] ?? 0;
    if (rows <= 0) return undefined;
    const layout = new TensorLayout(
      tensors.map(({ name, datatype, shape, byteLength }) => ({
        name,
        datatype,
        innerShape: shape.slice(1),
        rowBytes: byteLength / rows,
      })),
    );
    const isFixed = tensors.every(({ datatype }) => datatype !== 'BYTES');
    return isFixed && layout.fits(tensors, rows) ? layout : undefined;
  }

  /** True where `tensors` are what {@link tensors} makes of `rows`. */
  fits(tensors: readonly TensorMessage[], rows: number): boolean {
    if (tensors.length !== this.#tensors.length) return false;
    let end = 0;
    for (let index = 0; index < tensors.length; index += 1) {
      const tensor = tensors[index];
      const layout = this.#tensors[index];
      if (tensor === undefined || layout === undefined) return false;
      const start = aligned(end);
      end = start + tensor.byteLength;
      if (
        tensor.name !== layout.name ||
        tensor.datatype !== layout.datatype ||
        tensor.encoding !== 'raw' ||
        tensor.byteOffset !== start ||
        tensor.byteLength !== rows * layout.rowBytes ||
        !isShape(tensor.shape, rows, layout.innerShape)
      ) {
        return false;
      }
    }
    return true;
  }

  tensors(rows: number): readonly TensorMessage[] {
    let end = 0;
    return this.#tensors.map(({ name, datatype, innerShape, rowBytes }) => {
      const byteOffset = aligned(end);
      const byteLength = rows * rowBytes;
      end = byteOffset + byteLength;
      return {
        name,
        datatype,
        shape: [rows, ...innerShape],
        encoding: 'raw',
        byteOffset,
        byteLength,
      };
    });
  }
}

function isShape(shape: readonly number[], rows: number, inner: readonly number[]): boolean {
  if (shape.length !== inner.length + 1 || shape[0] !== rows) return false;
  for (let index = 0; index < inner.length; index += 1) {
    if (shape[index + 1] !== inner[index]) return false;
  }
  return true;
}
