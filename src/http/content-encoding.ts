import { constants, deflate, deflateSync, gunzip, gzip, gzipSync, inflate } from 'node:zlib';
import { type InferenceServerError, invalidArg } from '../errors.js';

export type ContentEncoding = 'identity' | 'gzip' | 'deflate';

/** The encoding a body declares; undefined where we cannot read it. Case matters, as upstream. */
export function parseContentEncoding(value: string): ContentEncoding | undefined {
  if (value === '' || value === 'identity') return 'identity';
  return value === 'gzip' || value === 'deflate' ? value : undefined;
}

/** The one with the highest weight in `Accept-Encoding`; of equal ones the first. */
export function chooseEncoding(acceptEncoding: string): ContentEncoding {
  if (acceptEncoding === '') return 'identity';
  let best: ContentEncoding = 'identity';
  let bestWeight = 0;
  for (const item of acceptEncoding.split(',')) {
    const [token = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    const encoding = token === '' ? undefined : parseContentEncoding(token);
    const weight = weightOf(parameters);
    if (encoding !== undefined && weight > bestWeight) {
      best = encoding;
      bestWeight = weight;
    }
  }
  return best;
}

function weightOf(parameters: readonly string[]): number {
  for (const parameter of parameters) {
    if (!parameter.startsWith('q=')) continue;
    const weight = Number(parameter.slice(2));
    return Number.isFinite(weight) ? weight : 0;
  }
  return 1;
}

/** `undefined` for a body that is not in the encoding at all. */
export type Inflated = Uint8Array | undefined | InferenceServerError;

/**
 * Inflates off the event loop. A body that ends early gives what it holds, as upstream. The limit
 * is kept while inflating, so that a small body cannot fill the memory.
 */
export function inflateBody(
  body: Uint8Array,
  encoding: 'gzip' | 'deflate',
  bytesMax: number,
  done: (inflated: Inflated) => void,
): void {
  const options = { maxOutputLength: bytesMax, finishFlush: constants.Z_SYNC_FLUSH };
  const run = encoding === 'gzip' ? gunzip : inflate;
  run(body, options, (error, inflated) => {
    if (error === null) done(inflated);
    else done(isTooLarge(error) ? tooLarge(bytesMax) : undefined);
  });
}

function isTooLarge(error: Error): boolean {
  return 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE';
}

function tooLarge(bytesMax: number): InferenceServerError {
  return invalidArg(
    `Decompressed data size exceeds the maximum allowed value of ${bytesMax} bytes. Use --http-max-input-size to increase the limit.`,
  );
}

/** Below this a body is compressed at once (about 0.1 ms); a trip to another thread costs as much. */
const compressedAtOnceBytesMax = 4096;

/** `undefined` where compressing failed: send the body as it is. */
export function compressBody(
  parts: readonly Uint8Array[],
  byteLength: number,
  encoding: 'gzip' | 'deflate',
  done: (compressed: Uint8Array | undefined) => void,
): void {
  const body = parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts, byteLength);
  if (byteLength <= compressedAtOnceBytesMax) {
    done(encoding === 'gzip' ? gzipSync(body) : deflateSync(body));
    return;
  }
  const run = encoding === 'gzip' ? gzip : deflate;
  run(body, (error, compressed) => done(error === null ? compressed : undefined));
}
