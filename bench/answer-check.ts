import type { LoadRequest } from './load/load-report.js';
import type { Scenario } from './scenario.js';

/**
 * Sends `clients` x `requestsEach` requests, each client with values of its own, and checks every
 * answer. Concurrent, so that an answer that went to the wrong caller is found. Throws at the
 * first wrong one.
 */
export async function checkAnswers(
  serverUrl: string,
  scenario: Scenario,
  clients: number,
  requestsEach: number,
): Promise<void> {
  const url = inferUrl(serverUrl, scenario);
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      for (let request = 0; request < requestsEach; request++) {
        const seed = client * requestsEach + request;
        const { headers, body } = scenario.wire.encode(scenario.createInputs(seed));
        const response = await fetch(url, { method: 'POST', headers, body: new Uint8Array(body) });
        const bytes = Buffer.from(await response.arrayBuffer());
        if (!response.ok) throw new Error(`${scenario.name}: ${response.status} ${bytes}`);
        scenario.check(seed, scenario.wire.decode(response.headers, bytes));
      }
    }),
  );
}

export function inferUrl(serverUrl: string, { model, wire }: Scenario): string {
  return `${serverUrl}${wire.path(model)}`;
}

/** What a load client repeats: the request of seed 1. */
export function createLoad(serverUrl: string, scenario: Scenario): LoadRequest {
  const request = scenario.wire.encode(scenario.createInputs(1));
  return { url: inferUrl(serverUrl, scenario), ...request };
}

/** Rows and executions so far, from the server's own statistics. */
export async function readCounts(
  serverUrl: string,
  { model }: Scenario,
): Promise<{ readonly rows: number; readonly executions: number }> {
  const response = await fetch(`${serverUrl}/v2/models/${model}/stats`);
  // The form of the statistics extension.
  const body = (await response.json()) as {
    readonly model_stats: readonly [
      { readonly inference_count: number; readonly execution_count: number },
    ];
  };
  const [{ inference_count, execution_count }] = body.model_stats;
  return { rows: inference_count, executions: execution_count };
}
