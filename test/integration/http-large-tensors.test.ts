import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { imageDims, writeImageRepository } from '../../bench/image-models.js';
import { ServerProcess } from '../support/server-process.js';

const callers = 8;
const rounds = 5;
const elements = imageDims.reduce((product, dim) => product * dim, 1);

/** A request whose every element is `value`. */
function request(rows: number, value: number, signal?: AbortSignal): RequestInit {
  const data = new Float32Array(rows * elements).fill(value);
  const header = JSON.stringify({
    inputs: [
      {
        name: 'images',
        shape: [rows, ...imageDims],
        datatype: 'FP32',
        parameters: { binary_data_size: data.byteLength },
      },
    ],
    parameters: { binary_data_output: true },
  });
  return {
    method: 'POST',
    headers: { 'inference-header-content-length': String(header.length), connection: 'close' },
    body: Buffer.concat([Buffer.from(header), Buffer.from(data.buffer)]),
    ...(signal !== undefined && { signal }),
  };
}

/** The values that an answer holds, each once, and how many elements it has. */
async function valuesOf(response: Response): Promise<readonly [readonly number[], number]> {
  const jsonBytes = Number(response.headers.get('inference-header-content-length'));
  const data = new Float32Array((await response.arrayBuffer()).slice(jsonBytes));
  return [[...new Set(data)], data.length];
}

// The memory of bodies and outputs goes round: nobody may get what is another's.
describe.each(['identity_onnx', 'identity_js'])('large tensors of %s', (model) => {
  const directory = mkdtempSync(join(tmpdir(), 'nereid-large-'));
  let server: ServerProcess;
  let url: string;

  beforeAll(async () => {
    await writeImageRepository(directory);
    server = await ServerProcess.start([`--model-repository=${directory}`]);
    url = `${server.httpUrl}/v2/models/${model}/infer`;
  });

  afterAll(async () => {
    expect(await server.stop()).toBe(0);
    rmSync(directory, { recursive: true });
  });

  it('come back as they were sent, to each caller its own', async () => {
    await Promise.all(
      Array.from({ length: callers }, async (_, caller) => {
        for (let round = 0; round < rounds; round += 1) {
          const rows = 1 + ((caller + round) % 2);
          const value = caller * rounds + round;
          const answer = await fetch(url, request(rows, value));
          expect(await valuesOf(answer)).toEqual([[value], rows * elements]);
        }
      }),
    );
  });

  it('come back as they were sent beside callers that leave', async () => {
    await Promise.all(
      Array.from({ length: callers }, async (_, caller) => {
        for (let round = 0; round < rounds; round += 1) {
          const value = 1000 + caller * rounds + round;
          const controller = new AbortController();
          const answer = fetch(url, request(1, value, controller.signal));
          if (caller % 2 === 0) {
            expect(await valuesOf(await answer)).toEqual([[value], elements]);
            continue;
          }
          // Some leave before their answer, some with its head read.
          if (round % 2 === 0) setImmediate(() => controller.abort());
          else answer.then(() => controller.abort()).catch(() => undefined);
          await answer.catch(() => undefined);
        }
      }),
    );
  });
});
