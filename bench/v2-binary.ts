/** An FP32 tensor of an infer request. */
export interface FloatTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** Doubles where what matters is how JSON shows them. */
  readonly data: Float32Array | Float64Array;
}

export interface EncodedRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** The binary tensor extension: JSON, then the raw elements; all outputs come back binary. */
export function encodeBinaryRequest(inputs: readonly FloatTensor[]): EncodedRequest {
  const header = Buffer.from(
    JSON.stringify({
      parameters: { binary_data_output: true },
      inputs: inputs.map(({ name, shape, data }) => ({
        name,
        shape,
        datatype: 'FP32',
        parameters: { binary_data_size: data.length * Float32Array.BYTES_PER_ELEMENT },
      })),
    }),
  );
  const blocks = inputs.map(({ data }) => Buffer.from(Float32Array.from(data).buffer));
  return {
    headers: {
      'Content-Type': 'application/octet-stream',
      'Inference-Header-Content-Length': String(header.length),
    },
    body: Buffer.concat([header, ...blocks]),
  };
}

export function encodeJsonRequest(inputs: readonly FloatTensor[]): EncodedRequest {
  return {
    headers: { 'Content-Type': 'application/json' },
    body: Buffer.from(
      JSON.stringify({
        inputs: inputs.map(({ name, shape, data }) => ({
          name,
          shape,
          datatype: 'FP32',
          data: [...data],
        })),
      }),
    ),
  };
}

interface ResponseOutput {
  readonly name: string;
  readonly data?: readonly number[];
  readonly parameters?: { readonly binary_data_size?: number };
}

/** Outputs by name, from a JSON or a binary response. */
export function decodeResponse(
  body: Buffer,
  jsonBytes: number | undefined,
): ReadonlyMap<string, Float32Array> {
  // The server's own answer; what the checks compare are the numbers in it.
  const text = body.subarray(0, jsonBytes ?? body.length).toString();
  const { outputs } = JSON.parse(text) as { readonly outputs: readonly ResponseOutput[] };
  let offset = jsonBytes ?? 0;
  const decoded = new Map<string, Float32Array>();
  for (const { name, data, parameters } of outputs) {
    const bytes = parameters?.binary_data_size ?? 0;
    const values =
      data === undefined
        ? new Float32Array(
            body.buffer.slice(body.byteOffset + offset, body.byteOffset + offset + bytes),
          )
        : Float32Array.from(data);
    if (data === undefined) offset += bytes;
    decoded.set(name, values);
  }
  return decoded;
}
