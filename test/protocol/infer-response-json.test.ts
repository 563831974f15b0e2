import { describe, expect, it } from 'vitest';
import { internal, invalidArg } from '../../src/errors.js';
import { encodeBytesElements } from '../../src/inference/bytes-elements.js';
import type { InferenceResponse } from '../../src/inference/infer-response.js';
import type { Tensor } from '../../src/inference/tensor.js';
import { encodeInferResponse } from '../../src/protocol/infer-response-json.js';
import {
  binaryOutput,
  binaryResponseForm,
  jsonOutput,
  jsonResponseForm,
  type OutputForm,
  type ResponseForm,
} from '../../src/protocol/response-form.js';
import { ResponseHeaderMemo } from '../../src/protocol/response-header-memo.js';
import { noSharedMemoryRegions } from '../../src/protocol/shared-memory-regions.js';

const model = { config: { max_batch_size: 8 }, labels: new Map([['A', ['cat', 'dog']]]) };

function fp32(name: string, shape: number[], ...values: number[]): Tensor {
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  return { name, datatype: 'FP32', shape, encoding: 'raw', bytes };
}

function respond(
  outputs: readonly Tensor[],
  fields: Partial<InferenceResponse> = {},
): InferenceResponse {
  return { modelName: 'm', modelVersion: '1', id: '', parameters: new Map(), outputs, ...fields };
}

function listed(outputs: Record<string, OutputForm>): ResponseForm {
  return { outputs: new Map(Object.entries(outputs)), unlisted: jsonOutput };
}

function encode(response: InferenceResponse, form: ResponseForm): string {
  const { jsonByteLength, parts, byteLength } = encodeInferResponse(
    response,
    form,
    model,
    noSharedMemoryRegions,
  );
  const body = Buffer.concat(parts);
  expect(body.byteLength).toBe(byteLength);
  const json = body.toString('latin1', 0, jsonByteLength ?? byteLength);
  return jsonByteLength === undefined ? json : `${json}|${body.toString('hex', jsonByteLength)}`;
}

const pair = [fp32('A', [1, 2], 1, 0.5), fp32('B', [1, 1], -2)];

