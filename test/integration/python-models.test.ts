import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import type { Datatype } from '../../src/inference/datatype.js';
import type { Tensor } from '../../src/inference/tensor.js';
import {
  asFloats,
  asInts,
  asTexts,
  configText,
  floats,
  ints,
  PythonModels,
  testRequest,
} from '../backends/python/python-models.js';

const repository = fileURLToPath(new URL('../conformance/golden/repo/', import.meta.url));

const models = new PythonModels();
afterEach(() => models.close());

async function loadRecorded(name: string) {
  const folder = path.join(repository, name);
  const text = await readFile(path.join(folder, 'config.pbtxt'), 'utf8').catch(() => '');
  return models.load(folder, text);
}

/** Answers one request with `outputs`, an expression over `r` and the array `a` of its input A. */
function answering(outputs: string): string {
  return `
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, r):
        a = pb_utils.get_input_tensor_by_name(r, "A").as_numpy()
        return pb_utils.InferenceResponse(${outputs})
`;
}

const intToInt = configText(['A INT32 -1'], ['B INT32 -1']);
const intToText = configText(['A INT32 -1'], ['B STRING -1']);

describe('a Python model', () => {
  it('answers a request with its outputs in its own order', async () => {
    const model = await loadRecorded('add_sub');
    const { outputs } = await model.infer(
      testRequest([floats('INPUT0', [4], [1, 2, 3, 4]), floats('INPUT1', [4], [1, 1, 1, 1])]),
    );
    expect(outputs.map(({ name, datatype, shape }) => [name, datatype, shape])).toEqual([
      ['OUTPUT0', 'FP32', [4]],
      ['OUTPUT1', 'FP32', [4]],
    ]);
    expect(asFloats(outputs[0])).toEqual([2, 3, 4, 5]);
    expect(asFloats(outputs[1])).toEqual([0, 1, 2, 3]);
  });

  it('gets one call a request of a bundle, and fails them one by one', async () => {
    const model = await models.loadSource(
      intToInt,
      `
import time
class TritonPythonModel:
    def execute(self, requests):
        a = pb_utils.get_input_tensor_by_name(requests[0], "A").as_numpy()[0]
        if a < 0:
            raise ValueError("negative")
        time.sleep(a / 1000)
        return [pb_utils.InferenceResponse([
            pb_utils.Tensor("B", np.array([len(requests)], np.int32))]) for _ in requests]
`,
    );
    const timed = await model.instance.executeEach?.(
      [0, -1, 30].map((value) => testRequest([ints('A', [1], [value])])),
    );
    const results = timed?.map(({ result }) => result) ?? [];
    expect(results.map(({ type }) => type)).toEqual(['response', 'error', 'response']);
    expect(results[0]?.type === 'response' && asInts(results[0].response.outputs[0])).toEqual([1]);
    const [first, , last] = timed ?? [];
    expect(first?.durationNs).toBeGreaterThan(0);
    expect(last?.durationNs).toBeGreaterThanOrEqual(30e6);
  });

  it('hands the rest of a bundle back that takes long', async () => {
    const model = await models.loadSource(
      intToInt,
      `
import time
class TritonPythonModel:
    def execute(self, requests):
        a = requests[0].inputs()[0].as_numpy()
        time.sleep(a[0] / 1000)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", a)])]
`,
    );
    const run = async (...milliseconds: readonly number[]) => {
      const requests = milliseconds.map((value) => testRequest([ints('A', [1], [value])]));
      const timed = await model.instance.executeEach?.(requests);
      return timed?.map(({ result }) => result.type);
    };
    expect(await run(0, 30, 0, 0)).toEqual(['response', 'response', 'unstarted', 'unstarted']);
    expect(await run(30, 0)).toEqual(['response', 'unstarted']);
    expect(await run(0, 30)).toEqual(['response', 'response']);
  });

  it('gets a whole batch in one call when it batches', async () => {
    const model = await models.loadSource(
      `${intToInt}\nmax_batch_size: 8`,
      `
class TritonPythonModel:
    def execute(self, requests):
        total = sum(int(r.inputs()[0].as_numpy().sum()) for r in requests)
        return [pb_utils.InferenceResponse([
            pb_utils.Tensor("B", np.array([[total, i]], np.int32))]) for i in range(len(requests))]
`,
    );
    const results = await model.instance.execute(
      [1, 2, 3].map((value) => testRequest([ints('A', [1, 1], [value])])),
    );
    const answers = results.map(
      (result) => result.type === 'response' && asInts(result.response.outputs[0]),
    );
    expect(answers).toEqual([
      [6, 0],
      [6, 1],
      [6, 2],
    ]);
  });

  it.each<readonly [Datatype, Uint8Array]>([
    ['BOOL', Uint8Array.of(1, 0, 1)],
    ['UINT8', Uint8Array.of(0, 1, 255)],
    ['UINT16', new Uint8Array(Uint16Array.of(0, 1, 65535).buffer)],
    ['UINT32', new Uint8Array(Uint32Array.of(0, 1, 2 ** 32 - 1).buffer)],
    ['UINT64', new Uint8Array(BigUint64Array.of(0n, 1n, 2n ** 64n - 1n).buffer)],
    ['INT8', new Uint8Array(Int8Array.of(-128, 0, 127).buffer)],
    ['INT16', new Uint8Array(Int16Array.of(-32768, 0, 32767).buffer)],
    ['INT32', new Uint8Array(Int32Array.of(-(2 ** 31), 0, 2 ** 31 - 1).buffer)],
    ['INT64', new Uint8Array(BigInt64Array.of(-(2n ** 63n), 0n, 2n ** 63n - 1n).buffer)],
    ['FP16', Uint8Array.of(0, 0x3c, 0, 0x7c, 1, 0)],
    ['FP32', new Uint8Array(Float32Array.of(Number.NaN, -0, 1.5).buffer)],
    ['FP64', new Uint8Array(Float64Array.of(Number.NaN, -0, 1.5).buffer)],
    ['BF16', Uint8Array.of(0x80, 0x3f, 0, 0x40, 0, 0x3f)],
    ['BYTES', Uint8Array.of(0, 0, 0, 0, 2, 0, 0, 0, 0xff, 0, 1, 0, 0, 0, 65)],
  ])('passes %s through bit by bit', async (datatype, bytes) => {
    const name = datatype === 'BYTES' ? 'identity_bytes' : `identity_${datatype.toLowerCase()}`;
    const model = await loadRecorded(name);
    const input: Tensor = { name: 'INPUT0', datatype, shape: [1, 3], encoding: 'raw', bytes };
    const { outputs } = await model.infer(testRequest([input]));
    const [output] = outputs;
    expect(output).toMatchObject({ name: 'OUTPUT0', datatype, shape: [1, 3] });
    expect(Uint8Array.from(output?.bytes ?? [])).toEqual(bytes);
  });

  it.each([
    ['a scalar', 'np.array(7, np.int32)', [], [7]],
    ['no elements', 'np.zeros((0, 3), np.int32)', [0, 3], []],
    [
      'a transposed view',
      'np.arange(6, dtype=np.int32).reshape(2, 3).T',
      [3, 2],
      [0, 3, 1, 4, 2, 5],
    ],
    ['big-endian values', 'np.array([1, 256], ">i4")', [2], [1, 256]],
    ['every other element', 'np.arange(6, dtype=np.int32)[::2]', [3], [0, 2, 4]],
    ['the input, changed in place', 'np.add(a, 1, out=a)', [2], [6, 7]],
  ])('sends %s', async (_what, expression, shape, values) => {
    const model = await models.loadSource(
      intToInt,
      answering(`[pb_utils.Tensor("B", ${expression})]`),
    );
    const { outputs } = await model.infer(testRequest([ints('A', [2], [5, 6])]));
    expect(outputs[0]?.shape).toEqual(shape);
    expect(asInts(outputs[0])).toEqual(values);
  });

  it('carries tensors of many megabytes both ways', async () => {
    const model = await models.loadSource(intToInt, answering('[pb_utils.Tensor("B", a[::-1])]'));
    const values = Array.from({ length: 3_000_001 }, (_, index) => index);
    const { outputs } = await model.infer(testRequest([ints('A', [values.length], values)]));
    expect(asInts(outputs[0])).toEqual(values.reverse());
  });

  it('carries tensors of any size by the socket or the shared file, one after the other', async () => {
    const model = await models.loadSource(intToInt, answering('[pb_utils.Tensor("B", a + 1)]'));
    const sizes = [1, 16_000, 16_400, 150_528, 2_097_000, 2_097_200];
    for (const size of [...sizes, ...sizes.reverse()]) {
      const values = Array.from({ length: size }, (_, index) => index);
      const { outputs } = await model.infer(testRequest([ints('A', [size], values)]));
      const answer = asInts(outputs[0]);
      expect(answer).toHaveLength(size);
      expect(answer.findIndex((value, index) => value !== index + 1)).toBe(-1);
    }
    // Another process may be opening one at this moment.
    const names = async () => (await readdir('/dev/shm')).filter((one) => /^nereid-/.test(one));
    await expect.poll(names).toEqual([]);
  });

  it('answers through the socket where the process can write to no shared file', async () => {
    const model = await models.loadSource(
      intToInt,
      `
import os, resource
class TritonPythonModel:
    def execute(self, requests):
        # A file may not grow past this any more.
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        a = requests[0].inputs()[0].as_numpy()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", a)])]
`,
    );
    const values = Array.from({ length: 200_000 }, (_, index) => index);
    const { outputs } = await model.infer(testRequest([ints('A', [values.length], values)]));
    expect(asInts(outputs[0])).toEqual(values);
  });

  it('lets a model keep an input after its execution', async () => {
    const model = await models.loadSource(
      intToInt,
      `
class TritonPythonModel:
    kept = None
    def execute(self, requests):
        last, self.kept = self.kept, requests[0].inputs()[0].as_numpy()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", last if last is not None else self.kept)])]
`,
    );
    for (const size of [10, 100_000]) {
      await model.infer(testRequest([ints('A', [size], Array(size).fill(1))]));
      const { outputs } = await model.infer(testRequest([ints('A', [size], Array(size).fill(2))]));
      expect(asInts(outputs[0]).every((value) => value === 1)).toBe(true);
    }
  });

  it('drops outputs that were not asked for, and those the configuration does not have', async () => {
    const source = answering(
      '[pb_utils.Tensor(n, a) for n in ("EXTRA", "B", "C")], parameters={"k": 1}',
    );
    const model = await models.loadSource(
      configText(['A INT32 -1'], ['B INT32 -1', 'C INT32 -1']),
      source,
    );
    const input = ints('A', [1], [1]);
    const all = await model.infer(testRequest([input]));
    expect(all.outputs.map(({ name }) => name)).toEqual(['B', 'C']);
    expect(all.parameters).toEqual(new Map([['k', 1n]]));
    const one = await model.infer(testRequest([input], { requestedOutputs: ['C'] }));
    expect(one.outputs.map(({ name }) => name)).toEqual(['C']);
  });

  it('sees what the client sent beside the tensors', async () => {
    const model = await models.loadSource(
      intToText,
      `
import json
${answering(`[pb_utils.Tensor("B", np.array([json.dumps({
            "id": r.request_id(), "correlation": r.correlation_id(), "flags": r.flags(),
            "timeout": r.timeout(), "parameters": json.loads(r.parameters()),
            "outputs": r.requested_output_names() and list(r.requested_output_names()),
            "missing": pb_utils.get_input_tensor_by_name(r, "X") is None})], object))]`)}`,
    );
    const seen = async (overrides: Parameters<typeof testRequest>[1]) => {
      const { outputs } = await model.infer(testRequest([ints('A', [1], [1])], overrides));
      return JSON.parse(asTexts(outputs[0])[0] ?? '') as unknown;
    };
    expect(await seen({})).toEqual({
      id: '',
      correlation: 0,
      flags: 0,
      timeout: 0,
      parameters: {},
      outputs: ['B'],
      missing: true,
    });
    expect(
      await seen({
        id: 'ä1',
        correlationId: 2n ** 40n,
        isSequenceStart: true,
        isSequenceEnd: true,
        timeoutUs: 2 ** 40,
        parameters: new Map<string, string | boolean | bigint | number>([
          ['s', 'é'],
          ['b', false],
          ['i', -(2n ** 40n)],
          ['f', 0.5],
        ]),
      }),
    ).toMatchObject({
      id: 'ä1',
      correlation: 2 ** 40,
      flags: 3,
      timeout: 2 ** 40,
      parameters: { s: 'é', b: false, i: -(2 ** 40), f: 0.5 },
    });
    expect(await seen({ correlationId: 'séquence' })).toMatchObject({ correlation: 'séquence' });
  });

  it('may execute as a coroutine', async () => {
    const model = await models.loadSource(
      intToInt,
      `
import asyncio
class TritonPythonModel:
    async def initialize(self, args):
        self.ready = True
    async def execute(self, requests):
        await asyncio.sleep(0.001)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", r.inputs()[0].as_numpy() * 2)]) for r in requests]
    async def is_ready(self):
        return self.ready
`,
    );
    const { outputs } = await model.infer(testRequest([ints('A', [2], [1, 2])]));
    expect(asInts(outputs[0])).toEqual([2, 4]);
    expect(await model.instance.isReady?.()).toBe(true);
  });
});

