import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { configText, modelHeader, testInterpreter } from '../backends/python/python-models.js';
import { ServerProcess } from '../support/server-process.js';

const source = `${modelHeader}
import os, time
class TritonPythonModel:
    def initialize(self, args):
        self.marker = args["model_repository"] + ".hanging"
    def execute(self, requests):
        return [self.answer(int(r.inputs()[0].as_numpy()[0])) for r in requests]
    def answer(self, what):
        if what == 1:
            open(self.marker, "w").close()
            time.sleep(600)
        elif what == 2:
            print("hello from the model")
            os.write(1, os.urandom(1000))
        return pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([os.getpid()], np.int32))])
`;

async function isRunning(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return status !== '' && !/^State:\s+Z/m.test(status);
}

describe('a server with Python models', () => {
  let repository: string;
  let server: ServerProcess;

  beforeAll(async () => {
    repository = await mkdtemp(path.join(tmpdir(), 'nereid-python-server-'));
    for (const name of ['first', 'second']) {
      await mkdir(path.join(repository, name, '1'), { recursive: true });
      await writeFile(path.join(repository, name, '1', 'model.py'), source);
      const text = configText(['A INT32 1'], ['B INT32 1']);
      await writeFile(path.join(repository, name, 'config.pbtxt'), text);
    }
  });
  afterAll(() => rm(repository, { recursive: true }));
  afterEach(() => server.stop());

  async function start(...argv: readonly string[]): Promise<void> {
    server = await ServerProcess.start([
      `--model-repository=${repository}`,
      `--backend-config=python,interpreter=${testInterpreter()}`,
      ...argv,
    ]);
  }

  async function infer(model: string, what: number) {
    const response = await fetch(`${server.httpUrl}/v2/models/${model}/infer`, {
      method: 'POST',
      // A connection that is kept would hold the server's end.
      headers: { connection: 'close' },
      body: JSON.stringify({
        inputs: [{ name: 'A', datatype: 'INT32', shape: [1], data: [what] }],
      }),
    });
    const body = (await response.json()) as {
      readonly error?: string;
      readonly outputs?: readonly { readonly data: readonly number[] }[];
    };
    return { status: response.status, error: body.error, pid: body.outputs?.[0]?.data[0] ?? 0 };
  }

  /** Until the model executes what never ends. */
  async function untilHanging(model: string): Promise<void> {
    const marker = path.join(repository, `${model}.hanging`);
    await expect.poll(() => existsSync(marker)).toBe(true);
    await rm(marker);
  }

  /** The new process of a model, once it answers again. */
  async function revived(model: string, formerPid: number): Promise<number> {
    let pid = 0;
    await expect
      .poll(
        async () => {
          ({ pid } = await infer(model, 0));
          return pid !== 0 && pid !== formerPid;
        },
        { timeout: 20_000 },
      )
      .toBe(true);
    return pid;
  }

  it('counts each of many waiting requests as an execution of its own', async () => {
    await start();
    // Until executions are known to be short, requests go one by one.
    for (let round = 0; round < 8; round += 1) {
      const answers = await Promise.all(Array.from({ length: 32 }, () => infer('first', 0)));
      expect(answers.filter(({ status, pid }) => status !== 200 || pid === 0)).toEqual([]);
    }
    const response = await fetch(`${server.httpUrl}/v2/models/first/stats`, {
      headers: { connection: 'close' },
    });
    const { model_stats } = (await response.json()) as { readonly model_stats: readonly object[] };
    expect(model_stats[0]).toMatchObject({
      inference_count: 256,
      execution_count: 256,
      inference_stats: { success: { count: 256 } },
      batch_stats: [{ batch_size: 1, compute_infer: { count: 256 } }],
    });
  });

  it('fails what runs in a killed process, starts it again, and disturbs no other model', async () => {
    await start();
    const { pid } = await infer('first', 0);
    const other = await infer('second', 0);
    const hanging = infer('first', 1);
    await untilHanging('first');
    process.kill(pid, 'SIGKILL');
    const failed = await hanging;
    expect(failed.status).toBe(503);
    expect(failed.error).toContain("'first_0_0' is not healthy");
    expect(await infer('second', 0)).toEqual(other);
    expect(await revived('first', pid)).not.toBe(pid);
  });

  it('ends a process whose execution takes too long', async () => {
    await start('--execution-timeout-ms=300');
    const { pid } = await infer('first', 0);
    const failed = await infer('first', 1);
    expect(failed.status).toBe(503);
    expect(await revived('first', pid)).not.toBe(pid);
    expect(await isRunning(pid)).toBe(false);
    // It was waited for: nothing of it is left, not even as a zombie.
    await expect.poll(() => existsSync(`/proc/${pid}`)).toBe(false);
  });

  it('logs what a model prints with its name', async () => {
    await start();
    await infer('second', 2);
    await expect.poll(() => server.log).toMatch(/second_0_0: hello from the model/);
    expect((await infer('second', 0)).status).toBe(200);
  });

  it.each(['SIGTERM', 'SIGKILL'] as const)('leaves no process behind after %s', async (signal) => {
    await start('--exit-timeout-secs=5');
    const pids = [(await infer('first', 0)).pid, (await infer('second', 0)).pid];
    if (signal === 'SIGKILL') {
      // Its answer never comes.
      infer('first', 1).catch(() => {});
      await untilHanging('first');
    }
    server.signal(signal);
    await server.ended();
    await expect.poll(() => Promise.all(pids.map(isRunning))).toEqual([false, false]);
  });
});
