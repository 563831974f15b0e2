import { encodeTensorJson } from '../protocol/tensor-text.js';
import type { InputRow } from './input-data.js';
import { formatRequest, type HeaderLines } from './request-head.js';

export type TensorFormat = 'binary' | 'json';

export interface MessageSettings {
  readonly path: string;
  readonly headers: HeaderLines;
  readonly inputFormat: TensorFormat;
  readonly outputFormat: TensorFormat;
  readonly batchSize: number;
  readonly isBatching: boolean;
}

/**
 * Whole infer requests. Each takes `batchSize` rows, the next ones in turn, until every row was
 * used once; rows from the beginning fill the last one.
 */
export function makeMessages(
  rows: readonly (readonly InputRow[])[],
  settings: MessageSettings,
): readonly Buffer[] {
  const count = Math.ceil(rows.length / settings.batchSize);
  return Array.from({ length: count }, (_, message) =>
    makeMessage(
      Array.from(
        { length: settings.batchSize },
        (_, row) => rows[(message * settings.batchSize + row) % rows.length] ?? [],
      ),
      settings,
    ),
  );
}

function makeMessage(rows: readonly (readonly InputRow[])[], settings: MessageSettings): Buffer {
  const inputs = (rows[0] ?? []).map((first, index) => ({
    name: first.name,
    datatype: first.datatype,
    shape: settings.isBatching ? [rows.length, ...first.shape] : first.shape,
    bytes: Buffer.concat(rows.map((row) => row[index]?.bytes ?? new Uint8Array(0))),
  }));
  const parameters = settings.outputFormat === 'binary' ? { binary_data_output: true } : undefined;
  const isBinary = settings.inputFormat === 'binary';
  const heads = inputs.map(({ name, shape, datatype, bytes }) => {
    const head = JSON.stringify({
      name,
      shape,
      datatype,
      ...(isBinary && { parameters: { binary_data_size: bytes.byteLength } }),
    });
    if (isBinary) return head;
    // The text of the elements can be too long to be parsed and printed with the rest.
    return `${head.slice(0, -1)},"data":${Buffer.from(encodeTensorJson(datatype, bytes)).toString()}}`;
  });
  const options = parameters === undefined ? '' : `"parameters":${JSON.stringify(parameters)},`;
  const json = Buffer.from(`{${options}"inputs":[${heads.join(',')}]}`);
  const headers: HeaderLines = isBinary
    ? [
        ['Content-Type', 'application/octet-stream'],
        ['Inference-Header-Content-Length', String(json.byteLength)],
      ]
    : [['Content-Type', 'application/json']];
  return formatRequest({
    method: 'POST',
    path: settings.path,
    headers: [...settings.headers, ...headers],
    body: isBinary ? Buffer.concat([json, ...inputs.map(({ bytes }) => bytes)]) : json,
  });
}
