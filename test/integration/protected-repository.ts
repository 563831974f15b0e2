import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The models that are shipped. */
export const shippedRepository = fileURLToPath(new URL('../../model_repository', import.meta.url));

/** Name → configuration and source of a model. */
const models: Readonly<Record<string, readonly [config: string, source: string]>> = {
  // Echoes any FP32 values.
  floats: [
    'input [{ name: "X" data_type: TYPE_FP32 dims: [ -1 ] }] ' +
      'output [{ name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }]',
    `requests.map((request) => {
      const { shape, data } = request.getInput('X');
      return { outputs: [{ name: 'Y', datatype: 'FP32', shape, data }] };
    })`,
  ],
  // Tells how many values it got.
  counter: [
    'input [{ name: "X" data_type: TYPE_FP32 dims: [ -1 ] }] ' +
      'output [{ name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] }]',
    `requests.map((request) => ({ outputs: [
      { name: 'COUNT', datatype: 'INT32', shape: [1], data: [request.getInput('X').data.length] },
    ] }))`,
  ],
  special: [
    'input [{ name: "X" data_type: TYPE_FP32 dims: [ 1 ] }] ' +
      'output [{ name: "Y" data_type: TYPE_FP32 dims: [ 4 ] }]',
    `requests.map(() => ({ outputs: [
      { name: 'Y', datatype: 'FP32', shape: [4], data: [NaN, Infinity, -Infinity, 1] },
    ] }))`,
  ],
  failing: [
    'input [{ name: "X" data_type: TYPE_FP32 dims: [ 1 ] }] ' +
      'output [{ name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }]',
    `requests.map(() => undefined.missing)`,
  ],
  text: [
    'input [{ name: "A" data_type: TYPE_STRING dims: [ -1 ] }, ' +
      '{ name: "B" data_type: TYPE_STRING dims: [ -1 ], optional: true }] ' +
      'output [{ name: "SEEN" data_type: TYPE_STRING dims: [ 1 ] }]',
    `requests.map((request) => ({ outputs: [{ name: 'SEEN', datatype: 'BYTES', shape: [1],
      data: [JSON.stringify([request.id, request.parameters, request.getInput('A').strings(),
        typeof {}.polluted])] }] }))`,
  ],
  decoupled: [
    'input [{ name: "X" data_type: TYPE_FP32 dims: [ 1 ] }] ' +
      'output [{ name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }] ' +
      'model_transaction_policy { decoupled: true }',
    `requests.map((request) => { request.end(); })`,
  ],
};

/** The shipped models and those above, in a folder of its own. */
export class ProtectedRepository {
  readonly path = mkdtempSync(join(tmpdir(), 'nereid-protected-'));

  constructor() {
    cpSync(shippedRepository, this.path, { recursive: true });
    for (const [name, [config, body]] of Object.entries(models)) {
      const source = `export default class {\n  execute(requests) {\n    return ${body};\n  }\n}\n`;
      this.write(name, `backend: "javascript" ${config}\n`, source);
    }
  }

  write(name: string, config: string, source: string): void {
    const folder = join(this.path, name);
    mkdirSync(join(folder, '1'), { recursive: true });
    writeFileSync(join(folder, 'config.pbtxt'), config);
    writeFileSync(join(folder, '1', 'model.mjs'), source);
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}
