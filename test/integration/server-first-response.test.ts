import { afterEach, expect, it } from 'vitest';
import { ServerProcess } from '../support/server-process.js';
import { oneNumber, WrittenRepository } from '../support/written-repository.js';

const source = `
export default class Counter {
  async *execute([request]) {
    for (let i = 0; i < request.inputs[0].data[0]; i += 1) {
      yield { outputs: [{ name: 'Y', shape: [1], data: [String(i)] }] };
    }
  }
}`;
const config =
  `${oneNumber()}model_transaction_policy { decoupled: true }\n` +
  'model_metrics { metric_control { metric_identifier { family: "nv_inference_first_response_histogram_ms" } ' +
  'histogram_options { buckets: [ 30000, 60000 ] } } }';

let repository: WrittenRepository;
let server: ServerProcess;
afterEach(async () => {
  await server.stop();
  await repository.remove();
});

async function metricsAfterTwoStreams(flags: readonly string[]): Promise<string> {
  repository = await WrittenRepository.create({ count: { config, source } });
  server = await ServerProcess.start([`--model-repository=${repository.directory}`, ...flags]);
  for (let round = 0; round < 2; round += 1) {
    const response = await fetch(`${server.httpUrl}/v2/models/count/generate_stream`, {
      method: 'POST',
      headers: { connection: 'close' },
      body: '{"X":3}',
    });
    expect((await response.text()).match(/data: /g)).toHaveLength(3);
  }
  const metrics = await fetch(`${server.metricsUrl}/metrics`, { headers: { connection: 'close' } });
  return metrics.text();
}

it('shows how long decoupled requests waited for their first response', async () => {
  const text = await metricsAfterTwoStreams(['--metrics-config=histogram_latencies=true']);
  const family = 'nv_inference_first_response_histogram_ms';
  expect(text).toContain(`# TYPE ${family} histogram`);
  for (const bound of ['30000', '60000', '+Inf']) {
    expect(text).toContain(`${family}_bucket{model="count",version="1",le="${bound}"} 2\n`);
  }
  expect(text).toContain(`${family}_count{model="count",version="1"} 2\n`);
});

it('leaves the histogram out where it is not asked for', async () => {
  expect(await metricsAfterTwoStreams([])).not.toContain('first_response');
});
