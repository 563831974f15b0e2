import type { CallOptions } from './bench-options.js';
import { makeMessages } from './infer-message.js';
import { type InputRow, makeRows } from './input-data.js';
import { readModelInputs } from './model-inputs.js';
import { createRandom } from './random.js';
import { modelPath, type V2Server } from './v2-server.js';

/** A call of a model, ready to be sent. */
export interface PreparedCall {
  /** Bytes of whole requests; at least one. */
  readonly messages: readonly Buffer[];
  /** Models that the model is made of, where it is an ensemble. */
  readonly steps: readonly string[];
}

/** Different requests that made values are spread over, where their bytes allow. */
const messagesMax = 8;
const messageBytesMax = 64 * 1024 * 1024;

/** Asks the server about the model, and makes requests for it. INVALID_ARG where that can't be. */
export async function prepareCall(server: V2Server, call: CallOptions): Promise<PreparedCall> {
  const metadata = await server.metadata(call.model);
  const configuration = await server.configuration(call.model);
  const { inputs, isBatching, steps } = readModelInputs(metadata, configuration, call);
  const random = createRandom(call.seed);
  const [first = []] = makeRows(call.input, inputs, 1, random);
  const count = call.batchSize * messageCount(call, first);
  const rows = makeRows(call.input, inputs, count, random);
  const messages = makeMessages(rows, {
    path: `${modelPath(server.target, call.model)}/infer`,
    headers: server.target.headers,
    inputFormat: call.inputFormat,
    outputFormat: call.outputFormat,
    batchSize: call.batchSize,
    isBatching,
  });
  return { messages, steps };
}

function messageCount({ batchSize }: CallOptions, row: readonly InputRow[]): number {
  const rowBytes = row.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
  const fitting = Math.floor(messageBytesMax / Math.max(1, rowBytes * batchSize));
  return Math.min(messagesMax, Math.max(1, fitting));
}