describe('encodeInferResponse', () => {
  it('writes id, model, parameters and outputs in the order of the reference server', () => {
    const parameters = new Map<string, string | bigint | boolean | number>([
      ['s', 'a"b'],
      ['i', 9_223_372_036_854_775_807n],
      ['b', true],
      ['d', 2],
    ]);
    expect(encode(respond(pair, { id: 'é\n\udcff', parameters }), jsonResponseForm)).toBe(
      Buffer.concat([
        Buffer.from('{"id":"é\\n'),
        Buffer.from([0xff]),
        Buffer.from(
          '","model_name":"m","model_version":"1","parameters":{"s":"a\\"b","i":9223372036854775807,"b":true,"d":2.0},' +
            '"outputs":[{"name":"A","datatype":"FP32","shape":[1,2],"data":[1.0,0.5]},' +
            '{"name":"B","datatype":"FP32","shape":[1,1],"data":[-2.0]}]}',
        ),
      ]).toString('latin1'),
    );
  });

  it('puts binary outputs behind the JSON part, in order', () => {
    expect(encode(respond(pair), listed({ B: binaryOutput, A: jsonOutput }))).toBe(
      '{"model_name":"m","model_version":"1","outputs":[' +
        '{"name":"A","datatype":"FP32","shape":[1,2],"data":[1.0,0.5]},' +
        '{"name":"B","datatype":"FP32","shape":[1,1],"parameters":{"binary_data_size":4}}]}|000000c0',
    );
  });

  it('leaves out what was not asked for', () => {
    expect(encode(respond(pair), listed({ B: jsonOutput }))).toBe(
      '{"model_name":"m","model_version":"1","outputs":[' +
        '{"name":"B","datatype":"FP32","shape":[1,1],"data":[-2.0]}]}',
    );
  });

  it('is plain JSON where all binary outputs are empty', () => {
    expect(encode(respond([fp32('A', [1, 0])]), binaryResponseForm)).toBe(
      '{"model_name":"m","model_version":"1","outputs":[' +
        '{"name":"A","datatype":"FP32","shape":[1,0],"parameters":{"binary_data_size":0}}]}',
    );
  });

  it('joins text that an instance has written', () => {
    const output: Tensor = {
      name: 'A',
      datatype: 'INT8',
      shape: [2],
      encoding: 'json',
      bytes: Buffer.from('[1,2]'),
    };
    expect(encode(respond([output, ...pair.slice(1)]), jsonResponseForm)).toBe(
      '{"model_name":"m","model_version":"1","outputs":[' +
        '{"name":"A","datatype":"INT8","shape":[2],"data":[1,2]},' +
        '{"name":"B","datatype":"FP32","shape":[1,1],"data":[-2.0]}]}',
    );
  });

  it.each([10, 5000])('writes an array of %d elements', (count) => {
    const values = Array.from({ length: count }, (_, index) => index);
    const text = encode(respond([fp32('A', [count], ...values)]), jsonResponseForm);
    expect(JSON.parse(text).outputs[0].data).toEqual(values);
  });

  it('reports classes, as JSON or in binary', () => {
    const classes = { isBinary: false, classificationCount: 2, sharedMemory: undefined };
    const response = respond([fp32('A', [2, 3], 0.1, 0.9, 0.5, 3, 2, 1)]);
    expect(encode(response, listed({ A: classes }))).toContain(
      '{"name":"A","datatype":"BYTES","shape":[2,2],"data":["0.900000:1:dog","0.500000:2","3.000000:0:cat","2.000000:1:dog"]}',
    );
    const binary = encode(response, listed({ A: { ...classes, isBinary: true } }));
    const elements = ['0.900000:1:dog', '0.500000:2', '3.000000:0:cat', '2.000000:1:dog'];
    const hex = Buffer.from(encodeBytesElements(elements.map((text) => Buffer.from(text))));
    expect(binary).toContain(`"parameters":{"binary_data_size":${hex.byteLength}}`);
    expect(binary.split('|')[1]).toBe(hex.toString('hex'));
  });

  it('writes outputs to shared memory that has room for them', () => {
    const written: unknown[] = [];
    const regions = {
      ...noSharedMemoryRegions,
      write: (name: string, offset: number, bytes: Uint8Array) =>
        void written.push([name, offset, bytes.byteLength]),
    };
    const form = (byteSize: number): ResponseForm =>
      listed({ A: { ...jsonOutput, sharedMemory: { region: 'r', offset: 3, byteSize } } });
    const response = respond([fp32('A', [1, 2], 1, 2)]);
    const { parts } = encodeInferResponse(response, form(8), model, regions);
    expect(Buffer.concat(parts).toString()).toContain(
      '"outputs":[{"name":"A","datatype":"FP32","shape":[1,2]}]',
    );
    expect(written).toEqual([['r', 3, 8]]);
    expect(() => encodeInferResponse(response, form(7), model, regions)).toThrow(
      internal(
        "shared memory size specified with the request for output 'A' (7 bytes) should be at least 8 bytes to hold the results",
      ),
    );
  });

  it('refuses FP16 as JSON, and an output whose bytes are not its shape', () => {
    const half: Tensor = {
      name: 'A',
      datatype: 'FP16',
      shape: [1],
      encoding: 'raw',
      bytes: new Uint8Array(2),
    };
    expect(() => encode(respond([half]), jsonResponseForm)).toThrow(
      invalidArg(
        'sending FP16 data via JSON is not supported. Please use the binary data format for output',
      ),
    );
    expect(() => encode(respond([fp32('A', [3], 1, 2)]), jsonResponseForm)).toThrow(
      "output tensor shape does not match size of output for 'A'",
    );
    const cut: Tensor = { ...half, datatype: 'BYTES', bytes: Uint8Array.of(9, 0, 0, 0) };
    expect(() => encode(respond([cut]), jsonResponseForm)).toThrow('does not match size');
  });

  it.each<[string, Partial<InferenceResponse>]>([
    ['the same', {}],
    ['another id', { id: 'r2' }],
    ['another version', { modelVersion: '2' }],
    ['parameters', { parameters: new Map([['p', 1n]]) }],
    ['another shape', { outputs: [fp32('A', [2, 1], 1, 2)] }],
    ['another size', { outputs: [fp32('A', [1, 3], 1, 2, 3)] }],
    ['another name', { outputs: [fp32('B', [1, 2], 1, 2)] }],
    ['more outputs', { outputs: pair }],
    ['an empty output', { outputs: [fp32('A', [1, 0])] }],
  ])('writes a response with %s after a remembered one as without', (_what, fields) => {
    for (const id of ['', 'r1']) {
      const form: ResponseForm = { ...binaryResponseForm, headerMemo: new ResponseHeaderMemo() };
      encode(respond([fp32('A', [1, 2], 1, 2)], { id }), form);
      const next = respond([fp32('A', [1, 2], 3, 4)], { id, ...fields });
      expect(encode(next, form)).toBe(encode(next, binaryResponseForm));
      expect(encode(next, form)).toBe(encode(next, binaryResponseForm));
    }
  });
});
