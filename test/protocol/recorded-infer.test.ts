import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { InferenceServerError } from '../../src/errors.js';
import type { InferenceResponse } from '../../src/inference/infer-response.js';
import type { Tensor } from '../../src/inference/tensor.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import { EnvelopeCache } from '../../src/protocol/envelope-cache.js';
import { httpStatusOf } from '../../src/protocol/error-status.js';
import {
  type ParsedInferRequest,
  parseInferRequest,
} from '../../src/protocol/infer-request-json.js';
import { encodeInferResponse } from '../../src/protocol/infer-response-json.js';
import { decodeText } from '../../src/protocol/json-text.js';
import { parseRawRequest } from '../../src/protocol/raw-request.js';
import { noSharedMemoryRegions } from '../../src/protocol/shared-memory-regions.js';
import { createRequestValidator } from '../../src/server/request-validation.js';

/*
 * The infer requests that were recorded on the reference server, as far as the codecs and the
 * validation decide them: no server, no model but those that give back their input.
 */

const golden = new URL('../conformance/golden/', import.meta.url);
const limits = { inputBytesMax: 67_108_864 };

interface RecordedLine {
  readonly id: string;
  readonly mode: string;
  readonly request: {
    readonly method: string;
    readonly path?: string;
    readonly headers: readonly (readonly [string, string])[];
    readonly body?: string;
    readonly body_b64?: string;
    readonly body_parts?: readonly (readonly [string, number])[];
  };
  readonly response: {
    readonly status: number | null;
    readonly body?: string;
    readonly body_b64?: string;
  };
}

interface RecordedInfer {
  readonly id: string;
  readonly config: ModelConfig;
  readonly body: Buffer;
  readonly jsonByteLength: number;
  readonly status: number;
  readonly answer: Buffer;
}

const configs = new Map<string, ModelConfig>(
  readdirSync(new URL('configs/', golden))
    .filter((name) => name.endsWith('.json'))
    .map((name) => {
      const config = JSON.parse(readFileSync(new URL(`configs/${name}`, golden), 'utf8'));
      return [config.name, config];
    }),
);

/** Models whose outputs, as named, are their only input. */
const echoedOutputs: Readonly<Record<string, readonly string[]>> = {
  classify: ['PROB', 'RAW'],
  fixed2d: ['OUTPUT0'],
  ragged: ['OUTPUT0'],
};

