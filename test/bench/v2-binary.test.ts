import { describe, expect, it } from 'vitest';
import { decodeResponse, encodeBinaryRequest, encodeJsonRequest } from '../../bench/v2-binary.js';

const inputs = [
  { name: 'a', shape: [1, 2], data: Float32Array.of(1.5, -2) },
  { name: 'b', shape: [1, 1], data: Float32Array.of(3) },
];

describe('requests of the benchmark', () => {
  it('carry their tensors behind a header of the stated length', () => {
    const { headers, body } = encodeBinaryRequest(inputs);
    const headerBytes = Number(headers['Inference-Header-Content-Length']);
    const header = JSON.parse(body.subarray(0, headerBytes).toString());
    expect(header.inputs.map((input: { parameters: unknown }) => input.parameters)).toEqual([
      { binary_data_size: 8 },
      { binary_data_size: 4 },
    ]);
    expect(body.length).toBe(headerBytes + 12);
    expect(body.readFloatLE(headerBytes + 4)).toBe(-2);
  });

  it('carry their tensors as JSON', () => {
    const { inputs: written } = JSON.parse(encodeJsonRequest(inputs).body.toString());
    expect(written[0]).toEqual({ name: 'a', shape: [1, 2], datatype: 'FP32', data: [1.5, -2] });
  });
});

describe('decodeResponse', () => {
  it('reads binary outputs in their order', () => {
    const header = Buffer.from(
      '{"outputs":[{"name":"x","parameters":{"binary_data_size":8}},{"name":"y","parameters":{"binary_data_size":4}}]}',
    );
    const data = Buffer.from(Float32Array.of(1, 2, 3).buffer);
    const outputs = decodeResponse(Buffer.concat([header, data]), header.length);
    expect([...outputs]).toEqual([
      ['x', Float32Array.of(1, 2)],
      ['y', Float32Array.of(3)],
    ]);
  });

  it('reads JSON outputs', () => {
    const body = Buffer.from('{"outputs":[{"name":"x","data":[1,2.5]}]}');
    expect(decodeResponse(body, undefined).get('x')).toEqual(Float32Array.of(1, 2.5));
  });
});
