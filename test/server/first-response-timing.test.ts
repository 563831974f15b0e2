import { expect, it } from 'vitest';
import { invalidArg } from '../../src/errors.js';
import { noParameters } from '../../src/inference/infer-request.js';
import type { InferenceResponse } from '../../src/inference/infer-response.js';
import { FirstResponseTiming } from '../../src/server/first-response-timing.js';
import { FakeClock } from '../support/fake-clock.js';
import { modelConfig } from '../support/model-configs.js';

const response: InferenceResponse = {
  modelName: 'm',
  modelVersion: '1',
  id: '',
  parameters: noParameters,
  outputs: [],
};
const labels = { model: 'm', version: '1' };
const family = 'nv_inference_first_response_histogram_ms';
const control = (name: string, buckets: number[]) => ({
  metric_identifier: { family: name },
  histogram_options: { buckets },
});

/** A request that gets its responses after these times, and then ends. */
function request(timing: FirstResponseTiming, clock: FakeClock, afterMs: readonly number[]) {
  const events: string[] = [];
  const handler = timing.measure(
    {
      respond: () => events.push('response'),
      complete: () => events.push('end'),
      fail: (error) => events.push(error.message),
    },
    clock.nowNs(),
  );
  for (const milliseconds of afterMs) {
    clock.advanceMs(milliseconds);
    handler.respond(response);
  }
  return { handler, events };
}

it('counts the time to the first response of each request, up to and at each bound', () => {
  const clock = new FakeClock();
  const timing = new FirstResponseTiming(modelConfig({}), clock);
  for (const afterMs of [[1, 400], [100], [101], [5000, 1], [5001]]) {
    const { handler, events } = request(timing, clock, afterMs);
    handler.complete();
    expect(events).toEqual([...afterMs.map(() => 'response'), 'end']);
  }
  expect(timing.responses.series(labels)).toEqual({
    labels,
    points: [
      ['100', 2],
      ['500', 3],
      ['2000', 3],
      ['5000', 4],
      ['+Inf', 5],
    ],
    sum: 1 + 100 + 101 + 5000 + 5001,
    count: 5,
  });
});

it('counts nothing of a request that fails without a response', () => {
  const clock = new FakeClock();
  const timing = new FirstResponseTiming(modelConfig({}), clock);
  const { handler, events } = request(timing, clock, []);
  handler.fail(invalidArg('no'));
  expect(events).toEqual(['no']);
  expect(timing.responses.series(labels).count).toBe(0);
});

it.each([
  ['its own family', family, ['0.5', '20', '+Inf']],
  ['another family', 'other', ['100', '500', '2000', '5000', '+Inf']],
])('takes the bounds that the configuration gives for %s', (_what, name, bounds) => {
  const config = modelConfig({ model_metrics: { metric_control: [control(name, [0.5, 20])] } });
  const timing = new FirstResponseTiming(config, new FakeClock());
  expect(timing.responses.series(labels).points.map(([bound]) => bound)).toEqual(bounds);
});
