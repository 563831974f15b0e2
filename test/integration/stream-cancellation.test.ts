import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { Client, credentials } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelHeader, testInterpreter } from '../backends/python/python-models.js';
import { inferRequest, openStream } from '../support/infer-streams.js';
import { ServerProcess } from '../support/server-process.js';
import { WrittenRepository } from '../support/written-repository.js';

const rounds = process.env['FULL'] === '1' ? 50 : 5;

/** Responses read before the client gives up. */
const readMax = 5;

/**
 * A model makes one response every 10 ms: those that it makes after its client has gone are the time
 * that it takes to hear of it, on the clock of this machine at this moment. 100 ms.
 */
const lateResponsesMax = 10;

const config = `model_transaction_policy { decoupled: true }
  input [{ name: "IS_ENDLESS" data_type: TYPE_INT32 dims: [ 1 ] }]
  output [{ name: "MADE" data_type: TYPE_INT32 dims: [ 1 ] }]`;

/** Endless, or how many responses the last endless request was given. */
const javascript = `export default class {
  made = 0;
  async *execute([request]) {
    const [isEndless] = request.getInput('IS_ENDLESS').data;
    if (isEndless) this.made = 0;
    do {
      if (isEndless) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        this.made += 1;
      }
      yield { outputs: [{ name: 'MADE', shape: [1], data: Int32Array.of(this.made) }] };
    } while (isEndless);
  }
}`;

const python = `${modelHeader}
import time
class TritonPythonModel:
    def initialize(self, args):
        self.made = 0
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            if request.inputs()[0].as_numpy()[0]:
                self.made = 0
                while not sender.is_cancelled():
                    time.sleep(0.01)
                    self.made += 1
                    self.send(sender)
            else:
                self.send(sender)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    def send(self, sender):
        made = pb_utils.Tensor("MADE", np.array([self.made], np.int32))
        sender.send(pb_utils.InferenceResponse([made]))
`;

describe('a stream whose client goes away', () => {
  let repository: WrittenRepository;
  let server: ServerProcess;
  let client: Client;

  beforeAll(async () => {
    repository = await WrittenRepository.create({
      javascript: { config, source: javascript },
      python: { config, source: python, backend: 'python' },
    });
    server = await ServerProcess.start([
      `--model-repository=${repository.directory}`,
      `--backend-config=python,interpreter=${testInterpreter()}`,
    ]);
    client = new Client(server.grpcTarget, credentials.createInsecure());
  });

  afterAll(async () => {
    client.close();
    await server.stop();
    await repository.remove();
  });

  /** Reads some responses of an endless request, cancels it, and returns how many it had read. */
  async function cancelCall(model: string): Promise<number> {
    const stream = openStream(client);
    stream.write(inferRequest(model, { IS_ENDLESS: 1 }));
    let read = 0;
    await new Promise<void>((resolve) => {
      stream.on('data', () => {
        read += 1;
        if (read === readMax) resolve();
      });
    });
    stream.cancel();
    return read;
  }

  /** The same over HTTP, where the client closes its connection. */
  async function hangUp(model: string): Promise<number> {
    const request = httpRequest(`${server.httpUrl}/v2/models/${model}/generate_stream`, {
      method: 'POST',
      agent: false,
    });
    request.on('error', () => {
      // The connection ends in the middle of a response.
    });
    request.end(JSON.stringify({ IS_ENDLESS: 1 }));
    const [response] = await once(request, 'response');
    let read = 0;
    for await (const text of response.setEncoding('utf8')) {
      read += text.split('data: ').length - 1;
      if (read >= readMax) break;
    }
    request.destroy();
    return read;
  }

  /** The model has one instance: it answers this when the endless request has ended. */
  async function countMade(model: string): Promise<number> {
    const answer = await fetch(`${server.httpUrl}/v2/models/${model}/generate`, {
      method: 'POST',
      body: JSON.stringify({ IS_ENDLESS: 0 }),
    });
    expect(answer.status).toBe(200);
    const { MADE: made } = (await answer.json()) as { MADE: number };
    return made;
  }

  it.each([
    ['javascript', 'cancels its call', cancelCall],
    ['javascript', 'hangs up', hangUp],
    ['python', 'cancels its call', cancelCall],
    ['python', 'hangs up', hangUp],
  ] as const)('stops a %s model within 100 ms when it %s', async (model, _, giveUp) => {
    for (let round = 0; round < rounds; round++) {
      const read = await giveUp(model);
      const made = await countMade(model);
      expect(made).toBeGreaterThanOrEqual(read);
      expect(made - read).toBeLessThanOrEqual(lateResponsesMax);
    }
  });
});
