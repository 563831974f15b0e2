import type { ErrorCode } from '../../errors.js';
import type { ErrorMessage } from '../../execution/messages.js';
import type { Parameters } from '../../inference/infer-request.js';
import type { ExecutionResponse, TimedResult } from '../backend.js';
import { ByteReader } from './byte-reader.js';
import type { ByteWriter } from './byte-writer.js';
import {
  type PlacedTensor,
  placeTensor,
  readParameters,
  readTensorHeads,
  writeParameters,
  writeTensorHead,
} from './tensor-head.js';

/*
 * Results in a frame's payload; the layout is described in workers/python/nereid_host/wire.py.
 */

const listHeaderBytes = 8;
const recordBytes = 16;

/** Heads kept in parsed form; beyond so many different ones, remembering does not pay. */
const headsMax = 512;

/** Error codes by their number in frames, in the order of errors.py. */
const errorCodes: readonly ErrorCode[] = [
  'UNKNOWN',
  'INTERNAL',
  'NOT_FOUND',
  'INVALID_ARG',
  'UNAVAILABLE',
  'UNSUPPORTED',
  'ALREADY_EXISTS',
  'CANCELLED',
];

interface ResponseHead {
  readonly outputs: readonly PlacedTensor[];
  readonly parameters: Parameters;
}

/** One entry of a list: a result of an execution, or `none` where a stream ends without one. */
export type ListedResult = TimedResult['result'] | { readonly type: 'none' };

/** Unit of the durations in records. */
const durationStepNs = 100;

/** How long each execution took whose results are the list of `payload`. */
export function readDurationsNs(payload: Buffer): number[] {
  const count = payload.readUInt32LE(0);
  const durations: number[] = [];
  for (let index = 0; index < count; index += 1) {
    const steps = payload.readUInt32LE(listHeaderBytes + recordBytes * index + 12);
    durations.push(steps * durationStepNs);
  }
  return durations;
}

/** Reads result lists. Most heads repeat, so they are recognised rather than parsed again. */
export class ResultReader {
  readonly #heads = new Map<string, ResponseHead>();

  /** The results of the list at `start`; outputs are views of `payload`. */
  read(payload: Buffer, start: number): ListedResult[] {
    const count = payload.readUInt32LE(start);
    const results: ListedResult[] = [];
    let record = start + listHeaderBytes;
    let head = record + recordBytes * count;
    for (let index = 0; index < count; index += 1) {
      const kind = payload.readUInt32LE(record);
      const headEnd = head + payload.readUInt32LE(record + 4);
      const dataStart = start + payload.readUInt32LE(record + 8);
      results.push(this.#readResult(kind, payload, head, headEnd, dataStart));
      record += recordBytes;
      head = headEnd;
    }
    return results;
  }

  #readResult(
    kind: number,
    payload: Buffer,
    head: number,
    headEnd: number,
    dataStart: number,
  ): ListedResult {
    switch (kind) {
      case 0: {
        const { outputs, parameters } = this.#responseHead(payload, head, headEnd);
        return {
          type: 'response',
          response: {
            outputs: outputs.map((output) => placeTensor(output, payload, dataStart)),
            parameters,
          },
        };
      }
      case 1:
        return { type: 'error', error: readError(payload.subarray(head, headEnd)) };
      case 2:
        return { type: 'streamed' };
      case 3:
        return { type: 'none' };
      case 4:
        return { type: 'rescheduled' };
      case 5:
        return { type: 'unstarted' };
      default:
        throw new RangeError(`a frame has result kind ${kind}`);
    }
  }

  #responseHead(payload: Buffer, start: number, end: number): ResponseHead {
    const key = payload.toString('latin1', start, end);
    const known = this.#heads.get(key);
    if (known !== undefined) return known;
    const reader = new ByteReader(payload, start);
    const outputCount = reader.u16();
    reader.u16();
    const parameterCount = reader.u16();
    reader.u16();
    const outputs = readTensorHeads(reader, outputCount);
    const head = { outputs, parameters: readParameters(reader, parameterCount) };
    if (this.#heads.size >= headsMax) this.#heads.clear();
    this.#heads.set(key, head);
    return head;
  }
}

/** An error as `failed` frames and results have it. */
export function readError(payload: Buffer): ErrorMessage {
  const code = errorCodes[payload.readUInt32LE(0)] ?? 'INTERNAL';
  return { code, message: payload.toString('utf8', 4) };
}

export function writeError(writer: ByteWriter, error: ErrorMessage): void {
  writer.u32(errorCodes.indexOf(error.code));
  writer.utf8(error.message);
}

/** Writes a list of one response, with its tensors copied, at the start of `writer`'s payload. */
export function writeResponse(writer: ByteWriter, response: ExecutionResponse): void {
  const start = writer.length;
  writer.u32(1);
  writer.u32(0);
  const record = writer.skip(recordBytes);
  const head = writer.length;
  writer.u16(response.outputs.length);
  writer.u16(0);
  writer.u16(response.parameters.size);
  writer.u16(0);
  for (const output of response.outputs) writeTensorHead(writer, output);
  writeParameters(writer, response.parameters);
  writer.setU32(record, 0);
  writer.setU32(record + 4, writer.length - head);
  writer.alignTo8();
  writer.setU32(record + 8, writer.length - start);
  writer.setU32(record + 12, 0);
  for (const { bytes } of response.outputs) {
    writer.copy(bytes);
    writer.alignTo8();
  }
}
