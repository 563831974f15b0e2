import { afterEach, describe, expect, it } from 'vitest';
import type { ExecutionResponse } from '../../src/backends/backend.js';
import { unavailable } from '../../src/errors.js';
import { noParameters } from '../../src/inference/infer-request.js';
import {
  asInts,
  asTexts,
  configText,
  ints,
  type LoadedModel,
  PythonModels,
  type TestRequest,
  testRequest,
} from '../backends/python/python-models.js';

const intToInt = configText(['A INT32 -1'], ['B INT32 -1']);
const decoupledConfig = `${intToInt}\nmodel_transaction_policy { decoupled: true }`;

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

async function stream(model: LoadedModel, ...requests: TestRequest[]) {
  const results = await model.instance.execute(requests);
  expect(results.map(({ type }) => type)).toEqual(requests.map(() => 'streamed'));
  await Promise.all(requests.map(({ ended }) => ended));
  return requests.map(({ stream: { responses, errors, endCount } }) => ({
    values: responses.map(({ outputs }) => asInts(outputs[0])[0]),
    errors,
    endCount,
  }));
}

describe('a decoupled Python model', () => {
  const counting = `
class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for i in range(int(r.inputs()[0].as_numpy()[0])):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([i], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`;

  it('sends none, one and many responses to the requests of one batch', async () => {
    const model = await models.loadSource(decoupledConfig, counting);
    const requests = [0, 1, 100].map((count) => testRequest([ints('A', [1], [count])]));
    const results = await stream(model, ...requests);
    expect(results.map(({ values }) => values.length)).toEqual([0, 1, 100]);
    expect(results[2]?.values).toEqual(Array.from({ length: 100 }, (_, index) => index));
    expect(results.every(({ errors, endCount }) => errors.length === 0 && endCount === 1)).toBe(
      true,
    );
  });

  it('waits for a slow reader', async () => {
    const model = await models.loadSource(decoupledConfig, counting);
    const pending: (() => void)[] = [];
    const request = testRequest([ints('A', [1], [100])], {
      send: () => new Promise<void>((resolve) => pending.push(resolve)),
    });
    const execution = model.instance.execute([request]);
    let sentCount = 0;
    await expect.poll(() => pending.length).toBe(32);
    while (sentCount < 100) {
      const next = pending.shift();
      if (next === undefined) await new Promise((resolve) => setImmediate(resolve));
      else sentCount += 1;
      next?.();
      expect(pending.length).toBeLessThanOrEqual(32);
    }
    await execution;
    await request.ended;
  });

  it.each([
    [
      'from threads after execute',
      `
        def later(sender):
            for i in range(3):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([i], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        import threading
        for r in requests:
            threading.Thread(target=later, args=(r.get_response_sender(),)).start()`,
    ],
    [
      'with the last response final',
      `
        s = requests[0].get_response_sender()
        for i in range(3):
            s.send(pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([i], np.int32))]), flags=int(i == 2))`,
    ],
  ])('may answer %s', async (_what, statements) => {
    const model = await models.loadSource(
      decoupledConfig,
      `
class TritonPythonModel:
    def execute(self, requests):${statements}
`,
    );
    const [result] = await stream(model, testRequest([ints('A', [1], [1])]));
    expect(result).toEqual({ values: [0, 1, 2], errors: [], endCount: 1 });
  });

  it('runs several coroutines side by side', async () => {
    const model = await models.loadSource(
      decoupledConfig,
      `
import asyncio
class TritonPythonModel:
    waiting = []
    async def execute(self, requests):
        sender = requests[0].get_response_sender()
        if int(requests[0].inputs()[0].as_numpy()[0]) == 1:
            self.waiting.append(asyncio.get_running_loop().create_future())
            await self.waiting[0]
        else:
            self.waiting[0].set_result(None)
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([5], np.int32))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`,
    );
    const waiting = stream(model, testRequest([ints('A', [1], [1])]));
    const waking = stream(model, testRequest([ints('A', [1], [2])]));
    expect((await Promise.all([waiting, waking])).flat().map(({ values }) => values)).toEqual([
      [5],
      [5],
    ]);
  });

  it.each([
    ['raises', 'raise ValueError("midway")', /^Failed .*'m_0_0', message: ValueError: midway/],
    ['returns responses', 'return []', /must return None and answer through response senders/],
    ['fails as a coroutine', 'return self.fail()', /ValueError: later/],
  ])('ends what is open when it %s', async (_what, statement, message) => {
    const model = await models.loadSource(
      decoupledConfig,
      `
class TritonPythonModel:
    async def fail(self):
        raise ValueError("later")
    def execute(self, requests):
        s = requests[0].get_response_sender()
        s.send(pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([1], np.int32))]))
        s.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        ${statement}
`,
    );
    const [done, open] = await stream(
      model,
      testRequest([ints('A', [1], [1])]),
      testRequest([ints('A', [1], [1])]),
    );
    expect(done).toEqual({ values: [1], errors: [], endCount: 1 });
    expect(open?.errors).toEqual([{ code: 'INTERNAL', message: expect.stringMatching(message) }]);
  });

  it('ends a request whose sender was dropped, and logs it', async () => {
    const model = await models.loadSource(
      decoupledConfig,
      `
class TritonPythonModel:
    def execute(self, requests):
        pass
`,
    );
    const [result] = await stream(model, testRequest([ints('A', [1], [1])]));
    expect(result).toEqual({ values: [], errors: [], endCount: 1 });
    await expect.poll(() => model.host.logs.join()).toContain('sender was dropped');
  });

  it.each([
    ['after the final response', 's.send(flags=1)\n        s.send(flags=1)', /after the final/],
    ['nothing', 's.send()', /a response is needed/],
    ['unknown flags', 's.send(flags=2)', /flags must be 0 or/],
    ['no response', 's.send(5)', /expected an InferenceResponse, got int/],
  ])('may not send %s', async (_what, statements, message) => {
    const model = await models.loadSource(
      decoupledConfig,
      `
class TritonPythonModel:
    def execute(self, requests):
        s = requests[1].get_response_sender()
        ${statements}
`,
    );
    const [first] = await stream(
      model,
      testRequest([ints('A', [1], [1])]),
      testRequest([ints('A', [1], [1])]),
    );
    expect(first?.errors[0]?.message).toMatch(message);
  });

  it('learns that its client has gone', async () => {
    const model = await models.loadSource(
      decoupledConfig,
      `
import time
class TritonPythonModel:
    def execute(self, requests):
        s = requests[0].get_response_sender()
        s.send(pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([int(s.is_cancelled())], np.int32))]))
        while not requests[0].is_cancelled():
            time.sleep(0.001)
        s.send(pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([1], np.int32))]), flags=1)
`,
    );
    const request = testRequest([ints('A', [1], [1])]);
    const results = stream(model, request);
    await expect.poll(() => request.stream.responses.length).toBe(1);
    request.cancel();
    expect((await results)[0]?.values).toEqual([0, 1]);
  });
});

