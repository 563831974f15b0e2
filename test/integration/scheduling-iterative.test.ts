import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelHeader, testInterpreter } from '../backends/python/python-models.js';
import { ServerProcess } from '../support/server-process.js';
import { inferOne, WrittenRepository } from '../support/written-repository.js';

/*
 * Iterative sequences: the model has its request executed again until it is done. Both sources
 * answer "<steps done>:<requests of this execution>" and keep their progress by correlation id; a
 * decoupled one sends that at each step, the other one at the end. A negative number of steps asks
 * for a response that comes back together with the wish to go on.
 */

const javascript = `
import { setTimeout as sleep } from 'node:timers/promises';
export default class Count {
  initialize({ modelConfig }) {
    this.isDecoupled = modelConfig.model_transaction_policy?.decoupled === true;
    this.steps = new Map();
  }
  async execute(requests) {
    await sleep(2);
    return requests.map((request) => this.step(request, requests.length));
  }
  step(request, size) {
    const done = (request.isSequenceStart ? 0 : (this.steps.get(request.correlationId) ?? 0)) + 1;
    this.steps.set(request.correlationId, done);
    const response = { outputs: [{ name: 'Y', data: [done + ':' + size] }] };
    const steps = request.inputs[0].data[0];
    const isLast = done >= Math.abs(steps);
    if (this.isDecoupled) request.send(response);
    if (!isLast) request.reschedule();
    if (!isLast) return steps < 0 ? response : undefined;
    if (this.isDecoupled) request.end();
    else return response;
  }
}`;

const python = `${modelHeader}
import json, time
class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.is_decoupled = pb_utils.using_decoupled_model_transaction_policy(config)
        self.steps = {}
    def execute(self, requests):
        time.sleep(0.002)
        responses = [self.step(request, len(requests)) for request in requests]
        return None if self.is_decoupled else responses
    def step(self, request, size):
        is_start = request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
        done = (0 if is_start else self.steps.get(request.correlation_id(), 0)) + 1
        self.steps[request.correlation_id()] = done
        text = np.array([["{}:{}".format(done, size)]], dtype=object)
        response = pb_utils.InferenceResponse([pb_utils.Tensor("Y", text)])
        steps = int(request.inputs()[0].as_numpy().flat[0])
        is_last = done >= abs(steps)
        if self.is_decoupled:
            sender = request.get_response_sender()
            sender.send(response)
        if not is_last:
            request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            return response if steps < 0 else None
        if self.is_decoupled:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        else:
            return response
`;

const tensors =
  'input { name: "X" data_type: TYPE_INT32 dims: 1 }\n' +
  'output { name: "Y" data_type: TYPE_STRING dims: 1 }\n' +
  'instance_group { count: 1 kind: KIND_CPU }\n';
const batched = `${tensors}max_batch_size: 4\n`;
const iterative = (strategy: string): string =>
  `sequence_batching { iterative_sequence: true ${strategy} }\n`;
const decoupled = 'model_transaction_policy { decoupled: true }\n';

const configs = {
  stream: `${batched}${decoupled}${iterative('oldest { max_candidate_sequences: 4 }')}`,
  ordered: `${batched}${decoupled}${iterative('oldest { max_candidate_sequences: 4 preserve_ordering: true }')}`,
  lone: `${batched}${decoupled}${iterative('oldest { max_candidate_sequences: 1 }')}`,
  single: `${tensors}${iterative('direct {}')}`,
  plain: tensors,
} as const;

/** What the model sent, or the error. */
function eventText(event: string): string {
  // The server's own event.
  const { Y, error } = JSON.parse(event.slice('data: '.length)) as {
    readonly Y?: string;
    readonly error?: string;
  };
  return Y ?? `error: ${error}`;
}

describe.each([
  { backend: 'javascript', source: javascript },
  { backend: 'python', source: python },
] as const)('iterative sequences of a $backend model', ({ backend, source }) => {
  let repository: WrittenRepository;
  let server: ServerProcess;

  beforeAll(async () => {
    const models = Object.entries(configs).map(([name, config]) => [
      name,
      { backend, source, config },
    ]);
    repository = await WrittenRepository.create(Object.fromEntries(models));
    server = await ServerProcess.start([
      `--model-repository=${repository.directory}`,
      `--backend-config=python,interpreter=${testInterpreter()}`,
    ]);
  });
  afterAll(async () => {
    await server.stop();
    await repository.remove();
  });

  /** The events of one stream as text, `X` being the steps asked for. */
  async function* streamed(model: string, steps: number, signal: AbortSignal | null = null) {
    const response = await fetch(`${server.httpUrl}/v2/models/${model}/generate_stream`, {
      method: 'POST',
      headers: { connection: 'close' },
      body: JSON.stringify({ X: steps }),
      signal,
    });
    let rest = '';
    expect(response.status).toBe(200);
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const events = `${rest}${chunk}`.split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) yield eventText(event);
    }
  }

  async function allOf(model: string, steps: number): Promise<readonly string[]> {
    const texts: string[] = [];
    for await (const text of streamed(model, steps)) texts.push(text);
    return texts;
  }

  async function statistics(model: string) {
    const response = await fetch(`${server.httpUrl}/v2/models/${model}/stats`, {
      headers: { connection: 'close' },
    });
    const body = (await response.json()) as {
      readonly model_stats: readonly {
        readonly execution_count: number;
        readonly inference_stats: { readonly success: { readonly count: number } };
      }[];
    };
    return body.model_stats[0];
  }

  it.each(['stream', 'ordered'])(
    'streams a response at each step, several requests sharing an execution: %s',
    async (model) => {
      const steps = [1, 25, 30, 40];
      const streams = await Promise.all(steps.map((count) => allOf(model, count)));
      for (const [index, texts] of streams.entries()) {
        const done = texts.map((text) => Number(text.split(':')[0]));
        expect(done).toEqual(Array.from({ length: steps[index] ?? 0 }, (_, step) => step + 1));
      }
      const sizes = streams.flat().map((text) => Number(text.split(':')[1]));
      expect(Math.max(...sizes)).toBeGreaterThan(1);
      expect(Math.max(...sizes)).toBeLessThanOrEqual(4);
    },
  );

  it('answers once, after as many executions as the model asked for', async () => {
    expect(await inferOne(server.httpUrl, 'single', 7)).toMatchObject({ value: '7:1' });
    expect(await statistics('single')).toMatchObject({
      execution_count: 7,
      inference_stats: { success: { count: 1 } },
    });
  });

  it('frees the slot of a stream whose client hangs up', async () => {
    const hangUp = new AbortController();
    const endless = streamed('lone', 1_000_000_000, hangUp.signal);
    expect(await endless.next()).toEqual({ done: false, value: '1:1' });
    // The only slot is taken: this one starts when the other has gone.
    const next = allOf('lone', 2);
    hangUp.abort();
    await expect(endless.next()).rejects.toThrow();
    expect(await next).toEqual(['1:1', '2:1']);
  });

  it('fails a request that is answered and rescheduled at once', async () => {
    const { status, error } = await inferOne(server.httpUrl, 'single', -2);
    expect(status).toBe(500);
    expect(error).toMatch(/execute must .* for a rescheduled request/);
  });

  it('refuses to execute a request again without iterative_sequence', async () => {
    const { status, error } = await inferOne(server.httpUrl, 'plain', 2);
    expect(status).toBe(400);
    expect(error).toContain('needs sequence_batching with iterative_sequence');
    expect(await inferOne(server.httpUrl, 'plain', 1)).toMatchObject({ status: 200 });
  });
});
