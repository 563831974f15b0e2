import type { InferenceRequest } from '../../src/inference/infer-request.js';
import type { GrpcClient } from '../grpc/grpc-client.js';

/*
 * A model that tells what its scheduler did. It answers with the execution that the request was in,
 * which reads `a*2 b`: requests by id, with their rows where they are several; of sequences
 * `a:S b c:E d:SE` by the control inputs, and `-` for a null row.
 */

/** `TEXT` is the execution, `SUM` what the request's sequence has sent so far. */
export const observedSource = `
let executions = 0;
const sums = new Map();
export default class Observed {
  initialize({ modelInstanceName, modelConfig }) {
    this.instance = modelInstanceName.split('_').at(-1);
    this.isBatching = modelConfig.max_batch_size > 0;
    this.keepsByRow = modelConfig.sequence_batching?.direct !== undefined;
  }
  execute(requests) {
    executions += 1;
    const flag = ({ getInput }, name) => getInput(name)?.data[0];
    const rows = requests.map((request) => {
      if (flag(request, 'READY') === 0) return '-';
      const flags = (flag(request, 'START') ? 'S' : '') + (flag(request, 'END') ? 'E' : '');
      const count = this.isBatching ? request.inputs[0].shape[0] : 1;
      return request.id + (count > 1 ? '*' + count : '') + (flags === '' ? '' : ':' + flags);
    });
    const text = this.instance + '|' + executions + '|' + rows.join(' ');
    return requests.map((request, row) => this.answer(request, row, text));
  }
  answer(request, row, text) {
    const corrid = request.getInput('CORRID');
    const told = corrid?.datatype === 'BYTES' ? corrid.strings()[0] : corrid?.data[0];
    const { correlationId } = request;
    const isRow = this.keepsByRow && request.getInput('READY') !== undefined;
    const key = isRow ? row : typeof correlationId + (told ?? correlationId);
    const x = request.getInput('X');
    const state = request.getInput('STATE_IN');
    const kept = state === undefined ? (sums.get(key) ?? 0) : state.data[0];
    const starts = request.getInput('START')?.data[0] ?? Number(request.isSequenceStart);
    const sum = (starts && state === undefined ? 0 : kept) + x.data[0];
    if (request.getInput('READY')?.data[0] !== 0) sums.set(key, sum);
    const count = this.isBatching ? x.shape[0] : 1;
    const shape = this.isBatching ? [count, 1] : [1];
    const outputs = [
      { name: 'TEXT', shape, data: Array.from({ length: count }, () => text) },
      { name: 'SUM', shape, data: Array.from({ length: count }, () => sum) },
      { name: 'ECHO', shape: x.shape, data: x.data },
    ];
    if (state !== undefined) outputs.push({ name: 'STATE_OUT', shape: state.shape, data: [sum] });
    const wanted = request.requestedOutputs;
    return { outputs: outputs.filter(({ name }) => wanted.length === 0 || wanted.includes(name)) };
  }
}`;

/** The tensors of the model. */
export const observedTensors = `
  input { name: "X" data_type: TYPE_INT32 dims: -1 }
  output { name: "TEXT" data_type: TYPE_STRING dims: 1 }
  output { name: "SUM" data_type: TYPE_INT32 dims: 1 }
  output { name: "ECHO" data_type: TYPE_INT32 dims: -1 }\n`;

export type WireProtocol = 'HTTP' | 'gRPC';

export interface Answered {
  readonly text: string;
  readonly sum: number;
  readonly echo: number;
}

export type Outcome = Answered | { readonly error: string };

