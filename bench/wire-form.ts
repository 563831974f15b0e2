import {
  decodeResponse,
  type EncodedRequest,
  encodeBinaryRequest,
  encodeJsonRequest,
  type FloatTensor,
} from './v2-binary.js';

/** How a kind of server wants tensors and gives them back. */
export interface WireForm {
  readonly name: string;
  /** Of a model's URL on such a server. */
  path(model: string): string;
  encode(inputs: readonly FloatTensor[]): EncodedRequest;
  /** Outputs by name, flat. */
  decode(headers: Headers, body: Buffer): ReadonlyMap<string, Float32Array>;
}

const v2 = {
  path: (model: string): string => `/v2/models/${model}/infer`,
  decode(headers: Headers, body: Buffer): ReadonlyMap<string, Float32Array> {
    const jsonBytes = headers.get('inference-header-content-length');
    return decodeResponse(body, jsonBytes === null ? undefined : Number(jsonBytes));
  },
};

export const v2Binary: WireForm = { name: 'v2 binary', ...v2, encode: encodeBinaryRequest };

export const v2Json: WireForm = { name: 'v2 JSON', ...v2, encode: encodeJsonRequest };

/** What people write who have no protocol to follow: `{"x": [[...]]}` in, `{"y": [[...]]}` out. */
export const plainJson: WireForm = {
  name: 'plain JSON',
  path: (model) => `/${model}`,
  encode: (inputs) => ({
    headers: { 'Content-Type': 'application/json' },
    body: Buffer.from(
      `{${inputs.map(({ name, shape, data }) => `"${name}":${nest([...data], shape)}`).join(',')}}`,
    ),
  }),
  decode(_headers, body) {
    // The peer's own answer; what the checks compare are the numbers in it.
    const outputs = JSON.parse(body.toString()) as Readonly<Record<string, NestedNumbers>>;
    return new Map(
      Object.entries(outputs).map(([name, values]) => [name, Float32Array.from(flatten(values))]),
    );
  },
};

/** The same form with numbers cut to so many decimals, which JSON then shows in as many digits. */
export function withDecimals(wire: WireForm, decimals: number): WireForm {
  const scale = 10 ** decimals;
  return {
    ...wire,
    encode: (inputs) =>
      wire.encode(
        inputs.map(({ name, shape, data }) => ({
          name,
          shape,
          data: Float64Array.from(data, (value) => Math.round(value * scale) / scale),
        })),
      ),
  };
}

type NestedNumbers = readonly (number | NestedNumbers)[];

function flatten(values: NestedNumbers): readonly number[] {
  return values.flatMap((value) => (typeof value === 'number' ? [value] : flatten(value)));
}

/** JSON text of nested arrays in row-major order. */
function nest(values: readonly number[], shape: readonly number[]): string {
  const [first, ...rest] = shape;
  if (first === undefined || rest.length === 0) return `[${values.join(',')}]`;
  const step = values.length / first;
  const parts = Array.from({ length: first }, (_, index) =>
    nest(values.slice(index * step, (index + 1) * step), rest),
  );
  return `[${parts.join(',')}]`;
}