describe('a failing execution', () => {
  const at = (line: number) => `  ${repository}error_model/1/model.py(${line}): execute\n`;
  const failed = (text: string) =>
    `Failed to process the request(s) for model 'error_model_0_0', message: ${text}`;

  it.each([
    [0, 'INTERNAL', failed(`ValueError: boom from execute\n\nAt:\n${at(13)}`)],
    [1, 'INTERNAL', 'default error'],
    [2, 'UNKNOWN', 'error code 2'],
    [3, 'INTERNAL', 'error code 3'],
    [4, 'NOT_FOUND', 'error code 4'],
    [5, 'INVALID_ARG', 'error code 5'],
    [6, 'UNAVAILABLE', 'error code 6'],
    [7, 'UNSUPPORTED', 'error code 7'],
    [8, 'ALREADY_EXISTS', 'error code 8'],
    [9, 'CANCELLED', 'error code 9'],
    [
      24,
      'INTERNAL',
      failed(
        'Number of InferenceResponse objects do not match the number of InferenceRequest ' +
          'objects. InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0\n',
      ),
    ],
    [26, 'INTERNAL', failed(`TritonModelException: model exception\n\nAt:\n${at(31)}`)],
  ])('answers as the reference server does, mode %i', async (mode, code, message) => {
    const model = await loadRecorded('error_model');
    await expect(model.infer(testRequest([ints('MODE', [1], [mode])]))).rejects.toMatchObject({
      code,
      message,
    });
    const { outputs } = await model.infer(testRequest([ints('MODE', [1], [50])]));
    expect(asInts(outputs[0])).toEqual([50]);
  });

  it.each([
    ['None', 'return None', /must return a list of 1 .* but it returned None/],
    ['a dict', 'return {}', /must return a list of 1 .* but it returned dict/],
    ['a list of None', 'return [None]', /returned None instead of an InferenceResponse/],
    ['a list of text', 'return ["x"]', /its list holds str/],
    ['an exit', 'import sys; sys.exit(3)', /message: SystemExit: 3/],
    ['an unsupported array', 'pb_utils.Tensor("B", np.zeros(1, np.complex64))', /complex64/],
    ['a list for an array', 'pb_utils.Tensor("B", [1])', /expected a numpy array, got list/],
    ['an unknown code', 'pb_utils.TritonError("x", 99)', /code 99 is none of/],
  ])('says what is wrong with %s', async (_what, statement, message) => {
    const model = await models.loadSource(
      intToInt,
      `
class TritonPythonModel:
    def execute(self, requests):
        ${statement}
`,
    );
    await expect(model.infer(testRequest([ints('A', [1], [1])]))).rejects.toThrow(message);
  });

  it('names the frames of the model, innermost first, and none of ours', async () => {
    const model = await models.loadSource(
      intToInt,
      `
def inner():
    return 1 // 0
class TritonPythonModel:
    def execute(self, requests):
        inner()
`,
    );
    const error = await model.infer(testRequest([ints('A', [1], [1])])).catch(String);
    expect(String(error).replaceAll(/ \S*\/m\//g, ' ')).toContain(
      "'m_0_0', message: ZeroDivisionError: integer division or modulo by zero\n\n" +
        'At:\n  1/model.py(6): inner\n  1/model.py(9): execute\n',
    );
  });
});