/** Sends a request to model `m`, or to the one that it names. Aborting hangs up. */
export async function inferHttp(
  httpUrl: string,
  fields: Partial<InferenceRequest>,
  signal: AbortSignal,
): Promise<Outcome> {
  const { id, modelName = 'm', requestedOutputs = [] } = fields;
  const body = {
    id,
    parameters: parametersOf(fields, (value) => value),
    inputs: inputsOf(fields).map(({ name, shape, values }) => ({
      name,
      datatype: 'INT32',
      shape,
      data: values,
    })),
    outputs: requestedOutputs.map((name) => ({ name })),
  };
  let response: Response;
  try {
    response = await post(`${httpUrl}/v2/models/${modelName}/infer`, body, signal);
  } catch (error) {
    if (signal.aborted) return { error: 'the client has hung up' };
    throw error;
  }
  // The server's own answer.
  const { outputs, error = 'no answer' } = (await response.json()) as {
    readonly outputs?: readonly { readonly name: string; readonly data: readonly unknown[] }[];
    readonly error?: string;
  };
  if (outputs === undefined) return { error: `${response.status} ${error}` };
  const first = (name: string) => outputs.find((output) => output.name === name)?.data[0];
  return {
    text: String(first('TEXT')),
    sum: Number(first('SUM')),
    echo: Number(first('ECHO')),
  };
}

/** The same over gRPC. Aborting cancels the call. */
export async function inferGrpc(
  client: GrpcClient,
  fields: Partial<InferenceRequest>,
  signal: AbortSignal,
): Promise<Outcome> {
  const request = {
    model_name: fields.modelName ?? 'm',
    id: fields.id ?? '',
    parameters: parametersOf(fields, (value) =>
      typeof value === 'boolean'
        ? { bool_param: value }
        : typeof value === 'string'
          ? { string_param: value }
          : { int64_param: String(value) },
    ),
    inputs: inputsOf(fields).map(({ name, shape, values }) => ({
      name,
      datatype: 'INT32',
      shape,
      contents: { int_contents: [...values] },
    })),
  };
  const { code, details, response } = await client.call('ModelInfer', request, {
    onStart: (cancel) => signal.addEventListener('abort', cancel),
  });
  if (signal.aborted) return { error: 'the client has cancelled' };
  if (code !== 0) return { error: `${code} ${details}` };
  // The server's own answer: raw contents in the order of the outputs.
  const { outputs, raw_output_contents: raw } = response as unknown as {
    readonly outputs: readonly { readonly name: string }[];
    readonly raw_output_contents: readonly string[];
  };
  const bytes = (name: string) =>
    Buffer.from(raw[outputs.findIndex((output) => output.name === name)] ?? '', 'base64');
  const text = bytes('TEXT');
  return {
    text: text.toString('utf8', 4, 4 + text.readUInt32LE()),
    sum: bytes('SUM').readInt32LE(),
    echo: bytes('ECHO').readInt32LE(),
  };
}

export function post(
  url: string,
  body: unknown,
  signal: AbortSignal | null = null,
): Promise<Response> {
  return fetch(url, {
    signal,
    method: 'POST',
    // A connection that is kept holds the end of the server.
    headers: { connection: 'close' },
    body: JSON.stringify(body),
  });
}

/** What a request sends in all elements of `X`. */
export function sentValue(id = ''): number {
  return id.charCodeAt(0);
}

function inputsOf({ id, inputs = [] }: Partial<InferenceRequest>) {
  return inputs.map(({ name, shape }) => ({
    name,
    shape: [...shape],
    values: new Array<number>(shape.reduce((count, dim) => count * dim, 1)).fill(sentValue(id)),
  }));
}

function parametersOf<Value>(
  { priority = 0, timeoutUs = 0, sequence }: Partial<InferenceRequest>,
  form: (value: string | number | boolean) => Value,
): Record<string, Value> {
  const parameters: Record<string, Value> = {};
  if (priority > 0) parameters['priority'] = form(priority);
  if (timeoutUs > 0) parameters['timeout'] = form(timeoutUs);
  if (sequence !== undefined) {
    const { correlationId, start, end } = sequence;
    const id = typeof correlationId === 'bigint' ? Number(correlationId) : correlationId;
    parameters['sequence_id'] = form(id);
    parameters['sequence_start'] = form(start);
    parameters['sequence_end'] = form(end);
  }
  return parameters;
}
