import { strict as assert } from 'node:assert';
import { EnvelopeCache } from '../../../src/protocol/envelope-cache.js';
import { parseInferRequest } from '../../../src/protocol/infer-request-json.js';
import { encodeInferResponse } from '../../../src/protocol/infer-response-json.js';
import { noSharedMemoryRegions } from '../../../src/protocol/shared-memory-regions.js';

const target = { modelName: 'add_sub', modelVersion: '' };
const limits = { inputBytesMax: 67_108_864 };
const model = { config: { max_batch_size: 8 }, labels: new Map<string, readonly string[]>() };
const names = ['INPUT0', 'INPUT1'];

export interface CodecCost {
  readonly what: string;
  readonly parseNs: number;
  readonly encodeNs: number;
}

interface RequestBytes {
  readonly body: Buffer;
  readonly jsonByteLength: number;
}

/**
 * What it costs to read an add_sub request of two FP32 tensors of 16 elements and to write its
 * answer in the same form, without a server: the fastest of several rounds, for the machine is
 * rarely ours alone.
 */
export function measureInferCodecs(requests: number): readonly CodecCost[] {
  const ids = Array.from({ length: 256 }, (_, index) => binaryRequest({ id: `r${index}` }));
  const strange = Array.from({ length: 256 }, (_, index) => binaryRequest({ nonce: `r${index}` }));
  return [
    measure('binary, the same header', [binaryRequest({})], requests),
    measure('binary, a new id each time', ids, requests),
    measure('binary, a new header each time', strange, requests, true),
    measure('JSON', [jsonRequest()], requests),
  ];
}

function binaryRequest(fields: Record<string, string>): RequestBytes {
  const header = JSON.stringify({
    ...fields,
    inputs: names.map((name) => ({
      name,
      shape: [1, 16],
      datatype: 'FP32',
      parameters: { binary_data_size: 64 },
    })),
    parameters: { binary_data_output: true },
  });
  return {
    body: Buffer.concat([Buffer.from(header), Buffer.alloc(128, 1)]),
    jsonByteLength: header.length,
  };
}

function jsonRequest(): RequestBytes {
  const data = Array.from({ length: 16 }, (_, index) => Math.fround(index / 3));
  const inputs = names.map((name) => ({ name, shape: [1, 16], datatype: 'FP32', data }));
  const body = Buffer.from(JSON.stringify({ inputs }));
  return { body, jsonByteLength: body.byteLength };
}

function measure(
  what: string,
  bodies: readonly RequestBytes[],
  requests: number,
  forgets = false,
): CodecCost {
  let envelopes = new EnvelopeCache();
  const parse = (index: number) => {
    const bytes = bodies[index % bodies.length];
    assert(bytes !== undefined);
    if (forgets && index % bodies.length === 0) envelopes = new EnvelopeCache();
    const { body, jsonByteLength } = bytes;
    return parseInferRequest(
      target,
      body,
      jsonByteLength,
      limits,
      noSharedMemoryRegions,
      envelopes,
    );
  };
  const parseNs = fastestRound(requests, (index) => parse(index).request.inputs.length);
  const parsed = bodies.map((_, index) => parse(index));
  const encodeNs = fastestRound(requests, (index) => {
    const one = parsed[index % parsed.length];
    assert(one !== undefined);
    const { request, responseForm } = one;
    const response = {
      modelName: 'add_sub',
      modelVersion: '1',
      id: request.id,
      parameters: request.parameters,
      outputs: request.inputs,
    };
    return encodeInferResponse(response, responseForm, model, noSharedMemoryRegions).byteLength;
  });
  return { what, parseNs, encodeNs };
}

function fastestRound(requests: number, once: (index: number) => number): number {
  let fastest = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 8; round++) {
    const start = process.hrtime.bigint();
    let sum = 0;
    for (let index = 0; index < requests; index++) sum += once(index);
    fastest = Math.min(fastest, Number(process.hrtime.bigint() - start) / requests);
    assert(sum >= 2 * requests);
  }
  return fastest;
}

if (import.meta.url === `file://${process.argv[1]}`) {
  for (const { what, parseNs, encodeNs } of measureInferCodecs(20_000)) {
    console.log(`${what}: read in ${parseNs.toFixed(0)} ns, answered in ${encodeNs.toFixed(0)} ns`);
  }
}
