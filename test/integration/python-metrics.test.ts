import { afterEach, describe, expect, it } from 'vitest';
import {
  asInts,
  configText,
  ints,
  PythonModels,
  testRequest,
} from '../backends/python/python-models.js';

const intToInt = configText(['A INT32 -1'], ['B INT32 -1']);

const models = new PythonModels();
afterEach(() => models.close());

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
