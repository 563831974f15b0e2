/** Product of `shape`, 1 for a scalar. Exact below 2^53; larger products are Infinity-safe doubles. */
export function elementCount(shape: readonly number[]): number {
  let count = 1;
  for (const dim of shape) count *= dim;
  return count;
}

/** True where `shape` has the rank of `dims` and agrees in each dimension that is not -1. */
export function matchesDims(shape: readonly number[], dims: readonly number[]): boolean {
  return (
    shape.length === dims.length && dims.every((dim, index) => dim === -1 || dim === shape[index])
  );
}

/** `[-1,16]`, as messages of the reference server print shapes. */
export function formatShape(shape: readonly number[]): string {
  return `[${shape.map(formatDim).join(',')}]`;
}

/** Beyond 2^53 a number would print rounded to 17 digits. */
function formatDim(dim: number): number | bigint {
  return Number.isInteger(dim) && !Number.isSafeInteger(dim) ? BigInt(dim) : dim;
}