describe('a response sender of a model that is not decoupled', () => {
  it.each([
    ['before execute returns', 's.send(R, flags=1)', [7]],
    [
      'from a thread',
      'import threading; threading.Timer(0.01, lambda: s.send(R, flags=1)).start()',
      [7],
    ],
  ])('answers %s', async (_what, statement, values) => {
    const model = await models.loadSource(
      intToInt,
      `
R = pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([7], np.int32))])
class TritonPythonModel:
    def execute(self, requests):
        s = requests[0].get_response_sender()
        ${statement}
        return [None]
`,
    );
    const { outputs } = await model.infer(testRequest([ints('A', [1], [1])]));
    expect(asInts(outputs[0])).toEqual(values);
  });

  it.each([
    ['twice', 's.send(R); s.send(R)', /sends exactly one response/],
    ['without a response', 's.send(flags=1)', /no response was sent/],
    ['never', 'del s', /no response was sent/],
  ])('fails the request when used %s', async (_what, statement, message) => {
    const model = await models.loadSource(
      intToInt,
      `
R = pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([7], np.int32))])
class TritonPythonModel:
    def execute(self, requests):
        s = requests[0].get_response_sender()
        ${statement}
        return [None]
`,
    );
    await expect(model.infer(testRequest([ints('A', [1], [1])]))).rejects.toThrow(message);
  });
});

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

  it('is refused a call of itself that could never be answered', async () => {
    const model = await models.loadSource(
      intToInt,
      calling(`call = pb_utils.InferenceRequest(model_name="m", inputs=requests[0].inputs())
answer = call.exec()
raise ValueError(answer.error().message())`),
    );
    await expect(model.infer(testRequest([ints('A', [1], [1])]))).rejects.toThrow(
      "model 'm' calls itself, but its only instance is busy with the call",
    );
    expect(model.host.calls).toEqual([]);
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

describe('logs and metrics of a Python model', () => {
  it('reach the server', async () => {
    const model = await models.loadSource(
      intToInt,
      `
class TritonPythonModel:
    def initialize(self, args):
        family = pb_utils.MetricFamily(name="seen", description="Values seen", kind=pb_utils.MetricFamily.COUNTER)
        self.seen = family.Metric(labels={"model": "m"})
        self.level = pb_utils.MetricFamily(name="level", description="L", kind=pb_utils.MetricFamily.GAUGE).Metric()
        self.spread = pb_utils.MetricFamily(name="spread", description="S", kind=pb_utils.MetricFamily.HISTOGRAM).Metric(buckets=[1, 2.5])
    def execute(self, requests):
        self.seen.increment(2); self.seen.increment(0.5)
        self.level.set(3); self.level.increment(-1)
        self.spread.observe(1.5)
        log = pb_utils.Logger
        log.log_info("i"); log.log_warn("w"); log.log_error("e"); log.log_verbose("v"); log.log("p"); log.log("q", log.ERROR)
        values = [int(self.seen.value() * 2), int(self.level.value())]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array(values, np.int32))])]
`,
    );
    const { outputs } = await model.infer(testRequest([ints('A', [1], [1])]));
    expect(asInts(outputs[0])).toEqual([5, 2]);
    expect(model.host.logs).toEqual([
      'info i',
      'warning w',
      'error e',
      'verbose v',
      'info p',
      'error q',
    ]);
    const labels = { model: 'm' };
    expect(model.host.metrics).toEqual([
      { type: 'family', name: 'seen', help: 'Values seen', kind: 'counter' },
      { type: 'series', family: 'seen', labels, buckets: [] },
      { type: 'family', name: 'level', help: 'L', kind: 'gauge' },
      { type: 'series', family: 'level', labels: {}, buckets: [] },
      { type: 'family', name: 'spread', help: 'S', kind: 'histogram' },
      { type: 'series', family: 'spread', labels: {}, buckets: [1, 2.5] },
      { type: 'value', family: 'seen', labels, action: 'increment', value: 2 },
      { type: 'value', family: 'seen', labels, action: 'increment', value: 0.5 },
      { type: 'value', family: 'level', labels: {}, action: 'set', value: 3 },
      { type: 'value', family: 'level', labels: {}, action: 'increment', value: -1 },
      { type: 'value', family: 'spread', labels: {}, action: 'observe', value: 1.5 },
    ]);
  });

  it.each([
    [
      'a negative increment of a counter',
      'C.Metric().increment(-1)',
      /a counter cannot be incremented by -1/,
    ],
    ['setting a counter', 'C.Metric().set(1)', /a counter has no set/],
    [
      'another kind',
      'pb_utils.MetricFamily("c", "C", pb_utils.MetricFamily.GAUGE)',
      /'c' exists as a counter described as 'C'/,
    ],
    [
      'another description',
      'pb_utils.MetricFamily("c", "D", pb_utils.MetricFamily.COUNTER)',
      /'c' exists/,
    ],
    [
      'unordered buckets',
      'pb_utils.MetricFamily("h", "H", 2).Metric(buckets=[2, 1])',
      /buckets must increase/,
    ],
    [
      'a histogram without buckets',
      'pb_utils.MetricFamily("h", "H", 2).Metric()',
      /a histogram needs buckets/,
    ],
    ['an unknown kind', 'pb_utils.MetricFamily("x", "X", 9)', /kind must be/],
  ])('refuses %s', async (_what, statement, message) => {
    const source = `
class TritonPythonModel:
    def initialize(self, args):
        C = pb_utils.MetricFamily("c", "C", pb_utils.MetricFamily.COUNTER)
        ${statement}
    def execute(self, requests):
        return []
`;
    await expect(models.loadSource(intToInt, source)).rejects.toThrow(message);
  });
});
