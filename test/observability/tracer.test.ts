import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TracedRequest, type TracePolicy, Tracer } from '../../src/observability/tracer.js';

const on: TracePolicy = { levels: ['TIMESTAMPS'], rate: 1, count: -1, logFrequency: 0 };

const request: TracedRequest = {
  modelName: 'm',
  modelVersion: '2',
  requestId: 'r1',
  timing: {
    requestStartNs: 1,
    queueStartNs: 2,
    computeStartNs: 3,
    computeInputEndNs: 4,
    computeOutputStartNs: 5,
    computeEndNs: 6,
    requestEndNs: 7,
  },
  inputs: [
    {
      name: 'x',
      datatype: 'INT16',
      shape: [1, 2],
      encoding: 'raw',
      bytes: new Uint8Array(Int16Array.of(-1, 300).buffer),
    },
  ],
  outputs: [
    {
      name: 'y',
      datatype: 'BYTES',
      shape: [1],
      encoding: 'raw',
      bytes: Uint8Array.of(3, 0, 0, 0, 97, 44, 98),
    },
  ],
};

describe('Tracer', () => {
  let directory = '';
  let path = '';
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nereid-trace-'));
    path = join(directory, 'trace.json');
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  function createTracer(readPolicy: (modelName: string) => TracePolicy): Tracer {
    return new Tracer(readPolicy, path, (error) => {
      throw error;
    });
  }

  /** Traces `requests`, and gives the ids of those that were written. */
  async function trace(
    policy: TracePolicy,
    requests: readonly TracedRequest[],
  ): Promise<readonly string[]> {
    const tracer = createTracer(() => policy);
    for (const each of requests) tracer.requestEnded(each);
    await tracer.close();
    if (readdirSync(directory).length === 0) return [];
    return readFile(path).flatMap(({ request_id }) => request_id ?? []);
  }

  it('writes the stamps of a request as valid JSON', async () => {
    expect(await trace(on, [request, { ...request, requestId: 'r2' }])).toEqual(['r1', 'r2']);
    expect(readFile(path).slice(0, 2)).toEqual([
      { id: 1, model_name: 'm', model_version: 2, request_id: 'r1' },
      {
        id: 1,
        timestamps: [
          { name: 'REQUEST_START', ns: 1 },
          { name: 'QUEUE_START', ns: 2 },
          { name: 'COMPUTE_START', ns: 3 },
          { name: 'COMPUTE_INPUT_END', ns: 4 },
          { name: 'COMPUTE_OUTPUT_START', ns: 5 },
          { name: 'COMPUTE_END', ns: 6 },
          { name: 'REQUEST_END', ns: 7 },
        ],
      },
    ]);
  });

  it('leaves out what a request did not reach', async () => {
    const timing = { ...request.timing, computeStartNs: 0, computeEndNs: 0 };
    await trace(on, [{ ...request, requestId: '', timing }]);
    const [head, stamps] = readFile(path);
    expect(head).toEqual({ id: 1, model_name: 'm', model_version: 2 });
    expect(JSON.stringify(stamps)).not.toContain('COMPUTE_START');
  });

  it('writes tensors where their level is on', async () => {
    await trace({ ...on, levels: ['TENSORS'] }, [request]);
    expect(readFile(path).slice(1)).toEqual([
      {
        id: 1,
        activity: 'TENSOR_QUEUE_INPUT',
        tensor: { name: 'x', data: '-1,300', shape: '1,2', dtype: 'INT16' },
      },
      {
        id: 1,
        activity: 'TENSOR_BACKEND_OUTPUT',
        tensor: { name: 'y', data: '"a,b"', shape: '1', dtype: 'BYTES' },
      },
    ]);
  });

  it('takes every rate-th request, and no more than count', async () => {
    const requests = Array.from({ length: 10 }, (_, index) => ({
      ...request,
      requestId: `r${index + 1}`,
    }));
    expect(await trace({ ...on, rate: 3 }, requests)).toEqual(['r3', 'r6', 'r9']);
    expect(await trace({ ...on, rate: 2, count: 2 }, requests)).toEqual(['r2', 'r4']);
  });

  it.each([[[]], [['OFF']]] as const)('writes no file with the levels %j', async (levels) => {
    expect(await trace({ ...on, levels }, [request])).toEqual([]);
    expect(readdirSync(directory)).toEqual([]);
  });

  it('writes nothing without a file name', async () => {
    path = '';
    const tracer = createTracer(() => ({ ...on, levels: ['TENSORS'] }));
    expect(tracer.wantsTensors('m')).toBe(false);
    tracer.requestEnded(request);
    await tracer.close();
    expect(readdirSync(directory)).toEqual([]);
  });

  it('begins a new, numbered file after each logFrequency traces', async () => {
    const tracer = createTracer(() => ({ ...on, logFrequency: 2 }));
    for (let index = 0; index < 3; index++) tracer.requestEnded(request);
    await tracer.close();
    expect(readdirSync(directory).sort()).toEqual(['trace.json.0', 'trace.json.1']);
    expect(readFile(`${path}.1`).map(({ id }) => id)).toEqual([3, 3]);
  });

  it('follows policies by model, and their changes', async () => {
    let policy: TracePolicy = { ...on, levels: ['OFF'] };
    const tracer = createTracer((modelName) => (modelName === 'other' ? on : policy));
    tracer.requestEnded(request);
    tracer.requestEnded({ ...request, modelName: 'other', requestId: 'r2' });
    policy = { ...on, levels: ['TENSORS'] };
    tracer.policyChanged();
    expect(tracer.wantsTensors('m')).toBe(true);
    tracer.requestEnded({ ...request, requestId: 'r3' });
    await tracer.close();
    expect(readFile(path).flatMap(({ request_id }) => request_id ?? [])).toEqual(['r2', 'r3']);
  });

  it('reports a file that cannot be written once, and goes on', async () => {
    const errors: Error[] = [];
    const tracer = new Tracer(
      () => on,
      join(directory, 'no', 'trace.json'),
      (error) => errors.push(error),
    );
    tracer.requestEnded(request);
    await tracer.close();
    expect(errors.map(({ message }) => message)).toEqual([expect.stringContaining('ENOENT')]);
  });
});

interface TraceEntry {
  readonly id: number;
  readonly request_id?: string;
}

function readFile(path: string): readonly TraceEntry[] {
  return JSON.parse(readFileSync(path, 'utf8'));
}
