import type { WireReply } from './raw-client.js';

export const inferBody = '{"inputs":[{"name":"X","datatype":"FP32","shape":[2],"data":[1,2.5]}]}';

/** What the model `echo` answers to it. */
export const echoed =
  '{"model_name":"echo","model_version":"1","outputs":[{"name":"X","datatype":"FP32","shape":[2],"data":[1.0,2.5]}]}';

/** The text under `error`. */
export function errorOf(reply: WireReply): unknown {
  return JSON.parse(reply.body.toString()).error;
}

/** JSON with a binary section of the FP32 values behind it. */
export function binaryRequest(values: readonly number[]): {
  body: Buffer;
  headers: Record<string, string>;
} {
  const data = Buffer.from(new Float32Array(values).buffer);
  const head = Buffer.from(
    `{"inputs":[{"name":"X","datatype":"FP32","shape":[${values.length}],"parameters":{"binary_data_size":${data.length}}}],"parameters":{"binary_data_output":true}}`,
  );
  return {
    body: Buffer.concat([head, data]),
    headers: { 'Inference-Header-Content-Length': String(head.length) },
  };
}
