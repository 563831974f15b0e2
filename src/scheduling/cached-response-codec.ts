import { isDatatype } from '../inference/datatype.js';
import type { ParameterValue } from '../inference/infer-request.js';
import type { Tensor } from '../inference/tensor.js';
import type { CachedResponse } from './response-cache.js';

/*
 *   | header length, 4 bytes little-endian | header, JSON | bytes of output 0 | of output 1 | … |
 */

interface Header {
  readonly parameters: readonly (readonly [string, string, string])[];
  readonly outputs: readonly (readonly [string, string, readonly number[], string, number])[];
}

/** A cached response as one block of bytes, for caches outside of this process. */
export function encodeCachedResponse({ parameters, outputs }: CachedResponse): Buffer {
  const header: Header = {
    parameters: [...parameters].map(([name, value]) => [name, typeof value, String(value)]),
    outputs: outputs.map(({ name, datatype, shape, encoding, bytes }) => [
      name,
      datatype,
      shape,
      encoding,
      bytes.byteLength,
    ]),
  };
  const text = Buffer.from(JSON.stringify(header), 'utf8');
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length, 0);
  return Buffer.concat([length, text, ...outputs.map(({ bytes }) => bytes)]);
}

/**
 * Inverse of {@link encodeCachedResponse}; outputs view `block`. Undefined for anything that is not
 * exactly such a block: others may write to the same store.
 */
export function decodeCachedResponse(block: Buffer): CachedResponse | undefined {
  if (block.length < 4) return undefined;
  const headerEnd = 4 + block.readUInt32LE(0);
  if (headerEnd > block.length) return undefined;
  const header = parseHeader(block.toString('utf8', 4, headerEnd));
  if (header === undefined) return undefined;
  const outputs: Tensor[] = [];
  let position = headerEnd;
  for (const [name, datatype, shape, encoding, byteLength] of header.outputs) {
    if (!isDatatype(datatype) || (encoding !== 'raw' && encoding !== 'json')) return undefined;
    const bytes = block.subarray(position, position + byteLength);
    if (bytes.length !== byteLength) return undefined;
    outputs.push({ name, datatype, shape, encoding, bytes });
    position += byteLength;
  }
  if (position !== block.length) return undefined;
  return {
    parameters: new Map(
      header.parameters.map(([name, type, text]) => [name, toParameter(type, text)]),
    ),
    outputs,
  };
}

function toParameter(type: string, text: string): ParameterValue {
  if (type === 'bigint') return BigInt(text);
  if (type === 'number') return Number(text);
  return type === 'boolean' ? text === 'true' : text;
}

function parseHeader(text: string): Header | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    // Not ours: the caller treats it as absent.
    return undefined;
  }
  if (typeof parsed !== 'object' || parsed === null) return undefined;
  const { parameters, outputs } = parsed as Partial<Record<keyof Header, unknown>>;
  const isHeader =
    Array.isArray(parameters) &&
    parameters.every(isParameterEntry) &&
    Array.isArray(outputs) &&
    outputs.every(isOutputEntry);
  // Every element was checked just above.
  return isHeader ? (parsed as Header) : undefined;
}

function isParameterEntry(value: unknown): boolean {
  if (!Array.isArray(value) || value.length !== 3) return false;
  const [name, type, text] = value as readonly unknown[];
  return (
    typeof name === 'string' &&
    typeof text === 'string' &&
    (type === 'string' ||
      type === 'boolean' ||
      type === 'number' ||
      (type === 'bigint' && /^-?\d+$/.test(text)))
  );
}

function isOutputEntry(value: unknown): boolean {
  if (!Array.isArray(value) || value.length !== 5) return false;
  const [name, datatype, shape, encoding, byteLength] = value as readonly unknown[];
  return (
    typeof name === 'string' &&
    typeof datatype === 'string' &&
    Array.isArray(shape) &&
    shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0) &&
    typeof encoding === 'string' &&
    typeof byteLength === 'number' &&
    Number.isSafeInteger(byteLength) &&
    byteLength >= 0
  );
}
