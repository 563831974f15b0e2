import { invalidArg } from '../../errors.js';
import type { Tensor } from '../../inference/tensor.js';
import type { ExecutionRequest, ModelCall } from '../backend.js';
import { ByteReader } from './byte-reader.js';
import type { ByteWriter } from './byte-writer.js';
import {
  placeTensor,
  readParameters,
  readTensorHeads,
  writeParameters,
  writeTensorHead,
} from './tensor-head.js';

/*
 * Requests in a frame's payload; the layout is described in workers/python/nereid_host/wire.py.
 */

const listHeaderBytes = 8;
const recordBytes = 32;
const payloadBytesMax = 0xffff_ffff;

/** Tensors of at least this size are sent from where they are; smaller ones are joined first. */
const gatheredBytesMin = 32 * 1024;

/** What of a request is in its frame. */
export type ListedRequest = Omit<ExecutionRequest, 'signal' | 'send' | 'sendError' | 'end'>;

/**
 * Writes the requests behind what `writer` holds, which must end on an 8-byte boundary. The result
 * is the whole in pieces to be sent in order; the last ones may be the tensors' own memory. The
 * requests are one execution's `batch`, or `each` is an execution by itself.
 * INVALID_ARG beyond 4 GiB.
 */
export function writeRequests(
  writer: ByteWriter,
  requests: readonly ListedRequest[],
  form: 'batch' | 'each',
): Buffer[] {
  const start = writer.length;
  writer.u32(requests.length);
  writer.u32(form === 'each' ? 1 : 0);
  const records = writer.skip(recordBytes * requests.length);
  let former: { readonly head: object; readonly start: number; readonly end: number } | undefined;
  for (const [index, request] of requests.entries()) {
    const record = records + recordBytes * index;
    const headStart = writer.length;
    if (former !== undefined && former.head === request.head) {
      writer.repeat(former.start, former.end);
    } else {
      writeHead(writer, request);
      former = { head: request.head, start: headStart, end: writer.length };
    }
    const idStart = writer.length;
    if (request.id !== '') writer.utf8(request.id);
    writer.setU32(record, idStart - headStart);
    writer.setU32(record + 4, writer.length - idStart);
    writer.setU32(record + 12, (request.isSequenceStart ? 1 : 0) | (request.isSequenceEnd ? 2 : 0));
    writer.setU64(record + 16, BigInt(request.timeoutUs));
    const { correlationId } = request;
    writer.setU64(record + 24, typeof correlationId === 'bigint' ? correlationId : 0n);
  }
  writer.alignTo8();
  let dataStart = writer.length - start;
  let dataBytes = 0;
  for (const [index, request] of requests.entries()) {
    writer.setU32(records + recordBytes * index + 8, dataStart);
    for (const tensor of request.inputs) {
      const paddedBytes = Math.ceil(tensor.bytes.byteLength / 8) * 8;
      dataStart += paddedBytes;
      dataBytes += paddedBytes;
    }
    if (dataStart > payloadBytesMax) {
      throw invalidArg('the inputs of one execution exceed 4 GiB');
    }
  }
  return writeData(writer, requests, dataBytes);
}

function writeData(
  writer: ByteWriter,
  requests: readonly ListedRequest[],
  dataBytes: number,
): Buffer[] {
  if (dataBytes < gatheredBytesMin) {
    for (const request of requests) {
      for (const { bytes } of request.inputs) {
        writer.copy(bytes);
        writer.alignTo8();
      }
    }
    return [writer.bytes()];
  }
  const pieces = [writer.bytes()];
  for (const request of requests) {
    for (const { bytes } of request.inputs) {
      pieces.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
      const padding = -bytes.byteLength & 7;
      if (padding > 0) pieces.push(Buffer.alloc(padding));
    }
  }
  return pieces;
}

function writeHead(writer: ByteWriter, request: ListedRequest): void {
  const { inputs, requestedOutputs, parameters, correlationId } = request;
  writer.u16(inputs.length);
  writer.u16(requestedOutputs.length);
  writer.u16(parameters.size);
  writer.u16(typeof correlationId === 'string' ? 1 : 0);
  writer.u32(request.priority);
  for (const tensor of inputs) writeTensorHead(writer, tensor);
  for (const name of requestedOutputs) writer.text(name);
  writeParameters(writer, parameters);
  if (typeof correlationId === 'string') writer.text(correlationId);
}

/** A model's call of another model, and the execution in which it was made (0: in none). */
export interface ReceivedCall {
  readonly call: ModelCall;
  readonly executionId: number;
}

/** The call in an `infer` frame. Its tensors are views of `payload`. */
export function readCall(payload: Buffer): ReceivedCall {
  const reader = new ByteReader(payload);
  const isDecoupled = reader.u32() !== 0;
  const executionId = reader.u32();
  const version = reader.i64();
  const modelName = reader.text();
  const listStart = Math.ceil(reader.position / 8) * 8;
  const record = new ByteReader(payload, listStart + listHeaderBytes);
  const headBytes = record.u32();
  const idBytes = record.u32();
  const dataStart = listStart + record.u32();
  const flags = record.u32();
  const timeoutUs = Number(record.bigU64());
  const correlationNumber = record.bigU64();
  const head = new ByteReader(payload, record.position);
  const inputCount = head.u16();
  const outputCount = head.u16();
  const parameterCount = head.u16();
  const hasTextCorrelation = head.u16() !== 0;
  const priority = head.u32();
  const placed = readTensorHeads(head, inputCount);
  const requestedOutputs: string[] = [];
  for (let index = 0; index < outputCount; index += 1) requestedOutputs.push(head.text());
  const parameters = readParameters(head, parameterCount);
  const correlationId = hasTextCorrelation ? head.text() : correlationNumber;
  const id = new ByteReader(payload, record.position + headBytes).bytes(idBytes).toString('utf8');
  const inputs: Tensor[] = placed.map((tensor) => placeTensor(tensor, payload, dataStart));
  return {
    executionId,
    call: {
      modelName,
      modelVersion: version < 0 ? '' : String(version),
      isDecoupled,
      id,
      parameters,
      timeoutUs,
      priority,
      requestedOutputs,
      inputs,
      correlationId,
      isSequenceStart: (flags & 1) !== 0,
      isSequenceEnd: (flags & 2) !== 0,
    },
  };
}