/** Integers out of range, which the reference server wraps: refused here on purpose. */
const outOfRange = /^val_U?INT(8|16|32)_/;
/** What only a running model, a scheduler or a registered region can decide. */
const decidedElsewhere =
  /^(seq|shm|infer_shm|big_|cancel|accept_|gzip|deflate|enc_|rawdeflate|crash_classify|queue_|prio|params_fwd|header_|infer_version_\[9{4})/;

const recorded = readFileSync(new URL('http.jsonl', golden), 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .map((line): Partial<RecordedLine> => JSON.parse(line))
  .flatMap((line) => (isExchange(line) ? toInfer(line) : []));

describe('recorded infer requests', () => {
  const sound = recorded.filter((line) => line.status === 200 && !outOfRange.test(line.id));
  it.each(sound.map((line) => [line.id, line] as const))('accepts %s', (_id, line) => {
    const { request, responseForm } = parse(line);
    createRequestValidator(line.config)(request);
    const names = line.config.name.startsWith('identity_')
      ? ['OUTPUT0']
      : echoedOutputs[line.config.name];
    const [input] = request.inputs;
    if (names === undefined || input === undefined) return;
    const response: InferenceResponse = {
      modelName: line.config.name,
      modelVersion: '1',
      id: request.id,
      parameters: new Map(),
      outputs: names.map((name): Tensor => ({ ...input, name })),
    };
    const labels = new Map([['PROB', ['cat', 'dog', 'bird', 'fish']]]);
    const model = { config: line.config, labels };
    const encoded = encodeInferResponse(response, responseForm, model, noSharedMemoryRegions);
    const body = Buffer.concat(encoded.parts);
    expect(body.byteLength).toBe(encoded.byteLength);
    expectSameAnswer(body, encoded.jsonByteLength, line.answer);
  });

  const refused = recorded.filter((line) => line.status >= 400);
  it.each(refused.map((line) => [line.id, line] as const))('refuses %s', (_id, line) => {
    const error = refusal(line);
    const text: string = JSON.parse(decodeText(line.answer)).error;
    if (text.startsWith('sending ')) {
      expect(error).toBeUndefined();
      return;
    }
    expect(error).toBeDefined();
    // Client faults are 400 here where the reference server has 500.
    expect(httpStatusOf[error?.code ?? 'INTERNAL']).toBe(line.status === 500 ? 400 : line.status);
    const syntax = 'failed to parse the request JSON buffer:';
    if (text.startsWith(syntax)) expect(error?.message).toContain(syntax);
    else if (line.status === 500) expect(error?.message.replace(/ \(.*\)$/, '')).toBe(text);
    else expect(error?.message).toBe(text);
  });

  const wrapped = recorded.filter((line) => outOfRange.test(line.id));
  it.each(wrapped.map((line) => [line.id, line] as const))(
    'refuses %s instead of wrapping',
    (_id, line) => {
      expect(refusal(line)?.code).toBe('INVALID_ARG');
    },
  );
});

/** The other lines say which servers and groups there are, or what happens between requests. */
function isExchange(line: Partial<RecordedLine>): line is RecordedLine {
  return line.id !== undefined && line.request !== undefined && line.response !== undefined;
}

function toInfer(line: RecordedLine): readonly RecordedInfer[] {
  const model = /^\/v2\/models\/([^/]+)(\/versions\/\d+)?\/infer$/.exec(line.request.path ?? '');
  const config = configs.get(model?.[1] ?? '');
  const isDecided =
    line.mode === 'none' &&
    line.request.method === 'POST' &&
    config !== undefined &&
    config.model_transaction_policy?.decoupled !== true &&
    !decidedElsewhere.test(line.id);
  const status = line.response.status;
  if (!isDecided || typeof status !== 'number' || status === 404) return [];
  const headers = new Map(line.request.headers.map(([name, value]) => [name.toLowerCase(), value]));
  if (headers.has('content-encoding')) return [];
  const { body, body_b64, body_parts } = line.request;
  const bytes =
    body_parts !== undefined
      ? Buffer.concat(body_parts.map(([text, times]) => Buffer.from(text.repeat(times))))
      : body_b64 !== undefined
        ? Buffer.from(body_b64, 'base64')
        : Buffer.from(body ?? '');
  const headerLength = headers.get('inference-header-content-length');
  const jsonByteLength =
    headerLength === undefined ? bytes.byteLength : Number.parseInt(headerLength, 10) || 0;
  if (jsonByteLength < 0 || jsonByteLength > bytes.byteLength) return [];
  const answer =
    line.response.body_b64 === undefined
      ? Buffer.from(line.response.body ?? '')
      : Buffer.from(line.response.body_b64, 'base64');
  // What models say when they fail is theirs.
  if (status >= 400 && /error code|default error|Failed to process|in ensemble/.test(`${answer}`)) {
    return [];
  }
  return [{ id: line.id, config, body: bytes, jsonByteLength, status, answer }];
}

function parse({ config, body, jsonByteLength }: RecordedInfer): ParsedInferRequest {
  const target = { modelName: config.name, modelVersion: '' };
  if (jsonByteLength === 0) return parseRawRequest(target, body, config, limits);
  const cache = new EnvelopeCache();
  return parseInferRequest(target, body, jsonByteLength, limits, noSharedMemoryRegions, cache);
}

function refusal(line: RecordedInfer): InferenceServerError | undefined {
  try {
    createRequestValidator(line.config)(parse(line).request);
    return undefined;
  } catch (error) {
    if (error instanceof InferenceServerError) return error;
    throw error;
  }
}

/** The JSON parts are equal but for the last digit of floats; binary sections byte for byte. */
function expectSameAnswer(body: Buffer, jsonByteLength: number | undefined, answer: Buffer): void {
  const split = jsonByteLength ?? body.byteLength;
  const answerSplit = answer.byteLength - (body.byteLength - split);
  expect(body.subarray(split).equals(answer.subarray(answerSplit))).toBe(true);
  const numbers = /-?\d+\.\d+(e-?\d+)?/g;
  const text = body.toString('latin1', 0, split);
  const answerText = answer.toString('latin1', 0, answerSplit);
  expect(text.replace(numbers, '#')).toBe(answerText.replace(numbers, '#'));
  const floats = text.match(numbers) ?? [];
  (answerText.match(numbers) ?? []).forEach((expected, index) => {
    const got = floats[index] ?? '';
    expect(got.split(/[.e]/)[0]).toBe(expected.split(/[.e]/)[0]);
    expect(Math.abs(Number(got) / Number(expected) - 1) < 1e-15 || got === expected).toBe(true);
  });
}
