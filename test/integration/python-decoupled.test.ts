import { afterEach, describe, expect, it } from 'vitest';
import {
  asInts,
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
