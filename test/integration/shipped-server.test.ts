import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findFreePorts, runServer, ServerProcess } from '../support/server-process.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const repository = `--model-repository=${root}model_repository`;

/** A connection that is kept holds the end of the server, as it does in the reference server. */
const unkept = { connection: 'close' };

interface InferResponse {
  readonly outputs: readonly { readonly name: string; readonly data: readonly string[] }[];
}

async function infer(url: string, model: string, body: string): Promise<InferResponse> {
  const response = await fetch(`${url}/v2/models/${model}/infer`, {
    method: 'POST',
    headers: unkept,
    body,
  });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return JSON.parse(text) as InferResponse;
}

describe('the server as it is shipped', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start([repository]);
  });
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  it('reads each sample digit, as the curl of the README does', async () => {
    const readme = readFileSync(`${root}README.md`, 'utf8');
    const [, path, file] =
      /curl -s localhost:8000(\/v2\/\S+) -d @(examples\/digits\/digit-7\.json)/.exec(readme) ?? [];
    expect(path).toBe('/v2/models/digits/infer');
    for (let digit = 0; digit < 10; digit++) {
      const body = readFileSync(`${root}${file?.replace('7', String(digit))}`, 'utf8');
      const { outputs } = await infer(server.httpUrl, 'digits', body);
      expect(outputs[0]?.data).toHaveLength(3);
      expect(outputs[0]?.data[0]).toMatch(new RegExp(`^\\d\\.\\d{6}:${digit}:[a-z]+$`));
    }
  });

  it('prints a curl that works', async () => {
    const [, path, body] =
      /curl -s http:\/\/127\.0\.0\.1:\d+(\/v2\/\S+) -d '(.+)'/.exec(server.log) ?? [];
    const response = await fetch(`${server.httpUrl}${path}`, {
      method: 'POST',
      headers: unkept,
      body: body ?? '',
    });
    expect([response.status, await response.text()]).toEqual([
      200,
      expect.stringContaining('"outputs"'),
    ]);
  });

  it('prints the table of models, its addresses and the time that the start took', () => {
    for (const model of ['add_sub', 'add_sub_js', 'digits', 'identity_bytes']) {
      expect(server.log).toMatch(new RegExp(`\\| ${model} +\\| 1 +\\| READY +\\|`));
    }
    expect(server.log).toContain(`Started HTTP service at ${server.httpUrl.slice(7)}`);
    expect(server.log).toContain(`Started Metrics service at ${server.metricsUrl.slice(7)}`);
    expect(server.log).toMatch(/ready \d+ ms after the process started/);
  });

  it('counts the requests of a model on the metrics port, and not on the HTTP port', async () => {
    const body = '{"inputs":[{"name":"INPUT0","datatype":"BYTES","shape":[2,1],"data":["a","b"]}]}';
    const series = (text: string, name: string): number =>
      Number(
        new RegExp(`^${name}{model="identity_bytes",version="1"} (\\d+)$`, 'm').exec(text)?.[1],
      );
    const read = async (): Promise<string> =>
      (await fetch(`${server.metricsUrl}/metrics`, { headers: unkept })).text();
    const before = await read();
    const { outputs } = await infer(server.httpUrl, 'identity_bytes', body);
    expect(outputs[0]?.data).toEqual(['a', 'b']);
    const after = await read();
    for (const [name, difference] of [
      ['nv_inference_request_success', 1],
      ['nv_inference_count', 2],
      ['nv_inference_exec_count', 1],
    ] as const) {
      expect([name, series(after, name) - series(before, name)]).toEqual([name, difference]);
    }
    expect((await fetch(`${server.httpUrl}/metrics`, { headers: unkept })).status).toBe(404);
  });

  it('refuses what a user got wrong with exit code 1 and every problem', async () => {
    const { exitCode, stderr } = await runServer([
      repository,
      '--http-port=abc',
      '--exit-on-error=maybe',
      '--load-model=x',
    ]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(
      'Bad option: "--http-port".\nInvalid option value. Got abc, expected a whole number\n',
    );
    expect(stderr).toContain('invalid value for bool option: maybe');
    expect(stderr).toContain("Use of '--load-model' requires");
  });

  it('prints its version and its help with exit code 0', async () => {
    const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
    expect(await runServer(['--version'])).toEqual({
      exitCode: 0,
      stdout: `nereid ${version}\n`,
      stderr: '',
    });
    const help = await runServer(['--help']);
    expect(help.exitCode).toBe(0);
    expect(help.stdout).toContain('--model-control-mode <string>');
  });
});

describe('the environment', () => {
  it('gives the HTTP port by PORT, and options by their variables', async () => {
    const [port] = await findFreePorts();
    const server = await ServerProcess.start([], {
      PORT: String(port),
      NEREID_MODEL_REPOSITORY: `${root}model_repository`,
      NEREID_ALLOW_HTTP_METRICS: 'true',
    });
    try {
      expect(server.httpUrl).toBe(`http://127.0.0.1:${port}`);
      expect((await fetch(`${server.httpUrl}/metrics`, { headers: unkept })).status).toBe(200);
    } finally {
      expect(await server.stop()).toBe(0);
    }
  });

  it('ends the start where a port is taken, naming it', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const address = taken.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    try {
      const { exitCode, stderr } = await runServer([
        repository,
        '--http-address=127.0.0.1',
        `--http-port=${address.port}`,
        '--allow-grpc=false',
        '--allow-metrics=false',
      ]);
      expect(exitCode).toBe(1);
      expect(stderr).toContain(String(address.port));
    } finally {
      taken.close();
    }
  });
});
