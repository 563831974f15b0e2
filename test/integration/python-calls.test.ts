import { afterEach, describe, expect, it } from 'vitest';
import type { ExecutionResponse } from '../../src/backends/backend.js';
import { unavailable } from '../../src/errors.js';
import { noParameters } from '../../src/inference/infer-request.js';
import {
  asInts,
  asTexts,
  configText,
  ints,
  PythonModels,
  testRequest,
} from '../backends/python/python-models.js';

const intToInt = configText(['A INT32 -1'], ['B INT32 -1']);

const models = new PythonModels();
afterEach(() => models.close());

function response(values: readonly number[]): ExecutionResponse & {
  readonly modelName: string;
  readonly modelVersion: string;
} {
  return {
    modelName: 'other',
    modelVersion: '1',
    outputs: [ints('OUT', [values.length], values)],
    parameters: noParameters,
  };
}

describe('a Python model that calls other models', () => {
  const calling = (statements: string) => `
class TritonPythonModel:
    def execute(self, requests):
        call = pb_utils.InferenceRequest(
            model_name="other", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", requests[0].inputs()[0].as_numpy())],
            request_id="c1", correlation_id=9, flags=pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, timeout=5,
            model_version=3, parameters={"p": "v", "n": 2})
        ${statements.replaceAll('\n', '\n        ')}
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", out)])]
`;

  it('sends its request and gets the response', async () => {
    const model = await models.loadSource(
      intToInt,
      calling(`answer = call.exec()
assert not answer.has_error()
out = pb_utils.get_output_tensor_by_name(answer, "OUT").as_numpy()
assert pb_utils.get_output_tensor_by_name(answer, "X") is None`),
    );
    model.host.onInfer = async (call, onResponse) => {
      onResponse(response([...asInts(call.inputs[0]), 99]));
    };
    const { outputs } = await model.infer(testRequest([ints('A', [2], [1, 2])]));
    expect(asInts(outputs[0])).toEqual([1, 2, 99]);
    expect(model.host.calls[0]).toMatchObject({
      modelName: 'other',
      modelVersion: '3',
      isDecoupled: false,
      id: 'c1',
      correlationId: 9n,
      isSequenceStart: true,
      isSequenceEnd: false,
      timeoutUs: 5,
      requestedOutputs: ['OUT'],
      parameters: new Map<string, unknown>([
        ['p', 'v'],
        ['n', 2n],
      ]),
      inputs: [{ name: 'IN', datatype: 'INT32', shape: [2] }],
    });
  });

  it('gets an error as a response', async () => {
    const model = await models.loadSource(
      configText(['A INT32 -1'], ['B STRING -1']),
      calling(`answer = call.exec()
out = np.array([answer.has_error(), answer.error().message(), answer.error().code() == pb_utils.TritonError.NOT_FOUND], object)`),
    );
    const { outputs } = await model.infer(testRequest([ints('A', [1], [1])]));
    expect(asTexts(outputs[0])).toEqual([
      'True',
      "Request for unknown model: 'other' is not found",
      'True',
    ]);
  });

  it.each([
    [
      'exec',
      'values = [int(r.output_tensors()[0].as_numpy()[0]) for r in call.exec(decoupled=True) if not r.has_error()]',
    ],
    [
      'a coroutine',
      `import asyncio
async def collect():
    return [int(r.output_tensors()[0].as_numpy()[0]) async for r in await call.async_exec(decoupled=True) if not r.has_error()]
values = asyncio.run(collect())`,
    ],
  ])('reads the responses of a decoupled model with %s', async (_what, statements) => {
    const model = await models.loadSource(
      intToInt,
      calling(`${statements}\nout = np.array(values, np.int32)`),
    );
    model.host.onInfer = async (call, onResponse) => {
      expect(call.isDecoupled).toBe(true);
      for (let index = 0; index < 50; index += 1) {
        onResponse(response([index]));
        if (index % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      throw unavailable('broke off');
    };
    const { outputs } = await model.infer(testRequest([ints('A', [1], [1])]));
    expect(asInts(outputs[0])).toEqual(Array.from({ length: 50 }, (_, index) => index));
  });

  it('has many calls under way at once from threads and coroutines', async () => {
    const model = await models.loadSource(
      intToInt,
      `
import asyncio, threading
def call(value):
    return pb_utils.InferenceRequest(model_name="other", inputs=[pb_utils.Tensor("IN", np.array([value], np.int32))])
class TritonPythonModel:
    async def execute(self, requests):
        found = {}
        def in_thread(value):
            found[value] = int(call(value).exec().output_tensors()[0].as_numpy()[0])
        threads = [threading.Thread(target=in_thread, args=(value,)) for value in range(20)]
        for thread in threads: thread.start()
        answers = await asyncio.gather(*[call(value).async_exec() for value in range(20, 60)])
        for thread in threads: thread.join()
        values = [found[value] for value in range(20)] + [int(a.output_tensors()[0].as_numpy()[0]) for a in answers]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array(values, np.int32))])]
`,
    );
    model.host.onInfer = async (call, onResponse) => {
      const [value = 0] = asInts(call.inputs[0]);
      // Answers overtake one another.
      for (let turn = 0; turn < (value * 7) % 5; turn += 1) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      onResponse(response([value * 2]));
    };
    for (let round = 0; round < 5; round += 1) {
      const { outputs } = await model.infer(testRequest([ints('A', [1], [1])]));
      expect(asInts(outputs[0])).toEqual(Array.from({ length: 60 }, (_, index) => index * 2));
    }
  });

  it('may not load itself before it is initialized', async () => {
    const source = `
class TritonPythonModel:
    def initialize(self, args):
        pb_utils.load_model("m")
    def execute(self, requests):
        return []
`;
    await expect(models.loadSource(intToInt, source)).rejects.toThrow(
      "model 'm' loads itself before it is initialized",
    );
  });

  it('passes the cancellation of its client on, and can cancel a call itself', async () => {
    const model = await models.loadSource(
      intToInt,
      calling(`responses = call.exec(decoupled=True)
first = next(iter(responses))
if requests[0].inputs()[0].as_numpy()[0] == 1: responses.cancel()
last = list(responses)[-1]
out = np.array([last.error().code()], np.int32)`),
    );
    const cancelled: string[] = [];
    model.host.onInfer = (_call, onResponse, signal) => {
      onResponse(response([0]));
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          cancelled.push('call');
          reject(unavailable('cancelled'));
        });
      });
    };
    await model.infer(testRequest([ints('A', [1], [1])]));
    const request = testRequest([ints('A', [1], [2])]);
    const answer = model.infer(request);
    await expect.poll(() => model.host.calls.length).toBe(2);
    request.cancel();
    await answer;
    expect(cancelled).toEqual(['call', 'call']);
  });

  it('loads, unloads and looks at models', async () => {
    const model = await models.loadSource(
      intToInt,
      `
class TritonPythonModel:
    def execute(self, requests):
        pb_utils.load_model("n", config="{}", files={"file:1/model.py": b"x = 1", "file:labels": b""})
        ready = [pb_utils.is_model_ready("ready"), pb_utils.is_model_ready("other", "2")]
        pb_utils.unload_model("n")
        try:
            pb_utils.load_model("missing")
        except pb_utils.TritonModelException as e:
            pb_utils.Logger.log_warn(str(e))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array(ready, np.int32))])]
`,
    );
    const { outputs } = await model.infer(testRequest([ints('A', [1], [1])]));
    expect(asInts(outputs[0])).toEqual([1, 0]);
    expect(model.host.controls).toEqual([
      'load n {} file:1/model.py=x = 1 file:labels=',
      'is-ready ready ',
      'is-ready other 2',
      'unload n',
      'load missing undefined ',
    ]);
    expect(model.host.logs).toEqual(["warning failed to load 'missing', no such model"]);
  });
});
