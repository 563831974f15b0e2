import { fork } from 'node:child_process';
import { once } from 'node:events';
import { chmod, readFile, readlink } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';
import {
  asInts,
  configText,
  ints,
  type LoadedModel,
  modelHeader,
  PythonModels,
  testInterpreter,
  testRequest,
} from '../backends/python/python-models.js';

const hangingInstance = fileURLToPath(
  new URL('../fixtures/python-hanging-instance.mjs', import.meta.url),
);
const intToInt = configText(['A INT32 -1'], ['B INT32 -1']);
const pidSource = `
import os, subprocess
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(int(r.inputs()[0].as_numpy()[0])) for r in requests]
    def answer(self, what):
        if what == 0:
            values = [os.getpid()]
        elif what == 1:
            os._exit(9)
        elif what == 2:
            os.kill(os.getpid(), 9)
        elif what == 3:
            import time
            time.sleep(600)
        elif what == 4:
            while True:
                pass
        elif what == 5:
            values = [subprocess.Popen(["sleep", "600"]).pid]
        elif what == 6:
            os.write(1, os.urandom(100000)); os.write(2, b"x" * 100000); print("words")
            values = [6]
        elif what == 7:
            raise ValueError("x" * 1000)
        elif what == 8:
            with open("/proc/self/status") as status:
                values = [int(l.split()[1]) for l in status if l.startswith("VmRSS")]
            values.append(len(os.listdir("/proc/self/fd")))
        elif what == 9:
            import ctypes
            ctypes.string_at(0)
        return pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array(values, np.int32))])
`;

const models = new PythonModels();
afterEach(() => models.close());

async function ask(model: LoadedModel, what: number): Promise<number[]> {
  const { outputs } = await model.infer(testRequest([ints('A', [1], [what])]));
  return asInts(outputs[0]);
}

/** True while the process runs; a zombie has ended. */
async function isRunning(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return status !== '' && !/^State:\s+Z/m.test(status);
}

describe('the process of a Python model', () => {
  it.each([
    ['exits', 1, /ended with exit code 9$/],
    ['is killed', 2, /was ended by SIGKILL$/],
    ['reads no memory of its own', 9, /was ended by SIGSEGV$/],
  ])('fails its requests and asks to be replaced when it %s', async (_what, what, message) => {
    const model = await models.loadSource(intToInt, pidSource);
    const error = { code: 'UNAVAILABLE', message: expect.stringMatching(message) };
    await expect(ask(model, what)).rejects.toMatchObject(error);
    expect(model.host.breaks).toEqual([error]);
    expect(model.host.breaks[0]?.message).toMatch(/^Stub process 'm_0_0' is not healthy/);
    // What comes later fails at once.
    await expect(ask(model, 0)).rejects.toMatchObject(error);
    await model.instance.unload();
    expect(model.host.breaks).toHaveLength(1);
  });

  it('ends open streams when it dies', async () => {
    const model = await models.loadSource(
      `${intToInt}\nmodel_transaction_policy { decoupled: true }`,
      `
import os, threading
class TritonPythonModel:
    def execute(self, requests):
        self.kept = requests
        threading.Timer(0.05, lambda: os._exit(4)).start()
`,
    );
    const request = testRequest([ints('A', [1], [0])]);
    await model.instance.execute([request]);
    await request.ended;
    expect(request.stream.errors[0]?.message).toMatch(/exit code 4$/);
    expect(request.stream.endCount).toBe(1);
  });

  it('ends with the processes that it started when the model is unloaded', async () => {
    const model = await models.loadSource(intToInt, pidSource);
    const pids = [...(await ask(model, 0)), ...(await ask(model, 5))];
    expect(await Promise.all(pids.map(isRunning))).toEqual([true, true]);
    await model.instance.unload();
    await expect.poll(() => Promise.all(pids.map(isRunning))).toEqual([false, false]);
  });

  it('is not disturbed by what the model prints', async () => {
    const model = await models.loadSource(intToInt, pidSource);
    for (let round = 0; round < 5; round += 1) expect(await ask(model, 6)).toEqual([6]);
    expect(await ask(model, 8)).toHaveLength(2);
    await expect.poll(() => model.host.logs.join('\n')).toContain('info m_0_0: xxx');
    expect(model.host.logs.every((line) => line.length < 5000)).toBe(true);
  });

  it('does not grow over 10,000 failing executions', async () => {
    const model = await models.loadSource(intToInt, pidSource);
    const fail = async (count: number) => {
      for (let index = 0; index < count; index += 1) {
        await expect(ask(model, 7)).rejects.toThrow('xxx');
      }
    };
    await fail(500);
    const [kilobytesBefore = 0, filesBefore] = await ask(model, 8);
    await fail(10_000);
    const [kilobytesAfter = 0, filesAfter] = await ask(model, 8);
    expect(filesAfter).toBe(filesBefore);
    expect(kilobytesAfter - kilobytesBefore).toBeLessThan(2000);
  });

  it('survives the signals of a terminal', async () => {
    const model = await models.loadSource(intToInt, pidSource);
    const [pid = 0] = await ask(model, 0);
    process.kill(pid, 'SIGINT');
    process.kill(pid, 'SIGTERM');
    expect(await ask(model, 0)).toEqual([pid]);
  });

  it('does not hand its channel on to programs of the model', async () => {
    const model = await models.loadSource(intToInt, pidSource);
    const [child = 0] = await ask(model, 5);
    // The number is free, or a file of the program's own: never our socket.
    const target = await readlink(`/proc/${child}/fd/3`).catch((error: Error) => error.message);
    expect(target).toMatch(/^ENOENT|^\//);
  });
});

describe('an interpreter', () => {
  it.each([
    [
      'that does not exist',
      '/nowhere/python3',
      /^cannot start Python interpreter '\/nowhere\/python3' \(ENOENT\): install Python 3\.8 or later with numpy, or name another interpreter with --backend-config=python,interpreter=PATH/,
    ],
    ['that is another program', '/bin/false', /'\/bin\/false' ended with exit code 1/],
  ])('%s is a clear load error', async (_what, interpreter, message) => {
    await expect(
      models.loadSource(intToInt, pidSource, { backendConfig: { interpreter } }),
    ).rejects.toThrow(message);
  });

  it('without numpy is a clear load error', async () => {
    const folder = await models.write('m', intToInt, {
      '1/model.py': pidSource,
      'bare/python': `#!/bin/sh\nexec ${testInterpreter()} -I -S "$@"\n`,
    });
    const interpreter = `${folder}/bare/python`;
    await chmod(interpreter, 0o755);
    await expect(models.load(folder, intToInt, { backendConfig: { interpreter } })).rejects.toThrow(
      /Python models need numpy, which \S+ lacks \(.*\): install it with '\S+ -m pip install numpy', or name another interpreter with --backend-config/,
    );
  });

  it('that does not come up in time is a load error', async () => {
    const folder = await models.write('m', intToInt, {
      '1/model.py': pidSource,
      'slow/python': '#!/bin/sh\nsleep 600\n',
    });
    const interpreter = `${folder}/slow/python`;
    await chmod(interpreter, 0o755);
    const backendConfig = { interpreter, 'stub-timeout-seconds': '0.2' };
    await expect(models.load(folder, intToInt, { backendConfig })).rejects.toThrow(
      /did not come up within 0\.2 s$/,
    );
  });
});

describe('a hanging model', () => {
  it.each([
    ['sleeps', 3],
    ['computes', 4],
  ])('that %s ends with the thread of its instance', async (_what, what) => {
    const folder = await models.write('m', intToInt, { '1/model.py': modelHeader + pidSource });
    const workerData = { folder, interpreter: testInterpreter(), what };
    const worker = new Worker(hangingInstance, { workerData });
    const [pid] = await once(worker, 'message');
    expect(await isRunning(Number(pid))).toBe(true);
    await worker.terminate();
    await expect.poll(() => isRunning(Number(pid))).toBe(false);
  });

  it('ends when the server is killed', async () => {
    const folder = await models.write('m', intToInt, { '1/model.py': modelHeader + pidSource });
    const server = fork(hangingInstance, {
      execArgv: [],
      env: { ...process.env, MODEL: folder, INTERPRETER: testInterpreter(), WHAT: '4' },
    });
    const [pid] = await once(server, 'message');
    expect(await isRunning(Number(pid))).toBe(true);
    server.kill('SIGKILL');
    await expect.poll(() => isRunning(Number(pid))).toBe(false);
  });
});
